// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lower/decoders.h"

#include <algorithm>
#include <utility>

#include "compiler/fusion/coords.h"
#include "compiler/fusion/lower/lower.h"
#include "compiler/fusion/op_cost.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {
namespace {

/// Only arithmetic between values, positions and constants.
bool IsArithmetic(const ExprPool& pool, ExprId id) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kValue || e.kind == ExprKind::kConst || e.kind == ExprKind::kNothing) return true;
  // Products leave out the rounding of what they decode, but where it makes something else of it.
  const bool is_rounded = e.kind == ExprKind::kRound && !guards::IsFloat8(e.narrow);
  const bool is_taken = is_rounded || e.kind == ExprKind::kView || e.kind == ExprKind::kReshape ||
                        e.kind == ExprKind::kIota || e.kind == ExprKind::kSize ||
                        (e.kind == ExprKind::kRegion && IsStacked(pool, e)) ||
                        (e.kind == ExprKind::kMap && loop::TraitsOf(e.op).cls != loop::OpClass::kCompare &&
                         loop::TraitsOf(e.op).cls != loop::OpClass::kSelect);
  return is_taken && std::ranges::all_of(e.args, [&](ExprId arg) { return IsArithmetic(pool, arg); });
}

class Decoders {
 public:
  explicit Decoders(const Lowered& lowered)
      : lowered_(lowered), decodes_(lowered.graph.node_capacity()), chains_(lowered.graph.node_capacity()) {
    for (const NodeId id : lowered.graph.order()) decodes_[id] = Decodes(id);
  }
  std::vector<bool> Take() { return std::move(decodes_); }

 private:
  struct Chain {
    int64_t bytes = 0;  ///< read by its first nodes
    size_t ops = 0;
  };

  bool Decodes(NodeId id) {
    constexpr size_t kOpsMax = 12;
    const Node& node = lowered_.graph.node(id);
    if (lowered_.results[id].size() != 1 || lowered_.IsView(id)) return false;
    const ExprId root = lowered_.results[id][0];
    if (!IsArithmetic(lowered_.pool, root) || IsConvolved(node.results[0])) return false;
    OpCost cost;
    AddCost(lowered_.pool, root, cost);
    if (cost.is_expensive) return false;
    Chain& chain = chains_[id];
    chain.ops = cost.ops;
    ForEachOperand(node, [&](ValueId v) {
      const NodeId def = lowered_.graph.value(lowered_.aliases[v].root).def;
      const bool goes_on = def != kNoNode && decodes_[def];
      chain.bytes += goes_on ? chains_[def].bytes : BytesOf(lowered_.graph, v);
      chain.ops += goes_on ? chains_[def].ops : 0;
    });
    if (chain.ops > kOpsMax) return false;
    // Integers are on the way: what is packed comes apart, or stays as it is.
    const int64_t bytes = BytesOf(lowered_.graph, node.results[0]);
    return guards::IsFloat(lowered_.pool[root].dtype) ? 3 * chain.bytes <= 2 * bytes : chain.bytes <= bytes;
  }

  /// Windows reach over edges, and those of convolutions are computed where what they read there is loads, of elements
  /// that many of them share.
  bool IsConvolved(ValueId value) const {
    return std::ranges::any_of(lowered_.graph.uses(value), [&](const Use& use) {
      if (!use.IsNode()) return false;
      const Node& user = lowered_.graph.node(use.user);
      if (ConvRules().contains(user.op)) return true;
      return ViewRules().contains(user.op) &&
             std::ranges::any_of(user.results, [&](ValueId v) { return IsConvolved(v); });
    });
  }

  const Lowered& lowered_;
  std::vector<bool> decodes_;
  std::vector<Chain> chains_;
};

class DepthCutter {
 public:
  explicit DepthCutter(Lowered& lowered) : lowered_(lowered) {}

  void Run() {
    for (const NodeId id : lowered_.graph.order()) {
      for (const ExprId root : lowered_.results[id]) Visit(root);
    }
  }

 private:
  void Visit(ExprId id) {
    if (lowered_.pool[id].kind == ExprKind::kContract) return Cut(id);
    for (size_t k = 0; k < lowered_.pool[id].args.size(); ++k) Visit(lowered_.pool[id].args[k]);
  }

  void Cut(ExprId id) {
    constexpr int kCutsMax = 4;
    for (int cuts = 0; cuts < kCutsMax; ++cuts) {
      IterationSpace space(lowered_.pool[id].sizes);
      IterationSpace::WantedCut wanted;
      if (Follow(space, id, space.identity(), wanted) || wanted.var == kNoVar || !IsDepth(wanted.var)) return;
      lowered_.pool.CutDepth(id, wanted.var, wanted.inner);
    }
  }

  /// False: what `id` reads at `at` cannot be said, though it may be with another variable.
  bool Follow(IterationSpace& space, ExprId id, CoordsId at, IterationSpace::WantedCut& wanted) const {
    const Expr& e = lowered_.pool[id];
    if (e.kind == ExprKind::kValue) {
      if (!space.UsesDepth(at) || !lowered_.IsDecoded(e.value)) return true;
      return Follow(space, lowered_.ExprOf(e.value), at, wanted);
    }
    for (size_t k = 0; k < e.args.size(); ++k) {
      const auto place = space.ArgCoords(lowered_.pool, e, k, at, &wanted);
      if (!place || !Follow(space, e.args[k], *place, wanted)) return false;
    }
    return true;
  }

  Lowered& lowered_;
};

}  // namespace

std::vector<bool> FindDecoders(const Lowered& lowered) { return Decoders(lowered).Take(); }

void CutDepths(Lowered& lowered) { DepthCutter(lowered).Run(); }

}  // namespace ingot::compiler::fusion
