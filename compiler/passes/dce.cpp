// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {

Result<bool> EliminateDeadCode(Graph& graph) {
  std::vector<bool> live(graph.value_count(), false);
  for (ValueId output : graph.outputs) live[output] = true;
  for (const Write& write : graph.writes) live[write.value] = true;
  std::vector<NodeId> kept;
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const Node& node = graph.node(*id);
    bool needed = !IsPure(node) || ChecksValues(graph, node);
    for (ValueId result : node.results) needed |= live[result];
    if (!needed) continue;
    kept.push_back(*id);
    ForEachOperand(node, [&live](ValueId operand) { live[operand] = true; });
  }
  if (kept.size() == graph.order().size()) return false;
  graph.SetOrder({kept.rbegin(), kept.rend()});
  return true;
}

}  // namespace ingot::compiler
