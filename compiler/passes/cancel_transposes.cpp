// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

constexpr int kDepthMax = 64;

/// Moves one transpose up through what is computed element by element, to the transposes that it undoes.
class Canceller {
 public:
  Canceller(Graph& graph, NodeId root, std::vector<int64_t> dims)
      : graph_(graph), root_(root), dims_(std::move(dims)) {}

  bool Run() {
    const ValueId operand = std::get<Ref>(graph_.node(root_).args[0]).id;
    const Node* def = Definition(graph_, operand);
    if (!def || ClassOf(*def) != OpClass::kPointwise || !IsUndone(operand, 0)) return false;
    const std::optional<ValueId> moved = Move(operand);
    const ValueId result = graph_.node(root_).results[0];
    if (moved && graph_.type(*moved) == graph_.type(result)) {
      ReplaceNode(graph_, root_, *moved);
      return true;
    }
    for (auto id = added_.rbegin(); id != added_.rend(); ++id) graph_.RemoveNode(*id);
    return false;
  }

 private:
  /// Whether the value, transposed, needs no transpose: it is one that this one undoes, or computed of such by nodes
  /// that nobody else needs. A single element lies in every order.
  bool IsUndone(ValueId id, int depth) const {
    if (graph_.type(id).rank() == 0) return true;
    const Node* def = Definition(graph_, id);
    if (!def || depth > kDepthMax || graph_.type(id).rank() != dims_.size()) return false;
    std::vector<int64_t> inner;
    if (PermutationOf(graph_, *def, inner)) {
      for (size_t i = 0; i < dims_.size(); ++i) {
        if (inner[static_cast<size_t>(dims_[i])] != static_cast<int64_t>(i)) return false;
      }
      return true;
    }
    if (ClassOf(*def) != OpClass::kPointwise || !IsPure(*def) || MayAlias(*def) || def->results.size() != 1)
      return false;
    if (graph_.use_count(id) != 1) return false;
    bool all = true, any = false;
    for (const Arg& arg : def->args) {
      if (std::holds_alternative<RefList>(arg)) return false;
      const auto* ref = std::get_if<Ref>(&arg);
      if (!ref) continue;
      all = all && IsUndone(ref->id, depth + 1);
      any |= graph_.type(ref->id).rank() != 0;
    }
    return all && any;
  }

  /// The value without the transposes that it is made of.
  std::optional<ValueId> Move(ValueId id) {
    if (graph_.type(id).rank() == 0) return id;
    const Node def = *Definition(graph_, id);
    std::vector<int64_t> inner;
    if (PermutationOf(graph_, def, inner)) return std::get<Ref>(def.args[0]).id;
    std::vector<Arg> args = def.args;
    for (Arg& arg : args) {
      auto* ref = std::get_if<Ref>(&arg);
      if (!ref) continue;
      const std::optional<ValueId> moved = Move(ref->id);
      if (!moved) return std::nullopt;
      ref->id = *moved;
    }
    const Result<Ref> made = GraphBuilder(graph_, root_).Op(def.op, std::move(args));
    if (!made) return std::nullopt;
    added_.push_back(graph_.value(made->id).def);
    return made->id;
  }

  Graph& graph_;
  const NodeId root_;
  const std::vector<int64_t> dims_;
  std::vector<NodeId> added_;
};

}  // namespace

Result<bool> CancelTransposes(Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (const NodeId id : order) {
    std::vector<int64_t> dims;
    if (!graph.IsPlaced(id) || !PermutationOf(graph, graph.node(id), dims)) continue;
    if (std::ranges::is_sorted(dims) || !std::holds_alternative<Ref>(graph.node(id).args[0])) continue;
    changed |= Canceller(graph, id, std::move(dims)).Run();
  }
  return changed;
}

}  // namespace ingot::compiler
