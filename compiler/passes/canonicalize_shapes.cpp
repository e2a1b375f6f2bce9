// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/dim_arg.h"
#include "compiler/ops/infer.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

bool WrapInt(Dim& dim, size_t rank) {
  if (!dim.is_const() || dim.const_value() >= 0) return false;
  const std::optional<size_t> at = WrapDim(dim.const_value(), rank);
  if (!at) return false;
  dim = Dim(static_cast<int64_t>(*at));
  return true;
}

bool WrapArg(Graph& graph, NodeId id, size_t i, size_t rank) {
  Arg arg = graph.node(id).args[i];
  bool changed = false;
  if (auto* dim = std::get_if<Dim>(&arg)) changed = WrapInt(*dim, rank);
  if (auto* dims = std::get_if<Dims>(&arg)) {
    for (Dim& dim : *dims) changed |= WrapInt(dim, rank);
  }
  if (changed) graph.SetArg(id, i, std::move(arg));
  return changed;
}

bool WrapDims(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op == "aten.cat" || node.op == "aten.stack") {
    const auto* list = node.args.empty() ? nullptr : std::get_if<RefList>(&node.args[0]);
    if (!list || node.args.size() < 2 || node.results.size() != 1) return false;
    return WrapArg(graph, id, 1, graph.type(node.results[0]).rank());
  }
  const DimArg* rule = DimArgOf(node.op);
  if (!rule || rule->arg >= node.args.size()) return false;
  const Type* type = Call(graph, node).TypeAt(0);
  if (!type) return false;
  const size_t rank = type->rank() + rule->added;
  bool changed = WrapArg(graph, id, rule->arg, rank);
  if (node.op == "aten.transpose.int" && node.args.size() > 2) changed |= WrapArg(graph, id, 2, rank);
  return changed;
}

bool Assign(Graph& graph, NodeId id, size_t i, Arg value) {
  if (graph.node(id).args[i] == value) return false;
  graph.SetArg(id, i, std::move(value));
  return true;
}

/// `index` from the front where it is a number counted from the end.
Dim FromFront(const Dim& index, const Dim& size) {
  return index.is_const() && index.const_value() < 0 ? index + size : index;
}

bool BoundSlice(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  if (!type || !dim || *dim < 0 || static_cast<size_t>(*dim) >= type->rank() || call.size() != 5 ||
      call.IntAt(4) != 1) {
    return false;
  }
  if (graph.type(node.results[0]).rank() != type->rank()) return false;
  const Dim& size = type->sizes[*dim];
  Dim start = FromFront(call.DimAt(2).value_or(Dim(0)), size);
  // The result's type is what eager saw, so it says where the slice ends.
  const Dim& length = graph.type(node.results[0]).sizes[*dim];
  if (start.is_const() && size.is_const()) {
    start = Dim(std::min(std::max<int64_t>(start.const_value(), 0), size.const_value()));
  }
  const Dim end = start + length;
  if (end.is_const() && end.const_value() < 0) return false;
  const bool moved = Assign(graph, id, 2, start);
  return Assign(graph, id, 3, end) || moved;
}

bool NameSizes(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.results.size() != 1 || node.args.size() < 2) return false;
  const Dims& sizes = graph.type(node.results[0]).sizes;
  if (node.op == "aten.view" || node.op == "aten.reshape" || node.op == "aten._unsafe_view" ||
      node.op == "aten.expand") {
    return Assign(graph, id, 1, sizes);
  }
  if (node.op == "aten.slice.Tensor") return BoundSlice(graph, id);
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  const std::optional<Dim> index = call.DimAt(2);
  if (node.op == "aten.select.int" && type && dim && index && *dim >= 0 && static_cast<size_t>(*dim) < type->rank()) {
    return Assign(graph, id, 2, FromFront(*index, type->sizes[*dim]));
  }
  return false;
}

}  // namespace

Result<bool> CanonicalizeShapes(Graph& graph) {
  bool changed = false;
  for (NodeId id : graph.order()) {
    changed |= WrapDims(graph, id);
    changed |= NameSizes(graph, id);
  }
  return changed;
}

}  // namespace ingot::compiler
