// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/fusion/lower/lower.h"

namespace ingot::compiler::fusion {

/// Where the elements of a value lie: in the memory of `root`, which is no view itself.
struct Alias {
  ValueId root = kNoValue;
  Dim offset;
  Dims strides;
};

/// The aliases of all values; a value that is no view is its own root.
/// `lowered[node]` are the expressions of the node's results.
std::vector<Alias> FindAliases(const Graph& graph, const ExprPool& pool, const std::vector<Results>& lowered);

/// For each value the first value whose memory it may share, for the order of in-place writes:
/// coarser than FindAliases, and right for nodes that are left to ATen too.
std::vector<ValueId> SharedStorage(const Graph& graph);

/// The operand into whose memory the node of `value` works; kNoValue where it does not work in place.
ValueId OverwrittenBy(const Graph& graph, ValueId value);

}  // namespace ingot::compiler::fusion
