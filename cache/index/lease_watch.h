// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "cache/async/waiter.h"
#include "cache/index/index.h"

namespace ingot::cache {

/// A lease that lives on another machine, which says changes to those who listen; what it says may be lost.
struct DistantLease {
  /// What holds now.
  std::function<Task<Lease>(Until)> read;
  /// Woken by what is said of the lease from now on.
  std::function<WaiterRef()> listen;
};

/// Looks that may fail one after the other before whoever waits is told that the other side is away.
inline constexpr int kFailedLooksMax = 3;

/// Index::Watch: listens, and looks again by itself after `poll_max` at most, and when the lease should have ended.
Task<Lease> WatchLease(DistantLease lease, uint64_t fence, std::string progress, std::chrono::milliseconds poll_max,
                       Until until);

/// Waits until it is woken or the next look is due, `at_most` from now and `poll_max` with jitter. kTimeout and
/// kCancelled by `until`.
Task<void> PauseBeforeLook(WaiterRef waiter, std::chrono::milliseconds poll_max, std::chrono::nanoseconds at_most,
                           Until until);

}  // namespace ingot::cache
