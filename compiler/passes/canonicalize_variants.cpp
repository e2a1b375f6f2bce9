// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/views.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// Rewrites the node in its place, or leaves it alone and says false.
using Rewrite = bool (*)(Graph& graph, NodeId id);

/// Overloads that differ only in taking a Python scalar for the second operand, and other names.
const OpTable<std::string_view>& ScalarForms() {
  static const OpTable<std::string_view> forms = [] {
    OpTable<std::string_view> table;
#define SCALAR_FORM(name) , name
#include "compiler/ops/ops.def"
    return table;
  }();
  return forms;
}

/// The same operation under another name, arguments unchanged.
const OpTable<std::string_view>& Aliases() {
  static const OpTable<std::string_view> aliases = [] {
    OpTable<std::string_view> table;
#define ALIAS(name) , name
#include "compiler/ops/ops.def"
    return table;
  }();
  return aliases;
}

const Type& ResultType(const Graph& graph, NodeId id) { return graph.type(graph.node(id).results[0]); }

bool ScalarForm(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<Arg> args = node.args;
  const bool where = node.op.starts_with("aten.where.");
  for (size_t i = where ? 1 : 0; i < std::min<size_t>(args.size(), where ? 3 : 2); ++i) {
    if (std::holds_alternative<Ref>(args[i])) continue;
    const std::optional<Number> number = Call(graph, node).ScalarAt(i);
    if (!number) return false;
    args[i] = *number;
  }
  graph.Redefine(id, std::string(*ScalarForms().Of(node.op)), std::move(args));
  return true;
}

bool Alias(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  graph.Redefine(id, std::string(*Aliases().Of(node.op)), node.args);
  return true;
}

/// rsub(a, b, alpha) = b - alpha * a; only alpha 1 is a plain difference.
bool ReverseSub(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  if (node.args.size() < 2) return false;
  if (const auto alpha = call.ScalarAt(2); alpha && !IsNumber(*alpha, 1)) return false;
  graph.Redefine(id, "aten.sub.Tensor", {node.args[1], node.args[0], Dim(1)});
  return true;
}

bool DivWithoutRounding(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  if (node.args.size() < 2 || !call.IsNone(2)) return false;
  graph.Redefine(id, "aten.div.Tensor", {node.args[0], node.args[1]});
  return true;
}

bool FloorDivide(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.args.size() != 2) return false;
  graph.Redefine(id, "aten.div.Tensor_mode", {node.args[0], node.args[1], Name("floor")});
  return true;
}

/// Where numbers are put around it; the other modes repeat what is there.
bool ConstantPad(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  if (call.NameAt(2).value_or("constant") != "constant") return false;
  const Arg fill = call.IsNone(3) ? Arg(0.0) : node.args[3];
  graph.Redefine(id, "aten.constant_pad_nd", {node.args[0], node.args[1], fill});
  return true;
}

bool Square(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Type* type = Call(graph, node).TypeAt(0);
  // pow(bool, 2) is an integer, mul of bools is a bool.
  if (!type || ResultType(graph, id).dtype != type->dtype) return false;
  graph.Redefine(id, "aten.mul.Tensor", {node.args[0], node.args[0]});
  return true;
}

bool ClampOneSide(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.args.size() != 2) return false;
  std::vector<Arg> args = {node.args[0], None{}, None{}};
  args[node.op == "aten.clamp_min" ? 1 : 2] = node.args[1];
  graph.Redefine(id, "aten.clamp", std::move(args));
  return true;
}

/// masked_fill keeps its operand's element type, where() promotes: equal only when a number does
/// not outrank the operand and a tensor has its type.
bool MaskedFill(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  if (!type || node.args.size() != 3 || ChecksConversion(graph, node)) return false;
  const PromoteOperand own{type->dtype, type->rank() ? PromoteOperand::kTensor : PromoteOperand::kZeroDim};
  PromoteOperand filler;
  Arg value = node.args[2];
  if (const Type* tensor = call.TypeAt(2)) {
    filler = {tensor->dtype, PromoteOperand::kZeroDim};
    if (tensor->rank() != 0) return false;
  } else {
    const std::optional<Number> number = call.ScalarAt(2);
    if (!number) return false;
    filler = {DTypeOf(*number), PromoteOperand::kNumber};
    value = *number;
  }
  const PromoteOperand both[] = {own, filler};
  if (ingot::compiler::ResultType(both) != type->dtype) return false;
  graph.Redefine(id, "aten.where.self", {node.args[1], std::move(value), node.args[0]});
  return true;
}

bool IsCpu(const Call& call, size_t at) { return call.IsNone(at) || call.NameAt(at) == std::string_view("cpu"); }

/// type_as, to.other, to.device and to.dtype_layout on the CPU are to.dtype; a copy that converts
/// nothing is a clone.
bool Cast(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type* from = call.TypeAt(0);
  if (!from || graph.type(node.results[0]).sizes != from->sizes) return false;
  size_t copy_at = 3, format_at = 4;
  bool copies = false;
  if (node.op == "aten.type_as") {
    copy_at = format_at = node.args.size();
  } else if (node.op == "aten.to.device") {
    if (!IsCpu(call, 1)) return false;
    copy_at = 4, format_at = 5;
  } else if (node.op == "aten.to.dtype_layout" || node.op == "aten._to_copy") {
    if (!IsCpu(call, 3) || call.BoolAt(4).value_or(false)) return false;
    if (!call.IsNone(2) && call.NameAt(2)->find("trided") == std::string_view::npos) return false;
    copies = node.op == "aten._to_copy";
    copy_at = copies ? node.args.size() : 6;
    format_at = copies ? 6 : 7;
  }
  copies = copies || call.BoolAt(copy_at).value_or(false);
  const Arg format = call.IsNone(format_at) ? Arg(None{}) : node.args[format_at];
  const DType to = ResultType(graph, id).dtype;
  if (to == from->dtype && copies) {
    graph.Redefine(id, "aten.clone", {node.args[0], format});
  } else {
    // A conversion copies by itself, so the flag has nothing left to say.
    graph.Redefine(id, "aten.to.dtype", {node.args[0], DTypeArg{to}, false, false, format});
  }
  return true;
}

/// Reshapes that eager ran as views are views; the others copy, then view.
bool Reshape(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type* from = call.TypeAt(0);
  if (!from) return false;
  const Ref source = std::get<Ref>(node.args[0]);
  const Type to = ResultType(graph, id);
  const std::optional<Dims> strides = ViewStrides(*from, to.sizes);
  Type viewed{to.dtype, to.sizes, strides.value_or(Dims{})};
  if (strides && (viewed == to || (viewed.IsContiguous() && to.IsContiguous()))) {
    graph.Redefine(id, "aten.view", {source, to.sizes});
    return true;
  }
  // With symbols, no strides may also mean that nobody knows.
  bool is_fixed = to.Elements().is_const();
  for (const Dim& stride : from->strides) is_fixed &= stride.is_const();
  for (const Dim& size : from->sizes) is_fixed &= size.is_const();
  if (strides || !is_fixed || !to.IsContiguous()) return false;
  const Ref copy = GraphBuilder(graph, id).Typed("aten.clone", {source, Name("contiguous_format")},
                                                 Type::Contiguous(from->dtype, from->sizes));
  graph.Redefine(id, "aten.view", {copy, to.sizes});
  return true;
}

bool Expand(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!Call(graph, node).TypeAt(0)) return false;
  graph.Redefine(id, "aten.expand", {node.args[0], ResultType(graph, id).sizes, false});
  return true;
}

/// Views of several operands become one of each.
bool ExpandEach(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const Call call(graph, node);
  const auto* operands = call.Get<RefList>(0);
  const auto types = call.TypesAt(0);
  if (!types || types->size() != node.results.size()) return false;
  const bool is_grid = node.op != "aten.broadcast_tensors";
  if (is_grid && std::ranges::any_of(*types, [](const Type* type) { return type->rank() > 1; })) return false;
  const bool is_swapped = is_grid && types->size() > 1 && call.NameAt(1) == "xy";
  GraphBuilder builder(graph, id);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Type type = graph.type(node.results[i]);
    Ref operand{operands->ids[i]};
    if (is_grid) {
      // A line along the dim that has as many elements.
      const Type& from = graph.type(operand.id);
      const size_t dim = is_swapped && i < 2 ? 1 - i : i;
      Type line{from.dtype, Dims(type.rank(), Dim(1)), Dims(type.rank(), Dim(1))};
      line.sizes[dim] = from.Elements();
      line.strides = ViewStrides(from, line.sizes).value_or(line.strides);
      operand = builder.Typed("aten.view", {operand, line.sizes}, line);
    }
    graph.ReplaceUses(node.results[i], builder.Typed("aten.expand", {operand, type.sizes, false}, type).id);
  }
  graph.RemoveNode(id);
  return true;
}

/// Whatever puts dims in another order is a transpose of two of them or a permute.
bool Reorder(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Type* type = Call(graph, node).TypeAt(0);
  const std::vector<ViewMap> maps = ViewMapsOf(graph, node);
  const auto order = maps.size() == 1 ? OrderOf(maps[0], type->sizes, graph.type(node.results[0]).sizes) : std::nullopt;
  if (!order) return false;
  Dims dims, moved;
  for (size_t k = 0; k < order->size(); ++k) {
    dims.push_back(Dim(static_cast<int64_t>((*order)[k])));
    if ((*order)[k] != k) moved.push_back(Dim(static_cast<int64_t>(k)));
  }
  if (dims.size() < 2) {
    graph.Redefine(id, "aten.alias", {node.args[0]});
  } else if (moved.size() == 2) {
    graph.Redefine(id, "aten.transpose.int", {node.args[0], moved[0], moved[1]});
  } else if (node.op != "aten.permute") {
    graph.Redefine(id, "aten.permute", {node.args[0], std::move(dims)});
  } else {
    return false;
  }
  return true;
}

/// transpose(x, 2, 1) and transpose(x, 1, 2) are one.
bool OrderedTranspose(Graph& graph, NodeId id) {
  const Call call(graph, graph.node(id));
  const auto a = call.IntAt(1), b = call.IntAt(2);
  if (!a || !b || *a < 0 || *b < 0 || *a <= *b) return false;
  graph.Redefine(id, "aten.transpose.int", {graph.node(id).args[0], Dim(*b), Dim(*a)});
  return true;
}

bool Narrow(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const auto start = call.DimAt(2), length = call.DimAt(3);
  if (!start || !length || (start->is_const() && start->const_value() < 0)) return false;
  graph.Redefine(id, "aten.slice.Tensor", {node.args[0], node.args[1], *start, *start + *length, Dim(1)});
  return true;
}

/// Each part of a split, chunk or unbind becomes a slice or select of its own, so that unused
/// parts disappear and the others fuse like any view.
bool SplitParts(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  const bool unbind = node.op == "aten.unbind.int";
  const auto listed = call.IntAt(unbind ? 1 : 2).value_or(0);
  if (!type || type->rank() == 0 || call.misread()) return false;
  const std::optional<size_t> dim = WrapDim(listed, type->rank());
  if (!dim) return false;
  for (ValueId result : node.results) {
    if (graph.type(result).rank() + (unbind ? 1 : 0) != type->rank()) return false;
  }
  const Arg at = Dim(static_cast<int64_t>(*dim));
  Dim start = 0;
  GraphBuilder builder(graph, id);
  for (ValueId result : node.results) {
    const Type part = graph.type(result);
    Ref value;
    if (unbind) {
      value = builder.Typed("aten.select.int", {node.args[0], at, start}, part);
      start = start + Dim(1);
    } else {
      const Dim end = start + part.sizes[*dim];
      value = builder.Typed("aten.slice.Tensor", {node.args[0], at, start, end, Dim(1)}, part);
      start = end;
    }
    graph.ReplaceUses(result, value.id);
  }
  graph.RemoveNode(id);
  return true;
}

/// stack = cat of unsqueezed parts.
bool Stack(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const Call call(graph, node);
  const RefList* parts = call.Get<RefList>(0);
  if (!parts || parts->ids.empty()) return false;
  const Type to = ResultType(graph, id);
  const std::optional<size_t> dim = WrapDim(call.IntAt(1).value_or(0), to.rank());
  if (!dim || call.misread()) return false;
  for (ValueId part : parts->ids) {
    if (part == kNoValue || graph.type(part).rank() + 1 != to.rank()) return false;
  }
  const Arg at = Dim(static_cast<int64_t>(*dim));
  RefList wide;
  GraphBuilder builder(graph, id);
  for (ValueId part : parts->ids) {
    Type type = graph.type(part);
    const Dim stride = *dim < type.rank() ? type.sizes[*dim] * type.strides[*dim] : Dim(1);
    type.sizes.insert(type.sizes.begin() + *dim, Dim(1));
    type.strides.insert(type.strides.begin() + *dim, stride);
    wide.ids.push_back(builder.Typed("aten.unsqueeze", {Ref{part}, at}, std::move(type)).id);
  }
  graph.Redefine(id, "aten.cat", {std::move(wide), at});
  return true;
}

/// A fill value as full() takes it, in the kind of the element type.
std::optional<Arg> FillValue(const Number& number, DType dtype) {
  const Dim* integer = std::get_if<Dim>(&number.value);
  if (integer && !integer->is_const()) return IsInteger(dtype) ? std::optional<Arg>(*integer) : std::nullopt;
  // Integers become f32 at once, as in PyTorch, and not by way of f64, which rounds twice.
  const auto rounded = [dtype](int64_t i) {
    return dtype == DType::kF64 ? static_cast<double>(i) : static_cast<double>(static_cast<float>(i));
  };
  const double value = integer                                      ? rounded(integer->const_value())
                       : std::holds_alternative<bool>(number.value) ? std::get<bool>(number.value)
                                                                    : std::get<double>(number.value);
  if (IsFloat(dtype)) return Arg(value);
  if (std::holds_alternative<double>(number.value) || IsComplex(dtype)) return std::nullopt;
  if (dtype == DType::kBool) return Arg(value != 0);
  return integer ? Arg(*integer) : Arg(Dim(static_cast<int64_t>(value)));
}

/// zeros, ones_like, new_full, ...: full of the result's sizes, which drops the operand.
bool Creation(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type to = ResultType(graph, id);
  if (to.strides != guards::ContiguousStrides(to.sizes)) return false;
  const std::string& op = node.op;
  std::optional<Number> number = Number{Dim(op.find("ones") != std::string::npos ? 1 : 0)};
  if (op == "aten.new_full") number = call.ScalarAt(2);
  if (op == "aten.full" || op == "aten.full_like") number = call.ScalarAt(1);
  if (op == "aten.scalar_tensor") number = call.ScalarAt(0);
  const std::optional<Arg> value = number ? FillValue(*number, to.dtype) : std::nullopt;
  // Device and layout stand behind the element type.
  const bool has_two = op == "aten.full" || op == "aten.full_like" || op == "aten.new_zeros" || op == "aten.new_ones";
  const size_t dtype_at = op == "aten.new_full" ? 3 : has_two ? 2 : 1;
  if (!value || !IsCpu(call, dtype_at + 2) || call.BoolAt(dtype_at + 3).value_or(false)) {
    return false;
  }
  std::vector<Arg> args = {to.sizes, *value, DTypeArg{to.dtype}, None{}, Name("cpu"), None{}};
  Node full{"aten.full", std::move(args), node.results};
  // By their bits: NaN is not equal to itself.
  if (ExpressionKey(graph, node) == ExpressionKey(graph, full)) return false;
  graph.Redefine(id, full.op, std::move(full.args));
  return true;
}

/// The inner softmax without a change of type is the outer one.
bool PlainSoftmax(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  if (node.args.size() != 3 || call.BoolAt(2) != false) return false;
  graph.Redefine(id, node.op == "aten._softmax" ? "aten.softmax.int" : "aten.log_softmax.int",
                 {node.args[0], node.args[1], None{}});
  return true;
}

/// A contiguous() that has to move elements is a copy.
bool Contiguous(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Type* from = Call(graph, node).TypeAt(0);
  const Type& to = ResultType(graph, id);
  if (!from || from->IsContiguous() || !to.IsContiguous()) return false;
  graph.Redefine(id, "aten.clone", {node.args[0], Name("contiguous_format")});
  return true;
}

const std::unordered_map<std::string_view, Rewrite>& Rewrites() {
  static const auto* const rewrites = [] {
    auto* map = new std::unordered_map<std::string_view, Rewrite>{
        {"aten.rsub.Tensor", ReverseSub},
        {"aten.div.Tensor_mode", DivWithoutRounding},
        {"aten.floor_divide", FloorDivide},
        {"aten.pad", ConstantPad},
        {"aten.square", Square},
        {"aten.clamp_min", ClampOneSide},
        {"aten.clamp_max", ClampOneSide},
        {"aten.masked_fill.Scalar", MaskedFill},
        {"aten.masked_fill.Tensor", MaskedFill},
        {"aten.type_as", Cast},
        {"aten.to.other", Cast},
        {"aten.to.device", Cast},
        {"aten.to.dtype_layout", Cast},
        {"aten._to_copy", Cast},
        {"aten.reshape", Reshape},
        {"aten.flatten.using_ints", Reshape},
        {"aten.ravel", Reshape},
        {"aten.reshape_as", Reshape},
        {"aten.unflatten.int", Reshape},
        {"aten.view_as", Reshape},
        {"aten._unsafe_view", Reshape},
        {"aten.broadcast_tensors", ExpandEach},
        {"aten.broadcast_to", Expand},
        {"aten.meshgrid", ExpandEach},
        {"aten.meshgrid.indexing", ExpandEach},
        {"aten.expand_as", Expand},
        {"aten.t", Reorder},
        {"aten.mT", Reorder},
        {"aten.numpy_T", Reorder},
        {"aten.movedim.int", Reorder},
        {"aten.movedim.intlist", Reorder},
        {"aten.permute", Reorder},
        {"aten.transpose.int", OrderedTranspose},
        {"aten.narrow", Narrow},
        {"aten.split.Tensor", SplitParts},
        {"aten.split_with_sizes", SplitParts},
        {"aten.chunk", SplitParts},
        {"aten.tensor_split.sections", SplitParts},
        {"aten.unbind.int", SplitParts},
        {"aten.stack", Stack},
        {"aten.full", Creation},
        {"aten.zeros", Creation},
        {"aten.ones", Creation},
        {"aten.zeros_like", Creation},
        {"aten.ones_like", Creation},
        {"aten.full_like", Creation},
        {"aten.new_zeros", Creation},
        {"aten.new_ones", Creation},
        {"aten.new_full", Creation},
        {"aten.scalar_tensor", Creation},
        {"aten._softmax", PlainSoftmax},
        {"aten._log_softmax", PlainSoftmax},
        {"aten.contiguous", Contiguous},
    };
    for (const auto& [from, to] : ScalarForms()) map->emplace(from, ScalarForm);
    for (const auto& [from, to] : Aliases()) map->emplace(from, Alias);
    return map;
  }();
  return *rewrites;
}

}  // namespace

Result<bool> CanonicalizeVariants(Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (NodeId id : order) {
    const auto rewrite = Rewrites().find(graph.node(id).op);
    if (rewrite == Rewrites().end() || graph.node(id).effects != kPure || graph.node(id).results.empty()) {
      continue;
    }
    changed |= rewrite->second(graph, id);
  }
  return changed;
}

}  // namespace ingot::compiler
