// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/proof/array.h"

namespace ingot::compiler {

/// What the operands of a node are.
using OperandOf = std::function<const Array&(ValueId)>;

/// Products of matrices, convolutions and attention, by what PyTorch's documentation says of them: sums in f64 of the
/// products that are named there, rounded once. `graph` has no symbols. Nothing: the node is none of these, or a form
/// of one that nobody has written down here. `work` counts the products.
/// kExhausted: more than `work_max`.
Result<std::optional<Array>> ProductOf(const Graph& graph, const Node& node, const OperandOf& operand,
                                       uint64_t work_max, uint64_t& work);

}  // namespace ingot::compiler
