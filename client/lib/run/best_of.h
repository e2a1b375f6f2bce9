// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::client {

/// Finds the `count` greatest (or least) elements of rows of floats: the positions, in the order, that
/// std::partial_sort of all pairs of value and position gives, equal values included. NaN counts as the greatest of
/// all.
///
/// partial_sort keeps a heap of the best so far and looks at one element after the other; here blocks without any that
/// is better than the worst of the heap are passed over at once. `widen(element)` is the float that is compared.
template <bool greatest, typename Element, typename Widen>
class BestOf {
 public:
  struct Found {
    int32_t key;  ///< In the order of the floats; NaN is above all, both zeros are one.
    int64_t position;
  };

  explicit BestOf(Widen widen) : widen_(widen) {}

  /// Valid until the next call. 1 <= count <= values.size().
  std::span<const Found> operator()(std::span<const Element> values, size_t count) {
    heap_.clear();
    for (size_t i = 0; i < count; ++i) heap_.push_back({KeyOf(values[i]), static_cast<int64_t>(i)});
    std::make_heap(heap_.begin(), heap_.end(), Precedes);
    heap_.emplace_back();
    for (size_t at = count; at < values.size();) {
      const size_t end = std::min(values.size(), at + kBlock);
      if (end - at == kBlock && !AnyBetter(&values[at], widen_(values[heap_.front().position]))) {
        at = end;
        continue;
      }
      for (; at < end; ++at) {
        const Found candidate{KeyOf(values[at]), static_cast<int64_t>(at)};
        if (!Precedes(candidate, heap_.front())) continue;
        heap_.back() = candidate;
        std::pop_heap(heap_.begin(), heap_.end(), Precedes);
      }
    }
    heap_.pop_back();
    std::sort_heap(heap_.begin(), heap_.end(), Precedes);
    return heap_;
  }

 private:
  static constexpr size_t kBlock = 32;

  static bool Precedes(const Found& a, const Found& b) { return greatest ? a.key > b.key : a.key < b.key; }

  int32_t KeyOf(Element element) const {
    const float value = widen_(element);
    if (value != value) return INT32_MAX;
    const auto bits = std::bit_cast<int32_t>(value + 0.0f);
    return bits ^ ((bits >> 31) & INT32_MAX);
  }

  /// Whether a block has an element better than `worst`. No branches: the loops become vectors.
  bool AnyBetter(const Element* block, float worst) const {
    int better = 0;
    if (greatest) {
      for (size_t i = 0; i < kBlock; ++i) better |= static_cast<int>(!(widen_(block[i]) <= worst));
      return better != 0 && worst == worst;
    }
    if (worst != worst) {
      for (size_t i = 0; i < kBlock; ++i) better |= static_cast<int>(widen_(block[i]) == widen_(block[i]));
    } else {
      for (size_t i = 0; i < kBlock; ++i) better |= static_cast<int>(widen_(block[i]) < worst);
    }
    return better != 0;
  }

  Widen widen_;
  std::vector<Found> heap_;
};

}  // namespace ingot::client
