// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/rounding.h"

#include <algorithm>
#include <vector>

#include "compiler/loop/ops.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler::fusion {
namespace {

bool IsNarrow(DType t) { return ComputeType(t) != t; }

/// Finds the values whose last digit counts: consumers come first.
class Finder {
 public:
  explicit Finder(const Lowered& lowered) : graph_(lowered.graph), pool_(lowered.pool), counts_(graph_.value_count()) {
    const std::vector<NodeId>& order = graph_.order();
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = graph_.node(order[i]);
      const Results& results = lowered.results[order[i]];
      if (results.empty() && CountsForAten(node)) {
        ForEachOperand(node, [&](ValueId id) { counts_[id] = true; });
      }
      for (size_t r = 0; r < results.size(); ++r) Visit(results[r], counts_[node.results[r]]);
    }
  }

  const std::vector<bool>& counts() const { return counts_; }

 private:
  /// Whether the last digit of operands counts for a node that stays with ATen.
  bool CountsForAten(const Node& node) const {
    if (node.effects != kPure) return true;
    const auto counts = [&](ValueId id) {
      const DType t = graph_.type(id).dtype;
      return counts_[id] || guards::IsFloat8(t) || !(guards::IsFloat(t) || guards::IsComplex(t));
    };
    switch (ClassOf(node)) {
      // Sums of many products: nobody's last digit is another's.
      case OpClass::kContraction:
      case OpClass::kAttention:
      case OpClass::kCreation: return false;
      case OpClass::kView:
      case OpClass::kShape:
      case OpClass::kGather:
      case OpClass::kReduction: return std::ranges::any_of(node.results, counts);
      // Steps as far as anybody knows.
      case OpClass::kPointwise:
      case OpClass::kRandom:
      case OpClass::kOpaque: break;
    }
    return true;
  }

  void Visit(ExprId id, bool counts) {
    const Expr& e = pool_[id];
    if (e.kind == ExprKind::kValue) {
      if (counts) counts_[e.value] = true;
      return;
    }
    const bool is_operation = e.kind == ExprKind::kMap || e.kind == ExprKind::kReduce || e.kind == ExprKind::kScan;
    // Sums of many products: nobody's last digit is another's.
    if (e.kind == ExprKind::kContract) counts = false;
    counts |= is_operation && loop::IsDiscrete(e.op, pool_[e.args[0]].dtype, e.dtype);
    counts |= e.kind == ExprKind::kRound && loop::IsDiscrete(ScalarOp::kCast, e.dtype, e.narrow);
    for (const ExprId arg : e.args) Visit(arg, counts);
  }

  const Graph& graph_;
  const ExprPool& pool_;
  std::vector<bool> counts_;
};

/// Whether the expression gives nothing that is not an element of `narrow` already. Views must stay what they are: they
/// may stand for memory.
bool IsRounded(const Lowered& lowered, ExprId id, DType narrow) {
  const Expr& e = lowered.pool[id];
  switch (e.kind) {
    case ExprKind::kValue: return lowered.graph.type(e.value).dtype == narrow;
    case ExprKind::kRound: return e.narrow == narrow;
    case ExprKind::kScatter: return true;  // It is only stored.
    case ExprKind::kNothing: return true;
    case ExprKind::kView:
    case ExprKind::kReshape:
    case ExprKind::kGather: return IsRounded(lowered, e.args[0], narrow);
    case ExprKind::kRegion:
      return std::ranges::all_of(e.args, [&](ExprId arg) { return IsRounded(lowered, arg, narrow); });
    default: return false;
  }
}

}  // namespace

void RoundAsEager(Lowered& lowered, bool everywhere) {
  const Graph& graph = lowered.graph;
  const Finder finder(lowered);
  for (const NodeId id : graph.order()) {
    Results& results = lowered.results[id];
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId value = graph.node(id).results[r];
      const DType dtype = graph.type(value).dtype;
      if (!IsNarrow(dtype) || !(everywhere || finder.counts()[value])) continue;
      if (!IsRounded(lowered, results[r], dtype)) results[r] = lowered.pool.Round(results[r], dtype);
    }
  }
}

}  // namespace ingot::compiler::fusion
