// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/emit_context.h"

#include <algorithm>
#include <numeric>

namespace ingot::compiler::fusion {

EmitContext::EmitContext(const Lowered& lowered, Group& group)
    : lowered(lowered),
      graph(lowered.graph),
      pool(lowered.pool),
      group(group),
      members_(group.members.begin(), group.members.end()) {}

ExprId EmitContext::Inlined(ValueId value, CoordsId at) const {
  const Value& v = graph.value(value);
  if (v.def == kNoNode || !members_.contains(v.def) || group.space.HasGathered(at)) return kNoExpr;
  if (group.space.UsesDepth(at) && !lowered.IsDecoded(value)) return kNoExpr;
  const ExprId root = lowered.ExprOf(value);
  const Expr& e = pool[root];
  const bool is_view = lowered.aliases[value].root != value;
  if (is_view && !e.args.empty() && !group.space.ArgCoords(pool, e, 0, at)) return kNoExpr;
  return root;
}

ValueId EmitContext::WrittenOver(ValueId root) const {
  for (const Group::Store& store : group.stores) {
    const NodeId def = graph.value(store.value).def;
    if (lowered.IsWrite(def) && lowered.storage[root] == lowered.storage[store.value]) return store.value;
  }
  return kNoValue;
}

bool EmitContext::IsWhereStored(ValueId value, ValueId written, CoordsId at) const {
  const Expr& root = pool[lowered.ExprOf(written)];
  const auto store = std::ranges::find(group.stores, written, &Group::Store::value);
  return value == OverwrittenBy(graph, written) && root.args.size() == 1 &&
         ApplyMap(root.map, group.space.at(store->at)) == group.space.at(at);
}

/// Which variables the right operands of the group's products depend on.
static std::vector<bool> VarsOfRightOperands(const EmitContext& context, const std::vector<Placed>& products) {
  std::vector<bool> vars(context.group.space.shape().extents.size());
  for (const auto& [id, at] : products) {
    for (const Affine& entry : ContractionArg(context.pool[id], 1, context.group.space.at(at))) {
      for (const auto& [var, coef] : entry.vars) {
        if (!IsDepth(var)) vars[var] = true;
      }
    }
  }
  return vars;
}

LoopVars OrderVars(const EmitContext& context, const std::vector<Placed>& products) {
  const Group& group = context.group;
  LoopVars vars;
  const IterationSpace::Shape& shape = group.space.shape();
  const size_t count = shape.extents.size();
  static const std::vector<int64_t> typical(256, 97);
  std::vector<int64_t> stride(count, 0);
  for (size_t s = group.stores.size(); s-- > 0;) {
    const Group::Store& store = group.stores[s];
    const Type& type = context.graph.type(store.value);
    const Expr& root = context.pool[context.lowered.ExprOf(store.value)];
    Coords at = group.space.at(store.at);
    if (root.kind == ExprKind::kScatter) at = ApplyMap(root.map, at);
    for (size_t k = 0; k < at.size(); ++k) {
      for (const auto& [var, coef] : at[k].vars) {
        stride[var] = (type.strides[k] * coef).Eval(typical);
      }
    }
  }
  std::vector<uint16_t> order(count);
  std::iota(order.begin(), order.end(), uint16_t{0});
  const bool has_reduced = group.space.has_reduced();
  // Rows that share the right operand of a product come last, and its columns are j.
  const std::vector<bool> parts = VarsOfRightOperands(context, products);
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    if (shape.reduced[a] != shape.reduced[b]) return !shape.reduced[a];
    if ((a == shape.column) != (b == shape.column)) return b == shape.column;
    if (parts[a] != parts[b]) return bool(parts[a]);
    return !shape.reduced[a] && stride[a] > stride[b];
  });
  vars.position.resize(count);
  for (size_t p = 0; p < count; ++p) {
    vars.position[order[p]] = p;
    vars.extents.push_back(shape.extents[order[p]]);
  }
  const auto folded = std::count(shape.reduced.begin(), shape.reduced.end(), true);
  vars.row_vars = count - (has_reduced ? folded : (count > 0 ? 1 : 0));
  return vars;
}

}  // namespace ingot::compiler::fusion
