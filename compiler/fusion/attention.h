// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::fusion {

/// The kernel of one scaled_dot_product_attention: scores of a row against all keys, their softmax in
/// a row buffer, and its product with the values. Queries of heads that share keys are neighbouring rows.
struct Attention {
  loop::Kernel kernel;             ///< over the graph's symbols
  std::vector<ValueId> buffers;    ///< graph value behind each parameter
};

/// kUnsupported says what of the call it does not take: dropout, other types, operands whose rows are no vectors.
Result<Attention> MakeAttention(const Graph& graph, const Node& node);

}  // namespace ingot::compiler::fusion
