// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/ops/ops.h"
#include "compiler/passes/evaluate.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// Bound on one constant made by folding. Larger results are cheaper to compute than to carry.
constexpr size_t kConstantBytesMax = 16 << 10;
/// Bound on all of them in one graph: an artifact is not to grow by what its code computes in no time.
constexpr size_t kFoldedBytesMax = 1 << 20;
constexpr const char* kFolded = "folded";

using Values = std::vector<std::optional<Known>>;

Values KnownValues(const Graph& graph) {
  Values known(graph.value_count());
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::kConstant) continue;
    known[input.value] = Decode(graph.type(input.value), input.data);
  }
  const Lookup lookup = [&known](ValueId id) { return known[id] ? &*known[id] : nullptr; };
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!IsPure(node) || node.results.size() != 1) continue;
    bool all = true;
    ForEachOperand(node, [&](ValueId operand) { all &= known[operand].has_value(); });
    if (all) known[node.results[0]] = Evaluate(graph, node, lookup);
  }
  return known;
}

/// The one element of equal elements, as full() takes it.
std::optional<Arg> FillOf(const Known& known) {
  if (known.count() == 0) return std::nullopt;
  const auto same_bits = [&known](double v) { return std::memcmp(&v, &known.floats[0], sizeof v) == 0; };
  if (known.is_float()) {
    if (!std::all_of(known.floats.begin(), known.floats.end(), same_bits)) return std::nullopt;
    return Arg(known.floats[0]);
  }
  for (int64_t value : known.ints) {
    if (value != known.ints[0]) return std::nullopt;
  }
  if (known.dtype == DType::kBool) return Arg(known.ints[0] != 0);
  return Arg(Dim(known.ints[0]));
}

/// Makes the node's known result a full() or a constant; false where neither is allowed.
bool Materialize(Graph& graph, NodeId id, const Known& known, bool escapes, size_t& folded_bytes) {
  const Node& node = graph.node(id);
  const ValueId result = node.results[0];
  const Type type = graph.type(result);
  const OpClass op_class = ClassOf(node);
  // Creations are cheaper than what would replace them, and views of constants cost nothing.
  if (op_class == OpClass::kCreation || type.strides != guards::ContiguousStrides(type.sizes)) {
    return false;
  }
  if (escapes && MayAlias(node)) return false;
  if (const std::optional<Arg> fill = FillOf(known)) {
    graph.Redefine(id, "aten.full", {type.sizes, *fill, DTypeArg{type.dtype}, None{}, Name("cpu"), None{}});
    return true;
  }
  // A caller must not be given the artifact's own bytes.
  if (escapes || known.splat || op_class == OpClass::kView) return false;
  std::string data = Encode(known);
  if (data.size() > kConstantBytesMax || data.size() > kFoldedBytesMax - std::min(folded_bytes, kFoldedBytesMax)) {
    return false;
  }
  folded_bytes += data.size();
  const ValueId constant = graph.AddInput(InputKind::kConstant, kFolded, type, std::move(data));
  ReplaceNode(graph, id, constant);
  return true;
}

}  // namespace

Result<bool> FoldConstants(Graph& graph) {
  const Values known = KnownValues(graph);
  const std::vector<bool> escaping = EscapingValues(graph);
  std::vector<bool> needed(graph.value_count(), false);
  for (ValueId output : graph.outputs) needed[output] = true;
  for (const Write& write : graph.writes) needed[write.value] = true;
  // From the end, so that of a known chain only the last value becomes a constant.
  std::vector<NodeId> order(graph.order().rbegin(), graph.order().rend());
  bool changed = false;
  size_t folded_bytes = 0;
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::kConstant && input.name == kFolded) folded_bytes += input.data.size();
  }
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    bool is_needed = !IsPure(node);
    for (ValueId result : node.results) is_needed |= needed[result];
    if (!is_needed) continue;
    const std::optional<Known>* value = node.results.size() == 1 ? &known[node.results[0]] : nullptr;
    if (value && *value && Materialize(graph, id, **value, escaping[node.results[0]], folded_bytes)) {
      changed = true;
      continue;
    }
    ForEachOperand(node, [&needed](ValueId operand) { needed[operand] = true; });
  }
  return changed;
}

}  // namespace ingot::compiler
