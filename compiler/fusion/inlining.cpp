// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/inlining.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace ingot::compiler::fusion {

constexpr size_t kCoordsMax = 4;      // Places at which one value is computed in a group.
constexpr size_t kNotOwnMax = 12;     // Members computed elsewhere than at the group's own index.

/// Whether a contraction's sums are all that is behind `id`, in another order.
static bool IsProduct(const ExprPool& pool, ExprId id) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kView || e.kind == ExprKind::kReshape) return IsProduct(pool, e.args[0]);
  return e.kind == ExprKind::kContract;
}

/// Coordinates of args[arg], for which variables of the group are cut where products have them apart: channels in
/// groups, pixels in phases. Anything else would rather have long loops than finer ones.
static std::optional<CoordsId> PlaceOfArg(const Lowered& lowered, Group& group, const Expr& e, size_t arg,
                                          CoordsId at) {
  const bool may_cut = e.kind == ExprKind::kReshape && IsProduct(lowered.pool, e.args[arg]);
  while (true) {
    IterationSpace::WantedCut wanted;
    const auto place = group.space.ArgCoords(lowered.pool, e, arg, at, &wanted);
    if (place || !may_cut || wanted.var == kNoVar || IsDepth(wanted.var)) return place;
    if (!group.space.Cut(wanted.var, wanted.inner)) return std::nullopt;
  }
}

static bool InlineInto(const Lowered& lowered, Group& group, ExprId id, CoordsId at, Visited visited,
                       std::vector<Leaf>& leaves, std::vector<std::pair<ExprId, CoordsId>>& seen) {
  const Expr& e = lowered.pool[id];
  if (e.kind == ExprKind::kConst || e.kind == ExprKind::kSize) return true;
  const std::pair key(id, at);
  if (std::find(seen.begin(), seen.end(), key) != seen.end()) return true;
  seen.push_back(key);
  if (e.kind == ExprKind::kValue) {
    leaves.push_back({e.value, at, visited});
    return true;
  }
  if (!ReadsAllIndices(lowered.pool, e, visited)) return false;
  for (size_t k = 0; k < e.args.size(); ++k) {
    const auto arg = PlaceOfArg(lowered, group, e, k, at);
    if (!arg) return false;
    const Visited of_arg = VisitedOfArg(lowered.pool, e, k, visited);
    if (!InlineInto(lowered, group, e.args[k], *arg, of_arg, leaves, seen)) return false;
  }
  return true;
}

bool Inline(const Lowered& lowered, Group& group, ExprId root, CoordsId at, Visited visited,
            std::vector<Leaf>& leaves) {
  std::vector<std::pair<ExprId, CoordsId>> seen;
  return InlineInto(lowered, group, root, at, visited, leaves, seen);
}

size_t ParamsOf(const Lowered& lowered, const Group& group, const std::vector<Leaf>& more) {
  std::vector<ValueId> roots;
  const auto add = [&](ValueId v) {
    const ValueId root = lowered.aliases[v].root;
    const NodeId def = lowered.graph.value(root).def;
    const auto& in = group.members;
    if (def != kNoNode && std::find(in.begin(), in.end(), def) != in.end()) return;
    if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
  };
  for (ValueId v : group.loads) add(v);
  for (const Leaf& leaf : more) add(leaf.value);
  return roots.size() + group.stores.size();
}

/// The variable that loops will run along: that of columns, or of what lies side by side in a result.
static uint16_t InnermostVar(const Graph& graph, const Group& group) {
  const IterationSpace::Shape& shape = group.space.shape();
  if (shape.column != kNoVar) return shape.column;
  for (const Group::Store& store : group.stores) {
    const Coords& at = group.space.at(store.at);
    const Dims& strides = graph.type(store.value).strides;
    for (size_t k = 0; k < at.size(); ++k) {
      if (at[k].vars.size() == 1 && strides[k].is_one()) return at[k].vars[0].first;
    }
  }
  return static_cast<uint16_t>(shape.extents.size() - 1);
}

bool IsWorthwhile(const Lowered& lowered, const Group& group, ValueId value, const OpCost& cost,
                  const std::vector<CoordsId>& places) {
  if (places.size() > kCoordsMax) return false;
  if (places.size() > 1 && cost.is_expensive) return false;
  const Dims& sizes = lowered.graph.type(value).sizes;
  const bool own = std::any_of(places.begin(), places.end(), [&](CoordsId at) { return group.space.IsOwn(at, sizes); });
  if (own) return true;
  // Not depending on the innermost variable, it is computed once for each row.
  const size_t vars = group.space.shape().extents.size();
  const bool is_hoisted =
      places.size() == 1 && vars > 0 && !group.space.Uses(places[0], InnermostVar(lowered.graph, group));
  if (is_hoisted) return true;
  // One for each channel, say: not one for each element that is made with it.
  if (cost.is_expensive || cost.has_reduce || cost.has_root) return false;
  return lowered.decodes[lowered.graph.value(value).def] || group.members.size() < kNotOwnMax * 2;
}

bool IsMadeOfRows(const Lowered& lowered, ValueId value, int steps) {
  const NodeId def = lowered.graph.value(value).def;
  if (def == kNoNode || steps == 0 || lowered.results[def].empty()) return false;
  const std::function<bool(ExprId)> folds = [&](ExprId id) {
    const Expr& e = lowered.pool[id];
    return e.kind == ExprKind::kReduce || std::ranges::any_of(e.args, folds);
  };
  const Dims& sizes = lowered.graph.type(value).sizes;
  if (std::ranges::any_of(lowered.results[def], folds)) return true;
  bool found = false;
  ForEachOperand(lowered.graph.node(def), [&](ValueId v) {
    found |= lowered.graph.type(v).sizes == sizes && IsMadeOfRows(lowered, v, steps - 1);
  });
  return found;
}

bool HoldsStores(const Lowered& lowered, const Group& group) {
  return std::ranges::all_of(group.stores, [&](const Group::Store& store) {
    return group.space.IsOwn(store.at, lowered.StoredSizes(store.value));
  });
}

}  // namespace ingot::compiler::fusion
