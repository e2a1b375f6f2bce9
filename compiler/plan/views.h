// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// A result that is a window into the memory of an operand.
struct View {
  ValueId operand = kNoValue;
  Dims strides;
  Dim offset;  ///< elements from the operand's element 0
};

/// How result `result` of `node` looks at its operand's memory, when the operation is a view and
/// the operand's layout allows it; nullopt when it needs memory of its own.
std::optional<View> ViewOf(const Graph& graph, const Node& node, uint32_t result);

/// Where a node that puts its operand 1 into a window of operand 0 in place writes there; nullopt: it is none, or that
/// is not known.
std::optional<View> ScatteredWindow(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
