// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/matrix_product.h"

namespace ingot::compiler {

std::optional<MatrixProduct> MatrixProductOf(const Graph& graph, const Node& node) {
  const auto ref = [&](size_t i) {
    const Ref* operand = i < node.args.size() ? std::get_if<Ref>(&node.args[i]) : nullptr;
    return operand == nullptr ? kNoValue : operand->id;
  };
  MatrixProduct product{ref(0), ref(1), kNoValue, false};
  if (node.op == "aten.linear") {
    product.bias = ref(2);
    product.right_is_transposed = true;
  } else if (node.op != "aten.matmul") {
    return std::nullopt;
  }
  if (product.left == kNoValue || product.right == kNoValue || node.results.size() != 1) return std::nullopt;
  const Type& left = graph.type(product.left);
  const Type& right = graph.type(product.right);
  const Type& result = graph.type(node.results[0]);
  if (right.rank() != 2 || left.rank() < 2 || !result.IsContiguous()) return std::nullopt;
  if (left.rank() > 2 && !left.IsContiguous()) return std::nullopt;
  if (product.bias != kNoValue && graph.type(product.bias).rank() != 1) return std::nullopt;
  return product;
}

}  // namespace ingot::compiler
