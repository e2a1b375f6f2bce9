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

/// True when both strides address the same elements of a tensor of these sizes: strides of
/// dimensions of size 1 do not matter.
bool SameLayout(const Dims& sizes, const Dims& a, const Dims& b);

/// Strides with which memory of (`sizes`, `strides`) is seen as `to`, as torch computes them.
std::optional<Dims> ReshapedStrides(const Dims& sizes, const Dims& strides, const Dims& to);

/// Where slice_scatter and select_scatter in place write within operand 0; nullopt where that is not known.
std::optional<View> ScatteredWindow(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
