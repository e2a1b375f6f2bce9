// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/alias.h"

#include "compiler/ir/written_memories.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler::fusion {
namespace {

std::optional<Alias> Through(const Graph& graph, const ExprPool& pool, const Expr& view,
                             const std::vector<Alias>& known) {
  if (view.kind == ExprKind::kValue) return known[view.value];
  if (view.kind != ExprKind::kView && view.kind != ExprKind::kReshape) return std::nullopt;
  const Expr& arg = pool[view.args[0]];
  if (arg.kind != ExprKind::kValue) return std::nullopt;
  const Alias& base = known[arg.value];
  Alias alias{base.root, base.offset, {}};
  if (view.kind == ExprKind::kReshape) {
    auto strides = ViewStrides({graph.type(arg.value).dtype, arg.sizes, base.strides}, view.sizes);
    if (!strides) return std::nullopt;
    alias.strides = std::move(*strides);
    return alias;
  }
  alias.strides.assign(view.sizes.size(), Dim());
  for (size_t k = 0; k < view.map.size(); ++k) {
    alias.offset = alias.offset + view.map[k].offset * base.strides[k];
    for (const auto& [dim, coef] : view.map[k].vars) {
      alias.strides[dim] = alias.strides[dim] + coef * base.strides[k];
    }
  }
  return alias;
}

}  // namespace

std::vector<Alias> FindAliases(const Graph& graph, const ExprPool& pool, const std::vector<Results>& lowered) {
  std::vector<Alias> aliases(graph.value_count());
  const auto own = [&](ValueId id) { aliases[id] = {id, Dim(), graph.type(id).strides}; };
  for (const Input& input : graph.inputs) own(input.value);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool is_view = !lowered[id].empty() && ViewRules().contains(node.op);
    for (size_t i = 0; i < node.results.size(); ++i) {
      auto alias = is_view ? Through(graph, pool, pool[lowered[id][i]], aliases) : std::nullopt;
      if (alias) {
        aliases[node.results[i]] = std::move(*alias);
      } else {
        own(node.results[i]);
      }
    }
  }
  return aliases;
}

std::vector<ValueId> SharedStorage(const Graph& graph) {
  std::vector<ValueId> storage(graph.value_count());
  for (ValueId v = 0; v < storage.size(); ++v) storage[v] = v;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if ((node.effects & kWrites) != 0) {
      const WrittenMemories memories(node);
      for (size_t i = 0; i < memories.values.size(); ++i)
        storage[node.results[memories.own_results + i]] = storage[memories.values[i]];
      continue;
    }
    ValueId from = kNoValue;
    if (node.inplace >= 0) {
      from = OverwrittenBy(graph, node.results[0]);
    } else if (MayAlias(node)) {
      ForEachOperand(node, [&](ValueId v) { from = from == kNoValue ? v : from; });
    }
    if (from == kNoValue) continue;
    for (ValueId r : node.results) storage[r] = storage[from];
  }
  return storage;
}

ValueId OverwrittenBy(const Graph& graph, ValueId value) {
  const NodeId def = graph.value(value).def;
  if (def == kNoNode || graph.node(def).inplace < 0) return kNoValue;
  const Node& node = graph.node(def);
  return std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id;
}

}  // namespace ingot::compiler::fusion
