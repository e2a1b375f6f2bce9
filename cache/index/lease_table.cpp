// SPDX-License-Identifier: Apache-2.0
#include "cache/index/lease_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ingot::cache {

void LeaseTable::Sweep() {
  // At the limit each time, so that leases that have ended keep nobody from one.
  if (leases_.size() < sweep_at_ && leases_.size() < leases_max_) return;
  const SteadyTime now = SteadyNow();
  std::erase_if(leases_, [now](const auto& lease) { return lease.second.ends <= now; });
  sweep_at_ = std::max(kSweepMin, 2 * leases_.size());
}

Lease LeaseTable::LeaseOf(const Digest& key) {
  const auto found = leases_.find(key);
  if (found == leases_.end()) return {};
  const auto left = found->second.ends - SteadyNow();
  if (left <= std::chrono::nanoseconds(0)) {
    leases_.erase(found);
    return {};
  }
  return {found->second.fence, found->second.holder, found->second.progress,
          std::chrono::ceil<std::chrono::milliseconds>(left), false};
}

Task<Lease> LeaseTable::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  CO_TRY(until.Check());
  Held mine;
  {
    MutexLock lock(mutex_);
    if (Lease held = LeaseOf(key); held.fence != 0) co_return held;
    Sweep();
    if (leases_.size() >= leases_max_) {
      co_return Error(Code::kExhausted, fmt::format("{} leases are held, which is the limit", leases_.size()));
    }
    mine = {next_fence_++, std::move(holder), "", SteadyNow() + ttl};
    leases_[key] = mine;
  }
  waiters_.Wake(key);
  co_return Lease{mine.fence, mine.holder, mine.progress, ttl, true};
}

Task<bool> LeaseTable::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                             Until until) {
  CO_TRY(until.Check());
  {
    MutexLock lock(mutex_);
    // Nobody's is nobody's to renew.
    if (fence == 0 || LeaseOf(key).fence != fence) co_return false;
    Held& held = leases_[key];
    held.ends = SteadyNow() + ttl;
    if (held.progress == progress) co_return true;
    held.progress = std::move(progress);
  }
  waiters_.Wake(key);
  co_return true;
}

Task<void> LeaseTable::Release(Digest key, uint64_t fence, Until until) {
  CO_TRY(until.Check());
  {
    MutexLock lock(mutex_);
    if (LeaseOf(key).fence != fence) co_return Status();
    leases_.erase(key);
  }
  waiters_.Wake(key);
  co_return Status();
}

Task<Lease> LeaseTable::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  while (true) {
    WaiterRef waiter;
    Lease held;
    {
      MutexLock lock(mutex_);
      held = LeaseOf(key);
      if (held.fence != fence || held.progress != progress) co_return held;
      waiter = waiters_.Enlist(key);
    }
    // The end of a lease is a change as well.
    const Until change = held.fence == 0 ? until : until.AtMost(held.left);
    const Status woken = co_await Waiter::Wait(waiter, change);
    if (!woken) CO_TRY(until.Check());
  }
}

}  // namespace ingot::cache
