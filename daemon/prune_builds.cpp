// SPDX-License-Identifier: Apache-2.0
#include "daemon/prune_builds.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/log.h"

namespace ingot::daemon {
namespace {

struct Build {
  std::string home;
  int64_t used_s = 0;  ///< Unix seconds.
  uint64_t bytes = 0;
};

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code failed;
  std::filesystem::recursive_directory_iterator at(directory, failed);
  for (; !failed && at != std::filesystem::recursive_directory_iterator(); at.increment(failed)) {
    struct stat facts{};
    if (lstat(at->path().c_str(), &facts) == 0) bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
  }
  return bytes;
}

/// Homes of other builds without a daemon, the last used first.
std::vector<Build> Unused(const proto::Endpoint& endpoint) {
  std::vector<Build> found;
  std::error_code failed;
  std::filesystem::directory_iterator at(endpoint.store_dir, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::string home = at->path().string();
    const std::string lock = home + "/LOCK";
    struct stat facts{};
    if (home == endpoint.home || !proto::LockFile::LastHolderOf(lock) || lstat(lock.c_str(), &facts) != 0) continue;
    if (!proto::LockFile::HolderOf(lock)) found.push_back({home, facts.st_mtim.tv_sec, BytesIn(home)});
  }
  std::sort(found.begin(), found.end(), [](const Build& a, const Build& b) { return a.used_s > b.used_s; });
  return found;
}

/// Holds its lock meanwhile: whoever starts a daemon there at this moment makes the directory anew.
bool Remove(const Build& build) {
  const auto lock = proto::LockFile::Take(build.home + "/LOCK");
  if (!lock || !*lock) return false;
  if (Status removed = RealFilesystem().Remove(build.home); !removed) {
    LogWarn("cannot remove what another build has left", {{"directory", build.home}, {"reason", removed.error()}});
    return false;
  }
  LogInfo("removed what another build has left", {{"directory", build.home}, {"bytes", build.bytes}});
  return true;
}

}  // namespace

int PruneBuilds(const proto::Endpoint& endpoint, const BuildLimits& limits, const Clock& clock) {
  int removed = 0;
  uint64_t bytes = 0;
  for (const Build& build : Unused(endpoint)) {
    const int64_t age_s = std::max<int64_t>(0, clock.now_s() - build.used_s);
    const bool is_old = limits.age_s_max != 0 && static_cast<uint64_t>(age_s) > limits.age_s_max;
    const bool is_too_much = limits.bytes_max != 0 && bytes + build.bytes > limits.bytes_max;
    if ((is_old || is_too_much) && Remove(build)) {
      ++removed;
    } else {
      bytes += build.bytes;
    }
  }
  return removed;
}

}  // namespace ingot::daemon
