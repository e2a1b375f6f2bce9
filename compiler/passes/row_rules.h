// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Values of which a rank may have a block of the rows alone, with the dim whose places are the rows.
using RowDims = std::unordered_map<ValueId, size_t>;

/// How a node computes a block of the rows of its results from the same block of its operands' rows, and nothing else.
struct RowRule {
  size_t dim = 0;             ///< The rows of every result.
  std::vector<size_t> parts;  ///< Arguments of which it takes the block; the others it takes whole.
  std::vector<size_t> dims;   ///< The dim of each of `parts` that is the rows.
};

/// The rule of a node some of whose operands have rows; nullopt: it needs all rows, or nobody knows better. Read off
/// what ops.def says of the operator: element by element, folded along other dims, or a view that keeps rows apart.
std::optional<RowRule> RowRuleOf(const Graph& graph, const Node& node, const RowDims& rows);

/// The arguments of a view whose result has other rows: a list of its sizes says so.
std::vector<Arg> ArgsForRows(const Graph& graph, const Node& node, size_t dim, const Dim& rows);

}  // namespace ingot::compiler
