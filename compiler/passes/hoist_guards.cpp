// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {

Result<bool> HoistGuards(Graph& graph) {
  std::vector<bool> wanted(graph.value_count(), false);
  std::vector<bool> early(graph.node_capacity(), false);
  bool effect_after_is_early = false;
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const Node& node = graph.node(*id);
    bool needed = node.effects & kGuard;
    for (ValueId result : node.results) needed |= wanted[result];
    // Effects keep their order among themselves: what a guard needs may draw random numbers.
    const bool has_effect = node.effects & (kRandom | kOpaque);
    if (has_effect && effect_after_is_early) needed = true;
    if (!needed) continue;
    effect_after_is_early |= has_effect;
    early[*id] = true;
    ForEachOperand(node, [&wanted](ValueId operand) { wanted[operand] = true; });
  }
  std::vector<NodeId> order;
  for (NodeId id : graph.order()) {
    if (early[id]) order.push_back(id);
  }
  for (NodeId id : graph.order()) {
    if (!early[id]) order.push_back(id);
  }
  if (order == graph.order()) return false;
  graph.SetOrder(std::move(order));
  return true;
}

}  // namespace ingot::compiler
