// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "compiler/ir/written_memories.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

bool WritesPlaces(std::string_view op) {
  static const OpTable<bool> writers = [] {
    OpTable<bool> table;
#define WRITES_PLACES , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return writers.contains(op);
}

using Aliases = std::unordered_set<ValueId>;

/// Which values may share memory with which, and where each is used last.
class Memory {
 public:
  explicit Memory(const Graph& graph) : graph_(graph), position_(graph.node_capacity(), 0) {
    for (size_t i = 0; i < graph.order().size(); ++i) position_[graph.order()[i]] = i;
  }

  size_t PositionOf(NodeId id) const { return position_[id]; }

  /// `root` and every value that may be a view of it.
  Aliases AliasesOf(ValueId root) const {
    Aliases aliases = {root};
    std::vector<ValueId> open = {root};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      for (const Use& use : graph_.uses(value)) {
        if (!use.IsNode()) continue;
        for (ValueId result : AliasesBy(graph_.node(use.user), value)) {
          if (aliases.insert(result).second) open.push_back(result);
        }
      }
    }
    return aliases;
  }

  /// Some alias is read after `writer` has changed it, or by `writer` at other places than
  /// those it is writing.
  bool IsReadLater(const Aliases& aliases, NodeId writer, size_t operand) const {
    for (ValueId alias : aliases) {
      for (const Use& use : graph_.uses(alias)) {
        if (!use.IsNode() || position_[use.user] > position_[writer]) return true;
      }
    }
    return ReadsElsewhere(aliases, graph_.node(writer), operand);
  }

 private:
  /// Results of a node that may lie in the memory of one of its operands.
  static std::vector<ValueId> AliasesBy(const Node& node, ValueId operand) {
    // Who takes a memory is the next to write to it, and not one more to read it.
    if (node.op == kMemoryOp) return {};
    if ((node.effects & kWrites) == 0) return MayAlias(node) ? node.results : std::vector<ValueId>();
    const WrittenMemories memories(node);
    std::vector<ValueId> left;
    for (size_t i = 0; i < memories.values.size(); ++i) {
      if (memories.values[i] == operand) left.push_back(node.results[memories.own_results + i]);
    }
    return left;
  }

  /// Element by element, x op x may overwrite x; any other sharing may read what is overwritten.
  static bool ReadsElsewhere(const Aliases& aliases, const Node& node, size_t operand) {
    const ValueId own = std::get<Ref>(node.args[operand]).id;
    const bool pointwise = ClassOf(node) == OpClass::kPointwise;
    bool elsewhere = false;
    size_t times = 0;
    ForEachOperand(node, [&](ValueId value) {
      if (!aliases.contains(value)) return;
      times += value == own;
      elsewhere |= value != own;
    });
    return elsewhere || (times > 1 && !pointwise);
  }

  const Graph& graph_;
  std::vector<size_t> position_;
};

/// The argument that holds `value` and that the node may overwrite with its result.
std::optional<size_t> Overwritable(const Graph& graph, const Node& node, ValueId value) {
  if (node.op == kMemoryOp && graph.type(node.results[0]) == graph.type(value)) return 0;
  if (!IsPure(node) || node.results.size() != 1 || MayAlias(node) || graph.type(node.results[0]) != graph.type(value)) {
    return std::nullopt;
  }
  const bool anywhere = ClassOf(node) == OpClass::kPointwise;
  if (!anywhere && !WritesPlaces(node.op)) return std::nullopt;
  for (size_t i = 0; i < (anywhere ? node.args.size() : 1); ++i) {
    const auto* ref = i < node.args.size() ? std::get_if<Ref>(&node.args[i]) : nullptr;
    if (ref && ref->id == value) return i;
  }
  return std::nullopt;
}

/// Elements of a value lie at places of their own, so that writing one changes no other.
bool IsPlain(const Type& type) {
  for (size_t i = 0; i < type.rank(); ++i) {
    if (type.strides[i].is_zero() && !type.sizes[i].is_one()) return false;
  }
  return true;
}

/// The call itself has made the memory that the value lies in, and it is the value's alone.
bool IsOwn(const Graph& graph, ValueId value) {
  const NodeId def = graph.value(value).def;
  return def != kNoNode && !MayAlias(graph.node(def));
}

struct Link {
  NodeId node;
  size_t operand;
};

/// The nodes that lead from the old content of the target to the written value, last first;
/// empty where some link cannot work in place.
std::vector<Link> ChainOf(const Graph& graph, const Write& write) {
  std::vector<Link> chain;
  ValueId value = write.value;
  while (value != write.target) {
    const NodeId def = graph.value(value).def;
    if (def == kNoNode) return {};
    const Node& node = graph.node(def);
    if (const WrittenMemories memories(node); graph.value(value).result >= memories.own_results) {
      value = memories.values[graph.value(value).result - memories.own_results];
      continue;
    }
    std::optional<Link> link;
    // The target itself if it is an operand, else the first: it is the one an in-place call names.
    for (const Arg& arg : node.args) {
      const auto* ref = std::get_if<Ref>(&arg);
      if (!ref || (link && ref->id != write.target)) continue;
      const std::optional<size_t> at = Overwritable(graph, node, ref->id);
      if (!at) continue;
      link = Link{def, *at};
      value = ref->id;
    }
    if (!link) return {};
    chain.push_back(*link);
  }
  return chain;
}

bool WriteInPlace(Graph& graph, const Write& write, const Memory& memory, size_t last_guard) {
  if (!IsPlain(graph.type(write.target))) return false;
  const std::vector<Link> chain = ChainOf(graph, write);
  if (chain.empty()) return false;
  for (const Link& link : chain) {
    // A guard that fails must find every input as it was.
    if (memory.PositionOf(link.node) < last_guard) return false;
    const ValueId old = std::get<Ref>(graph.node(link.node).args[link.operand]).id;
    if (memory.IsReadLater(memory.AliasesOf(old), link.node, link.operand)) return false;
  }
  for (const Link& link : chain) {
    graph.SetInplace(link.node, static_cast<int16_t>(link.operand));
  }
  return true;
}

}  // namespace

Result<bool> Reinplace(Graph& graph) {
  size_t last_guard = 0;
  for (size_t i = 0; i < graph.order().size(); ++i) {
    if (graph.node(graph.order()[i]).effects & kGuard) last_guard = i + 1;
  }
  const Memory memory(graph);
  bool changed = false;
  for (const Write& write : graph.writes) changed |= WriteInPlace(graph, write, memory, last_guard);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto* own = node.op == kMemoryOp && node.inplace < 0 ? std::get_if<Ref>(&node.args[0]) : nullptr;
    if (own == nullptr || !IsOwn(graph, own->id) || !IsPlain(graph.type(own->id)) ||
        memory.IsReadLater(memory.AliasesOf(own->id), id, 0)) {
      continue;
    }
    graph.SetInplace(id, 0);
    changed = true;
  }
  return changed;
}

}  // namespace ingot::compiler
