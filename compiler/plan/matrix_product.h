// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// linear and matmul as one product of matrices: operands and result are seen as matrices where
/// their layout allows it, which is what ATen does too, but with a copy of the result.
struct MatrixProduct {
  ValueId left = kNoValue;
  ValueId right = kNoValue;
  ValueId bias = kNoValue;
  bool right_is_transposed = false;
};
std::optional<MatrixProduct> MatrixProductOf(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
