// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "cache/async/waiter.h"

namespace ingot::cache {

/// Who waits for what may change, by keys. Thread-safe.
class Waiters {
 public:
  WaiterRef Enlist(const Digest& key) {
    MutexLock lock(mutex_);
    if (waiters_.size() >= sweep_at_) Sweep();
    auto waiter = std::make_shared<Waiter>();
    // Those who gave up are met by the next of their key.
    const auto [first, last] = waiters_.equal_range(key);
    for (auto at = first; at != last;) at = at->second.expired() ? waiters_.erase(at) : std::next(at);
    waiters_.emplace(key, waiter);
    return waiter;
  }
  void Wake(const Digest& key) {
    std::vector<WaiterRef> woken;
    {
      MutexLock lock(mutex_);
      const auto [first, last] = waiters_.equal_range(key);
      for (auto at = first; at != last; ++at) {
        if (WaiterRef waiter = at->second.lock()) woken.push_back(std::move(waiter));
      }
      waiters_.erase(first, last);
    }
    for (const WaiterRef& waiter : woken) waiter->Wake();
  }

 private:
  static constexpr size_t kSweepMin = 1024;

  /// Forgets those who gave up, also of keys that nobody asks for again: each time that there are twice as many as the
  /// last time.
  void Sweep() REQUIRES(mutex_) {
    std::erase_if(waiters_, [](const auto& waiter) { return waiter.second.expired(); });
    sweep_at_ = std::max(kSweepMin, 2 * waiters_.size());
  }

  Mutex mutex_;
  size_t sweep_at_ GUARDED_BY(mutex_) = kSweepMin;
  std::multimap<Digest, std::weak_ptr<Waiter>> waiters_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
