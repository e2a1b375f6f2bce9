// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/digest.h"

namespace ingot::daemon {

/// Keeps what was used last, within a number of values and a sum of their weights. A value
/// heavier than the whole bound is not kept. Thread-compatible.
template <typename T>
class Lru {
 public:
  /// A value for as long as it is kept. Whoever has one sees without a lock when it is not any more.
  struct Kept {
    explicit Kept(T value) : value(std::move(value)) {}
    T value;
    std::atomic<bool> is_kept{true};
  };

  Lru(uint64_t count_max, uint64_t weight_max) : count_max_(count_max), weight_max_(weight_max) {}

  /// The value, which becomes the last used; nullptr when absent. Valid until the next Put.
  T* Find(const Digest& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return &at->second->kept->value;
  }
  /// As Find, for who looks again later.
  std::shared_ptr<const Kept> FindKept(const Digest& key) {
    return Find(key) == nullptr ? nullptr : order_.front().kept;
  }

  void Put(const Digest& key, T value, uint64_t weight) {
    Erase(key);
    if (weight > weight_max_ || count_max_ == 0) return;
    order_.push_front({key, std::make_shared<Kept>(std::move(value)), weight});
    index_[key] = order_.begin();
    weight_ += weight;
    while (order_.size() > count_max_ || weight_ > weight_max_) Erase(order_.back().key);
  }

  void Erase(Digest key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return;
    weight_ -= at->second->weight;
    at->second->kept->is_kept = false;
    order_.erase(at->second);
    index_.erase(at);
  }

  size_t size() const { return order_.size(); }
  uint64_t weight() const { return weight_; }

 private:
  struct Slot {
    Digest key;
    std::shared_ptr<Kept> kept;
    uint64_t weight;
  };
  const uint64_t count_max_;
  const uint64_t weight_max_;
  uint64_t weight_ = 0;
  std::list<Slot> order_;
  std::unordered_map<Digest, typename std::list<Slot>::iterator> index_;
};

}  // namespace ingot::daemon
