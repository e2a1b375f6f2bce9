// SPDX-License-Identifier: Apache-2.0
#include "cache/index/lease_watch.h"

#include <algorithm>
#include <utility>

#include "cache/async/jitter.h"

namespace ingot::cache {

Task<void> PauseBeforeLook(WaiterRef waiter, std::chrono::milliseconds poll_max, std::chrono::nanoseconds at_most,
                           Until until) {
  const Until look = until.AtMost(std::min(Jittered(poll_max), at_most));
  const Status woken = co_await Waiter::Wait(std::move(waiter), look);
  if (!woken) CO_TRY(until.Check());
  co_return Status();
}

Task<Lease> WatchLease(DistantLease lease, uint64_t fence, std::string progress, std::chrono::milliseconds poll_max,
                       Until until) {
  int failed = 0;
  while (true) {
    CO_TRY(until.Check());
    // Before the lease is read: what is said after that wakes it.
    const WaiterRef waiter = lease.listen();
    Result<Lease> now = co_await lease.read(until);
    std::chrono::nanoseconds look = poll_max;
    if (now) {
      failed = 0;
      if (now->fence != fence || now->progress != progress) co_return *std::move(now);
      // The end of a lease is a change that nobody says.
      if (now->fence != 0) look = now->left + std::chrono::milliseconds(1);
    } else if (now.error().code() != Code::kUnavailable || ++failed == kFailedLooksMax) {
      // A look that failed may be that of a connection that was cut a moment ago.
      co_return std::move(now).error();
    }
    CO_TRY(co_await PauseBeforeLook(waiter, poll_max, look, until));
  }
}

}  // namespace ingot::cache
