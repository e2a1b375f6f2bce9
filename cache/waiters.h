// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "cache/waiter.h"

namespace ingot::cache {

/// Who waits for what may change, by keys. Not thread-safe: its owner's mutex guards it, and those whom Take gives are
/// woken without that.
class Waiters {
 public:
  WaiterRef Enlist(const Digest& key) {
    auto waiter = std::make_shared<Waiter>();
    // Those who gave up are met by the next of their key.
    const auto [first, last] = waiters_.equal_range(key);
    for (auto at = first; at != last;) at = at->second.expired() ? waiters_.erase(at) : std::next(at);
    waiters_.emplace(key, waiter);
    return waiter;
  }
  std::vector<WaiterRef> Take(const Digest& key) {
    std::vector<WaiterRef> taken;
    const auto [first, last] = waiters_.equal_range(key);
    for (auto at = first; at != last; ++at) {
      if (WaiterRef waiter = at->second.lock()) taken.push_back(std::move(waiter));
    }
    waiters_.erase(first, last);
    return taken;
  }
  /// Forgets those who gave up, also of keys that nobody asks for again.
  void Sweep() {
    std::erase_if(waiters_, [](const auto& waiter) { return waiter.second.expired(); });
  }
  size_t size() const { return waiters_.size(); }

 private:
  std::multimap<Digest, std::weak_ptr<Waiter>> waiters_;
};

}  // namespace ingot::cache
