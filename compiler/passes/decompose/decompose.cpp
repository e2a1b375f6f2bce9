// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/decompose/decompose_rules.h"
#include "compiler/passes/passes.h"

namespace ingot::compiler {
namespace {

using DecomposeRule = Parts (*)(Composite&);

const OpTable<DecomposeRule>& Rules() {
  static const OpTable<DecomposeRule> rules = [] {
    OpTable<DecomposeRule> table;
#define DECOMPOSE(rule) , rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

/// Whether the parts can stand for the results; strides of dims of one element say nothing, and become those recorded.
bool TakeTypes(Graph& graph, const Node& node, const std::vector<Ref>& parts) {
  if (parts.size() != node.results.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Type &type = graph.type(node.results[i]), &part = graph.type(parts[i].id);
    if (type == part) continue;
    const bool is_alike = type.dtype == part.dtype && type.sizes == part.sizes;
    if (!is_alike || !type.IsContiguous() || !part.IsContiguous()) return false;
  }
  for (size_t i = 0; i < parts.size(); ++i) graph.value(parts[i].id).type = graph.type(node.results[i]);
  return true;
}

/// Whether a part is a view of what a node before the parts has made: composites give memory of their own, which a
/// caller may write to.
bool LiesInAnother(const Graph& graph, ValueId part, size_t first_made) {
  for (;;) {
    const NodeId def = graph.value(part).def;
    if (def == kNoNode || def < first_made) return true;
    if (ClassOf(graph.node(def)) != OpClass::kView) return false;
    part = std::get<Ref>(graph.node(def).args[0]).id;
  }
}

/// Whole, it is rounded once, as eager's.
bool IsRoundedOnce(const Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.results[0]).dtype;
  return graph.eager_numerics && (dtype == DType::kF16 || dtype == DType::kBF16);
}

bool DecomposeNode(Graph& graph, NodeId id, DecomposeRule rule) {
  const Node node = graph.node(id);
  const size_t first_made = graph.node_capacity();
  Composite composite(graph, id);
  const Parts parts = rule(composite);
  const auto lies_in_another = [&](Ref part) { return LiesInAnother(graph, part.id, first_made); };
  if (!parts || composite.call().misread() || std::ranges::any_of(*parts, lies_in_another) ||
      !TakeTypes(graph, node, *parts)) {
    for (size_t made = graph.node_capacity(); made-- > first_made;) graph.RemoveNode(static_cast<NodeId>(made));
    return false;
  }
  for (size_t i = 0; i < parts->size(); ++i) graph.ReplaceUses(node.results[i], (*parts)[i].id);
  graph.RemoveNode(id);
  return true;
}

}  // namespace

Result<bool> Decompose(Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (const NodeId id : order) {
    const DecomposeRule* rule = Rules().Of(graph.node(id).op);
    if (rule == nullptr || graph.node(id).effects != kPure || graph.node(id).results.empty()) continue;
    if (IsRoundedOnce(graph, graph.node(id))) continue;
    changed |= DecomposeNode(graph, id, *rule);
  }
  return changed;
}

}  // namespace ingot::compiler
