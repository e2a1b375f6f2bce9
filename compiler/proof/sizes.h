// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// Values of the graph's symbols at which a proof compares: the smallest that there are, where borders lie (1, 2 and 3,
/// alike and mixed), then an odd size, a vector and one more than it, two of them and one more. Those that `conditions`
/// rule out, or at which the graph does not verify, are passed over for the next larger ones. One empty combination
/// where the graph has no symbols; none where nothing small is a size of it.
struct TriedSizes {
  std::vector<std::vector<int64_t>> small;  ///< borders
  /// Of the small ones those of which each symbol takes each: the mixed ones, where there are several symbols.
  std::vector<std::vector<int64_t>> apart;
  std::vector<std::vector<int64_t>> larger;

  /// In the order of what matters.
  std::vector<std::vector<int64_t>> All() const;
};
TriedSizes SizesToTry(const Graph& graph, const guards::GuardSet& conditions);

}  // namespace ingot::compiler
