// SPDX-License-Identifier: Apache-2.0
//
// Nodes that work in place (Node::inplace): what they store into the memory of their operand, and where. The rest of
// that memory stays as it is.
#include <algorithm>
#include <functional>
#include <iterator>
#include <ranges>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using loop::IndexCheck;

/// A dim of the operand for each dim of what is stored.
Coords SamePlace(size_t rank) {
  Coords map;
  for (size_t k = 0; k < rank; ++k) map.push_back(Affine::Var(static_cast<uint16_t>(k)));
  return map;
}

/// The argument of a write that is stored.
size_t SourceArg(const Node& node) { return node.op == "aten.index_copy" ? 3 : node.op == "aten.index_put" ? 2 : 1; }

/// The write whose result `node` puts back where a view took its operand: x[1][2:4] = y writes a part of x[1], which
/// becomes a part of x again. Both are one write into x, unless somebody else reads what lies between.
const Node* InnerWrite(const Graph& graph, const Node& node) {
  const auto operand = [&](const Node& of, size_t arg) -> ValueId {
    const Ref* ref = arg < of.args.size() ? std::get_if<Ref>(&of.args[arg]) : nullptr;
    return ref == nullptr ? kNoValue : ref->id;
  };
  const auto def_of = [&](ValueId value) -> const Node* {
    const NodeId def = value == kNoValue ? kNoNode : graph.value(value).def;
    return def == kNoNode ? nullptr : &graph.node(def);
  };
  const std::string_view view_op = WindowOf(node.op);
  const ValueId between = operand(node, 1);
  const Node* inner = view_op.empty() ? nullptr : def_of(between);
  if (inner == nullptr || inner->effects != kPure || inner->inplace >= 0 || !WriteRules().contains(inner->op))
    return nullptr;
  const Node* view = def_of(operand(*inner, 0));
  if (view == nullptr || view->op != view_op || operand(*view, 0) != operand(node, 0)) return nullptr;
  if (!std::equal(view->args.begin() + 1, view->args.end(), node.args.begin() + 2, node.args.end())) return nullptr;
  const auto uses = graph.uses(between);
  return std::distance(uses.begin(), uses.end()) == 1 ? inner : nullptr;
}

/// What `r` stores at `window` of its operand: all of its source, or what the write before has put there.
Results Put(const Rule& r, Coords window) {
  const Node* inner = InnerWrite(r.graph(), r.node());
  if (inner != nullptr) {
    const Rule rule{r.pool, Call(r.graph(), *inner), r.why};
    const Results written = WriteRules().at(inner->op)(rule);
    const ExprId id = written.size() == 1 ? written[0] : kNoExpr;
    const Dims& sizes = r.graph().type(inner->results[0]).sizes;
    const auto is_whole = [&](size_t k) {
      return std::ranges::any_of(std::views::iota(size_t{0}, window.size()), [&](size_t d) {
        return window[d] == Affine::Var(static_cast<uint16_t>(k)) && r.result().sizes[d] == sizes[k];
      });
    };
    bool fits = id != kNoExpr;
    // An index is held against the dim of the operand: the window must have all of it.
    for (size_t k = 0; fits && k < sizes.size(); ++k) fits = r.pool[id].map[k].gathered.empty() || is_whole(k);
    if (fits) {
      Coords map = ApplyMap(window, r.pool[id].map);
      const std::vector<ExprId> args = r.pool[id].args;
      return {r.pool.Scatter(args[0], {args.begin() + 1, args.end()}, r.pool[id].check, std::move(map))};
    }
  }
  return {r.pool.Scatter(r.pool.Cast(r.Tensor(1), r.result().dtype), {}, IndexCheck::kNone, std::move(window))};
}

/// index_copy(x, dim, index, source): x[..., index[i], ...] = source[..., i, ...]
Results IndexCopy(const Rule& r) {
  const size_t rank = r.result().rank();
  const ExprId index = IndexAt(r, r.call.ValueAt(2)), source = r.Tensor(3);
  const auto axis = AxisAt(r, 1, rank);
  if (!axis || index == kNoExpr || source == kNoExpr || rank == 0) {
    return r.No("a dim that is not there, or indices of another type than i32 and i64");
  }
  const Dims& sizes = r.pool[source].sizes;
  Dims fitting = r.result().sizes;
  if (r.pool[index].sizes.size() == 1) fitting[*axis] = r.pool[index].sizes[0];
  if (r.pool[index].sizes.size() != 1 || sizes != fitting) return r.No("a source or indices of other sizes");
  const ExprId at = r.pool.View(index, sizes, {Affine::Var(static_cast<uint16_t>(*axis))});
  Coords map = SamePlace(rank);
  map[*axis] = Affine{Dim(), {}, {{0, Dim(1)}}};
  return {r.pool.Scatter(r.pool.Cast(source, r.result().dtype), {at}, IndexCheck::kWithin, std::move(map))};
}

/// index_put(x, [index, ...], values, accumulate): x[index, ...] = values, which broadcast.
Results IndexPut(const Rule& r) {
  const auto* list = r.call.Get<RefList>(1);
  const ExprId values = r.Tensor(2);
  if (!list || values == kNoExpr || r.call.BoolAt(3).value_or(false)) return r.No("indices that add up");
  auto indexed = IndexedBy(r, r.result().sizes, list->ids);
  if (!indexed) return {};
  const ExprId source = r.pool.Expand(r.pool.Cast(values, r.result().dtype), indexed->sizes);
  if (source == kNoExpr) return r.No("values that do not broadcast");
  return {r.pool.Scatter(source, std::move(indexed->indices), IndexCheck::kWrap, std::move(indexed->map))};
}

/// Operand 1 where a view by the other arguments would look.
Results Scattered(const Rule& r) {
  const std::optional<Node> window = WindowOf(r.node());
  const ExprId source = r.Tensor(1);
  if (!window || source == kNoExpr) return r.No("a source that is not there");
  const std::vector<ViewMap> maps = ViewMapsOf(r.graph(), *window, {});
  if (maps.size() != 1) return r.No("a dim, index or step that is not there, or no constant");
  size_t rank = 0;
  for (const ViewMap::Axis& axis : maps[0].axes) rank += axis.along.size();
  if (r.pool[source].sizes.size() != rank) return r.No("a source of another rank");
  return Put(r, CoordsOf(maps[0]));
}

/// copy(x, source), which broadcasts.
Results Copy(const Rule& r) {
  return InPlace(r, r.pool.Expand(r.pool.Cast(r.Tensor(1), r.result().dtype), r.result().sizes));
}

}  // namespace

const RuleTable& WriteRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define WRITE(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

std::vector<NodeId> WritesWithin(const Graph& graph, NodeId write, ExprId stored, const ExprPool& pool) {
  std::vector<NodeId> within;
  const std::function<bool(ExprId, ValueId)> reads = [&](ExprId id, ValueId value) {
    const Expr& e = pool[id];
    return e.kind == ExprKind::kValue ? e.value == value
                                      : std::ranges::any_of(e.args, [&](ExprId arg) { return reads(arg, value); });
  };
  for (const Node* node = &graph.node(write); InnerWrite(graph, *node) != nullptr;) {
    const ValueId between = std::get<Ref>(node->args[SourceArg(*node)]).id;
    if (reads(stored, between)) break;
    within.push_back(graph.value(between).def);
    node = &graph.node(within.back());
  }
  return within;
}

Results InPlace(const Rule& r, ExprId value) {
  return {r.pool.Scatter(value, {}, IndexCheck::kNone, SamePlace(r.result().rank()))};
}

}  // namespace ingot::compiler::fusion
