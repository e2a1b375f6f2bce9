// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/op_cost.h"

#include <vector>

namespace ingot::compiler::fusion {

static bool IsExpensive(ScalarOp op) {
  return (op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) || op == ScalarOp::kPow || op == ScalarOp::kAtan2;
}

void AddCost(const ExprPool& pool, ExprId id, OpCost& cost) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kValue) ++cost.leaves;
  if (e.kind == ExprKind::kReduce || e.kind == ExprKind::kScan || e.kind == ExprKind::kContract) {
    cost.has_reduce = true;
  }
  cost.is_expensive = cost.is_expensive || e.kind == ExprKind::kContract;
  if (e.kind == ExprKind::kMap) {
    ++cost.ops;
    cost.is_expensive = cost.is_expensive || IsExpensive(e.op);
    cost.has_root = cost.has_root || e.op == ScalarOp::kRsqrt;
  }
  for (ExprId arg : e.args) AddCost(pool, arg, cost);
}

int64_t BytesOf(const Graph& graph, ValueId v) {
  static const std::vector<int64_t> typical(256, 97);
  const Type& type = graph.type(v);
  return type.Elements().Eval(typical) * static_cast<int64_t>(guards::SizeOf(type.dtype));
}

}  // namespace ingot::compiler::fusion
