// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/weight.h"

#include <vector>

namespace ingot::compiler::fusion {

static bool IsExpensive(ScalarOp op) {
  return (op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) || op == ScalarOp::kPow || op == ScalarOp::kAtan2;
}

void Weigh(const ExprPool& pool, ExprId id, Weight& weight) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kValue) ++weight.leaves;
  if (e.kind == ExprKind::kReduce || e.kind == ExprKind::kScan || e.kind == ExprKind::kContract) {
    weight.has_reduce = true;
  }
  weight.is_expensive = weight.is_expensive || e.kind == ExprKind::kContract;
  if (e.kind == ExprKind::kMap) {
    ++weight.ops;
    weight.is_expensive = weight.is_expensive || IsExpensive(e.op);
    weight.has_root = weight.has_root || e.op == ScalarOp::kRsqrt;
  }
  for (ExprId arg : e.args) Weigh(pool, arg, weight);
}

int64_t BytesOf(const Graph& graph, ValueId v) {
  static const std::vector<int64_t> typical(256, 97);
  const Type& type = graph.type(v);
  return type.Elements().Eval(typical) * static_cast<int64_t>(guards::SizeOf(type.dtype));
}

}  // namespace ingot::compiler::fusion
