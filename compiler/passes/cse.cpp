// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <unordered_map>

#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// Callers that hold both results may tell whether they share memory.
bool BothEscape(const Node& a, const Node& b, const std::vector<bool>& escaping) {
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (escaping[a.results[i]] && escaping[b.results[i]]) return true;
  }
  return false;
}

}  // namespace

Result<bool> EliminateCommonSubexpressions(Graph& graph) {
  std::vector<bool> escaping = EscapingValues(graph);
  std::unordered_map<std::string, NodeId> seen;
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (!IsPure(node) || node.results.empty()) continue;
    const auto [place, is_first] = seen.emplace(ExpressionKey(graph, node), id);
    if (is_first) continue;
    const Node& first = graph.node(place->second);
    if (BothEscape(first, node, escaping)) continue;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (escaping[node.results[i]]) escaping[first.results[i]] = true;
      graph.ReplaceUses(node.results[i], first.results[i]);
    }
    graph.RemoveNode(id);
    changed = true;
  }
  return changed;
}

}  // namespace ingot::compiler
