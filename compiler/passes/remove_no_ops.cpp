// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

enum class Kind : uint8_t {
  kNone,
  kSelf,   ///< Eager returns the operand itself.
  kAlias,  ///< Eager returns another tensor over the same memory.
  kCopy,   ///< Eager returns fresh memory.
};

/// All of the list of integers are this one.
bool AreAll(const Call& call, size_t arg, int64_t number) {
  const auto ints = call.IntsAt(arg);
  return ints && std::ranges::all_of(*ints, [number](int64_t i) { return i == number; });
}

bool IsIdentityPermutation(const Graph& graph, const Node& node) {
  std::vector<int64_t> dims;
  if (!PermutationOf(graph, node, dims)) return false;
  return std::is_sorted(dims.begin(), dims.end());
}

/// Of operators that do nothing whatever their other arguments are. Where contiguous(), to() and type_as() return their
/// operand, recordings have no node of them: what is one has copied, although the copy may have the operand's layout in
/// other words (channels last, of images of one pixel) or has got it since.
const Kind* NoOpOf(std::string_view op) {
  static const OpTable<Kind> kinds = [] {
    using enum Kind;
    OpTable<Kind> table;
#define NO_OP(gives) , gives
#include "compiler/ops/ops.def"
    return table;
  }();
  return kinds.Of(op);
}

/// What the node does, given that its result has its operand's type exactly.
Kind KindOf(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  const std::string& op = node.op;
  if (const Kind* kind = NoOpOf(op)) return *kind;
  if (op == "aten.dropout" || op == "aten.feature_dropout") return IsPure(node) ? Kind::kSelf : Kind::kNone;
  // Pads of 1 and -1 move what they keep.
  if (op == "aten.pad" || op == "aten.constant_pad_nd") return AreAll(call, 1, 0) ? Kind::kCopy : Kind::kNone;
  if (op == "aten.repeat" || op == "aten.tile") return AreAll(call, 1, 1) ? Kind::kCopy : Kind::kNone;
  // Without -1 and with equal sizes, reshape returns a view of the whole.
  if (MayCopy(op)) return Kind::kAlias;
  if (op == "aten.slice.Tensor") return call.IntAt(4) == 1 ? Kind::kAlias : Kind::kNone;
  return IsIdentityPermutation(graph, node) ? Kind::kAlias : Kind::kNone;
}

/// cat([x]) and stack-free joins of one tensor copy it.
ValueId OnlyPart(const Graph& graph, const Node& node) {
  if (node.op != "aten.cat" || node.args.empty()) return kNoValue;
  const auto* list = std::get_if<RefList>(&node.args[0]);
  if (!list || list->ids.size() != 1 || list->ids[0] == kNoValue) return kNoValue;
  return graph.type(list->ids[0]) == graph.type(node.results[0]) ? list->ids[0] : kNoValue;
}

bool DropNode(Graph& graph, NodeId id, const std::vector<bool>& escaping) {
  const Node& node = graph.node(id);
  if (node.results.size() != 1 || node.effects != kPure || node.inplace >= 0) return false;
  const ValueId result = node.results[0];
  if (const ValueId part = OnlyPart(graph, node); part != kNoValue) {
    if (escaping[result]) return false;
    ReplaceNode(graph, id, part);
    return true;
  }
  // Of what copy fills, only the type counts.
  const ValueId operand = Call(graph, node).ValueAt(node.op == "aten.copy" ? 1 : 0);
  if (operand == kNoValue || graph.type(operand) != graph.type(result)) return false;
  const Kind kind = KindOf(graph, node);
  if (kind == Kind::kNone) return false;
  // A caller that gets the result must get its own tensor, and for a copy its own memory.
  if (kind == Kind::kCopy && escaping[result]) return false;
  const auto is_output = [](const Use& use) { return use.user == Use::kOutputs; };
  if (kind == Kind::kAlias && std::ranges::any_of(graph.uses(result), is_output)) return false;
  ReplaceNode(graph, id, operand);
  return true;
}

}  // namespace

Result<bool> RemoveNoOps(Graph& graph) {
  const std::vector<bool> escaping = EscapingValues(graph);
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (NodeId id : order) changed |= DropNode(graph, id, escaping);
  // Writing an input's own content back changes nothing.
  const auto is_idle = [](const Write& write) { return write.target == write.value; };
  std::vector<Write> writes = graph.writes;
  if (std::erase_if(writes, is_idle) == 0) return changed;
  graph.SetWrites(std::move(writes));
  return true;
}

}  // namespace ingot::compiler
