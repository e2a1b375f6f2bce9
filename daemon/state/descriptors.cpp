// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace ingot::daemon {
namespace {

/// A worker's socket and process, and the memory file it hands over, twice over while it is replaced.
constexpr uint64_t kWorkerDescriptors = 6;

/// Beside the sessions.
uint64_t OthersOf(const Config& config) {
  const uint64_t workers = config.workers != 0 ? config.workers : std::max(1u, std::thread::hardware_concurrency());
  return config.descriptors_reserved + config.store_files_open_max + config.artifacts_cached_max +
         kWorkerDescriptors * workers + config.sessions_reserved +
         (config.web_listen.empty() ? 0 : config.web_connections_max);
}

}  // namespace

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

void MakeRoomForDescriptors(const Config& config) {
  // What is wanted beyond makes it grow as it would have.
  constexpr uint64_t kMax = 65536;
  const uint64_t wanted = std::min({RaiseDescriptorLimit(), OthersOf(config) + config.sessions_max, kMax});
  const int any = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int last = any < 0 || wanted == 0 ? -1 : fcntl(any, F_DUPFD_CLOEXEC, static_cast<int>(wanted - 1));
  if (last >= 0) close(last);
  if (any >= 0) close(any);
}

void KeepWithin(Config& config, uint64_t limit) {
  config.artifacts_cached_max = std::min<uint64_t>(config.artifacts_cached_max, limit / 2);
  config.store_files_open_max = std::min<uint64_t>(config.store_files_open_max, limit / 4);
}

uint64_t SessionsWithin(const Config& config, uint64_t limit) {
  const uint64_t taken = OthersOf(config);
  return std::clamp<uint64_t>(limit > taken ? limit - taken : 1, 1, std::max<uint64_t>(1, config.sessions_max));
}

}  // namespace ingot::daemon
