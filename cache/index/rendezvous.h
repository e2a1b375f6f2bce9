// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace ingot::cache {

/// The first `count` of the places where a key may live, as indexes into `names`: the most wanted first. One place
/// more or less moves only the keys that go there or were there (rendezvous hashing); all who know the same names
/// agree.
inline std::vector<size_t> RendezvousOrder(const std::vector<std::string>& names, const Digest& key, size_t count) {
  std::vector<std::pair<Digest, size_t>> weights;
  weights.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    Hasher hasher;
    hasher.AddField(names[i]);
    hasher.Add(key.high);
    hasher.Add(key.low);
    weights.emplace_back(hasher.Finish(), i);
  }
  const size_t kept = std::min(count, weights.size());
  std::partial_sort(weights.begin(), weights.begin() + static_cast<long>(kept), weights.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<size_t> order;
  for (size_t i = 0; i < kept; ++i) order.push_back(weights[i].second);
  return order;
}

}  // namespace ingot::cache
