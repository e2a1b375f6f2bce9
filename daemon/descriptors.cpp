// SPDX-License-Identifier: Apache-2.0
#include "daemon/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <thread>

namespace ingot::daemon {
namespace {

/// A worker's socket and process, and the memory file it hands over, twice over while it is replaced.
constexpr uint64_t kWorkerDescriptors = 6;

}  // namespace

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

uint64_t SessionsWithin(const Config& config, uint64_t limit) {
  const uint64_t workers = config.workers != 0 ? config.workers : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t taken = config.descriptors_reserved + config.artifacts_cached_max + kWorkerDescriptors * workers +
                         config.sessions_reserved + (config.web_listen.empty() ? 0 : config.web_connections_max);
  return std::clamp<uint64_t>(limit > taken ? limit - taken : 1, 1, std::max<uint64_t>(1, config.sessions_max));
}

}  // namespace ingot::daemon
