// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/digest.h"

namespace ingot::daemon {

/// Keeps what was used last, within a number of values and a sum of their weights. Up to four fifths of both belong to
/// what was found since it came: whoever asks for many values once leaves others those they use. A value heavier than
/// the whole bound is not kept. Thread-compatible.
template <typename T>
class Lru {
 public:
  /// A value for as long as it is kept. Whoever has one sees without a lock when it is not any more.
  struct Kept {
    explicit Kept(T value) : value(std::move(value)) {}
    T value;
    std::atomic<bool> is_kept{true};
  };
  struct Slot {
    Digest key;
    std::shared_ptr<Kept> kept;
    uint64_t weight;
    bool was_found = false;
  };
  /// What is kept no longer: who calls under a lock ends it after the lock, since the end of a value may take a while.
  using Gone = std::list<Slot>;

  Lru(uint64_t count_max, uint64_t weight_max) : count_max_(count_max), weight_max_(weight_max) {}

  /// The value, which becomes the last used; nullptr when absent. Valid until the next Put.
  T* Find(const Digest& key) {
    Slot* const slot = FindSlot(key);
    return slot == nullptr ? nullptr : &slot->kept->value;
  }
  /// As Find, for who looks again later.
  std::shared_ptr<const Kept> FindKept(const Digest& key) {
    Slot* const slot = FindSlot(key);
    return slot == nullptr ? nullptr : slot->kept;
  }

  Gone Put(const Digest& key, T value, uint64_t weight) {
    Gone gone = Erase(key);
    if (weight > weight_max_ || count_max_ == 0) return gone;
    Slot slot{key, std::make_shared<Kept>(std::move(value)), weight, !gone.empty() && gone.front().was_found};
    Part& part = PartOf(slot);
    part.slots.push_front(std::move(slot));
    part.weight += weight;
    index_[key] = part.slots.begin();
    KeepShare();
    while (size() > count_max_ || this->weight() > weight_max_) {
      gone.splice(gone.end(), Erase((new_.slots.empty() ? found_ : new_).slots.back().key));
    }
    return gone;
  }

  Gone Erase(const Digest& key) {
    Gone gone;
    const auto at = index_.find(key);
    if (at == index_.end()) return gone;
    const auto slot = at->second;
    index_.erase(at);
    slot->kept->is_kept = false;
    Part& part = PartOf(*slot);
    part.weight -= slot->weight;
    gone.splice(gone.end(), part.slots, slot);
    return gone;
  }

  size_t size() const { return index_.size(); }
  uint64_t weight() const { return new_.weight + found_.weight; }

 private:
  /// The last used first.
  struct Part {
    std::list<Slot> slots;
    uint64_t weight = 0;
  };

  Part& PartOf(const Slot& slot) { return slot.was_found ? found_ : new_; }
  void Move(typename std::list<Slot>::iterator slot, bool was_found) {
    Part& from = PartOf(*slot);
    slot->was_found = was_found;
    Part& to = PartOf(*slot);
    from.weight -= slot->weight;
    to.weight += slot->weight;
    to.slots.splice(to.slots.begin(), from.slots, slot);
  }
  Slot* FindSlot(const Digest& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    Move(at->second, true);
    KeepShare();
    return &*at->second;
  }
  void KeepShare() {
    while (found_.slots.size() > count_max_ / 5 * 4 || found_.weight > weight_max_ / 5 * 4) {
      Move(std::prev(found_.slots.end()), false);
    }
  }

  const uint64_t count_max_;
  const uint64_t weight_max_;
  Part new_;
  Part found_;
  std::unordered_map<Digest, typename std::list<Slot>::iterator> index_;
};

}  // namespace ingot::daemon
