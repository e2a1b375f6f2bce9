// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/loop/cost.h"

namespace ingot::compiler {

/// The least that a node does that PyTorch's own kernels run, over the graph's symbols. Operations are counted where
/// they follow from the sizes: products of matrices, convolutions and attention (its two products), pointwise
/// operators, plain reductions, and what only moves elements, which is none. Views move nothing.
Cost AtenCostOf(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
