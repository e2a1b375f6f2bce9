// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// `value` is this number everywhere: a Number, or a full() of it.
bool IsFilledWith(const Graph& graph, const Call& call, size_t at, double value) {
  if (const Type* type = call.TypeAt(at)) {
    const Node* def = Definition(graph, call.ValueAt(at));
    if (!def || def->op != "aten.full") return false;
    const auto number = Call(graph, *def).ScalarAt(1);
    // An integer 0 in a float tensor is +0.0.
    return number && IsNumber(*number, value) && !IsComplex(type->dtype);
  }
  const auto number = call.ScalarAt(at);
  return number && IsNumber(*number, value);
}

bool AlphaIsOne(const Call& call) {
  if (call.size() < 3) return true;
  const auto alpha = call.ScalarAt(2);
  return alpha && IsNumber(*alpha, 1);
}

/// The operand that the node gives back bit for bit, or kNoValue.
ValueId Neutral(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  const bool is_integer = !IsFloat(graph.type(node.results[0]).dtype);
  const std::string& op = node.op;
  const auto keeps = [&](size_t operand, double value) {
    return call.TypeAt(operand) && IsFilledWith(graph, call, 1 - operand, value);
  };
  if (op == "aten.mul.Tensor") {
    if (keeps(0, 1)) return call.ValueAt(0);
    if (keeps(1, 1)) return call.ValueAt(1);
  }
  if ((op == "aten.div.Tensor" || op == "aten.pow.Tensor_Scalar") && keeps(0, 1)) {
    return call.ValueAt(0);
  }
  // x + 0.0 turns -0.0 into 0.0, x + -0.0 and x - 0.0 change nothing.
  if (op == "aten.add.Tensor" && AlphaIsOne(call)) {
    if (keeps(0, -0.0) || (is_integer && keeps(0, 0))) return call.ValueAt(0);
    if (keeps(1, -0.0) || (is_integer && keeps(1, 0))) return call.ValueAt(1);
  }
  if (op == "aten.sub.Tensor" && AlphaIsOne(call) && keeps(0, 0)) return call.ValueAt(0);
  if ((op == "aten.minimum" || op == "aten.maximum" || op == "aten.bitwise_and.Tensor" ||
       op == "aten.bitwise_or.Tensor") &&
      call.TypeAt(0) && call.ValueAt(0) == call.ValueAt(1)) {
    return call.ValueAt(0);
  }
  if (op == "aten.where.self" && call.TypeAt(1) && call.ValueAt(1) == call.ValueAt(2)) {
    return call.ValueAt(1);
  }
  return kNoValue;
}

/// neg(neg(x)) and the like; relu(relu(x)) needs only one.
ValueId Undone(const Graph& graph, const Node& node) {
  const Node* inner = Definition(graph, Call(graph, node).ValueAt(0));
  if (!inner || inner->op != node.op) return kNoValue;
  const ValueId source = Call(graph, *inner).ValueAt(0);
  if (source == kNoValue) return kNoValue;
  const DType dtype = graph.type(source).dtype;
  if (node.op == "aten.neg" || node.op == "aten.bitwise_not" ||
      (node.op == "aten.logical_not" && dtype == DType::kBool)) {
    return source;
  }
  if (node.op == "aten.relu" || node.op == "aten.abs") return inner->results[0];
  return kNoValue;
}

/// Every value of `narrow` is a value of `wide`.
bool Holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (IsComplex(wide) || IsComplex(narrow) || wide == DType::kBool) return false;
  if (narrow == DType::kBool) return true;
  if (IsFloat(narrow)) return IsFloat(wide) && PromoteTypes(wide, narrow) == wide;
  if (IsFloat(wide)) {
    // Bits of mantissa against bits of the integer.
    const int mantissa = wide == DType::kF64 ? 53 : wide == DType::kF32 ? 24 : wide == DType::kF16 ? 11 : 8;
    return static_cast<int>(SizeOf(narrow)) * 8 <= mantissa;
  }
  return PromoteTypes(wide, narrow) == wide;
}

/// to(to(x, wide), T) => to(x, T): a detour through a type that loses nothing.
bool SkipWideCast(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  if (node.op != "aten.to.dtype" || !call.IsNone(4)) return false;
  const Node* inner = Definition(graph, call.ValueAt(0));
  if (!inner || inner->op != "aten.to.dtype") return false;
  const Call below(graph, *inner);
  const Type* source = below.TypeAt(0);
  if (!source || !below.IsNone(4)) return false;
  const Type& middle = graph.type(inner->results[0]);
  if (!Holds(middle.dtype, source->dtype)) return false;
  std::vector<Arg> args = node.args;
  args[0] = inner->args[0];
  // The detour made fresh memory; without it only a copy does.
  if (graph.type(node.results[0]).dtype == source->dtype) {
    args = {inner->args[0], None{}};
    graph.Redefine(id, "aten.clone", std::move(args));
    return true;
  }
  graph.Redefine(id, "aten.to.dtype", std::move(args));
  return true;
}

/// pow(x, 2) is computed as x * x by torch itself.
bool SquareByMul(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  if (node.op != "aten.pow.Tensor_Scalar" || !type) return false;
  const auto exponent = call.ScalarAt(1);
  if (!exponent || !IsNumber(*exponent, 2) || type->dtype == DType::kBool ||
      type->dtype != graph.type(node.results[0]).dtype) {
    return false;
  }
  graph.Redefine(id, "aten.mul.Tensor", {node.args[0], node.args[0]});
  return true;
}

}  // namespace

Result<bool> SimplifyAlgebra(Graph& graph) {
  const std::vector<bool> escaping = EscapingValues(graph);
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (!IsPure(node) || node.results.size() != 1) continue;
    if (SkipWideCast(graph, id) || SquareByMul(graph, id)) {
      changed = true;
      continue;
    }
    ValueId same = Neutral(graph, node);
    if (same == kNoValue) same = Undone(graph, node);
    // Eager gave a caller fresh memory here, which the operand is not.
    if (same == kNoValue || escaping[node.results[0]]) continue;
    if (graph.type(same) != graph.type(node.results[0])) continue;
    ReplaceNode(graph, id, same);
    changed = true;
  }
  return changed;
}

}  // namespace ingot::compiler
