// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

bool IsReshape(const Node& node) {
  return node.op == "aten.view" || node.op == "aten.unsqueeze" || node.op == "aten.squeeze" ||
         node.op == "aten.squeeze.dim" || node.op == "aten.squeeze.dims";
}

/// Views only re-read their operand if its strides allow the sizes and give the same strides.
bool GivesLayout(const Type& from, const Type& to) {
  const std::optional<Dims> strides = ViewStrides(from, to.sizes);
  if (!strides) return false;
  for (size_t i = 0; i < to.rank(); ++i) {
    if (!to.sizes[i].is_one() && (*strides)[i] != to.strides[i]) return false;
  }
  return true;
}

/// view(view(x)) => view(x); squeezes and unsqueezes are views with other names.
bool MergeReshapes(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!IsReshape(node)) return false;
  const Node* inner = Definition(graph, Call(graph, node).ValueAt(0));
  if (!inner || !IsReshape(*inner) || !Call(graph, *inner).TypeAt(0)) return false;
  const Ref source = std::get<Ref>(inner->args[0]);
  const Type& type = graph.type(node.results[0]);
  if (!GivesLayout(graph.type(source.id), type)) return false;
  graph.Redefine(id, "aten.view", {source, type.sizes});
  return true;
}

/// transpose(permute(x)) => permute(x), in the shorter spelling.
bool MergePermutes(Graph& graph, NodeId id) {
  std::vector<int64_t> outer, inner;
  const Node& node = graph.node(id);
  if (!PermutationOf(graph, node, outer)) return false;
  const Node* below = Definition(graph, Call(graph, node).ValueAt(0));
  if (!below || !PermutationOf(graph, *below, inner)) return false;
  const Ref source = std::get<Ref>(below->args[0]);
  std::vector<int64_t> moved;
  Dims dims;
  for (size_t i = 0; i < outer.size(); ++i) {
    const int64_t from = inner[outer[i]];
    if (from != static_cast<int64_t>(i)) moved.push_back(static_cast<int64_t>(i));
    dims.push_back(Dim(from));
  }
  if (moved.size() == 2) {
    graph.Redefine(id, "aten.transpose.int", {source, Dim(moved[0]), Dim(moved[1])});
  } else {
    graph.Redefine(id, "aten.permute", {source, std::move(dims)});
  }
  return true;
}

/// slice(slice(x)) of one dim => slice(x), where bounds are plain (step 1, start given).
bool MergeSlices(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "aten.slice.Tensor") return false;
  const Call outer(graph, node);
  const Node* below = Definition(graph, outer.ValueAt(0));
  if (!below || below->op != "aten.slice.Tensor") return false;
  const Call inner(graph, *below);
  if (!inner.TypeAt(0)) return false;
  const auto dim = outer.IntAt(1);
  const auto first = outer.DimAt(2), second = inner.DimAt(2);
  if (!dim || *dim < 0 || inner.IntAt(1) != dim || outer.IntAt(4) != 1 || inner.IntAt(4) != 1 || !first || !second) {
    return false;
  }
  // Bounds from the end, or starts behind it, are clamped; they add up only when plain.
  if (static_cast<size_t>(*dim) >= graph.type(node.results[0]).rank() ||
      static_cast<size_t>(*dim) >= graph.type(below->results[0]).rank()) {
    return false;
  }
  const Dim size = graph.type(node.results[0]).sizes[*dim];
  if (outer.DimAt(3) != *first + size || inner.DimAt(3) != *second + graph.type(below->results[0]).sizes[*dim]) {
    return false;
  }
  const Dim start = *first + *second;
  graph.Redefine(id, "aten.slice.Tensor", {std::get<Ref>(below->args[0]), Dim(*dim), start, start + size, Dim(1)});
  return true;
}

/// select(slice(x)) of one dim => select(x).
bool SelectFromSlice(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "aten.select.int") return false;
  const Call outer(graph, node);
  const Node* below = Definition(graph, outer.ValueAt(0));
  if (!below || below->op != "aten.slice.Tensor") return false;
  const Call inner(graph, *below);
  if (!inner.TypeAt(0)) return false;
  const auto dim = outer.IntAt(1), index = outer.IntAt(2);
  const auto start = inner.DimAt(2);
  if (!dim || *dim < 0 || static_cast<size_t>(*dim) >= graph.type(below->results[0]).rank()) {
    return false;
  }
  if (inner.IntAt(1) != dim || inner.IntAt(4) != 1 || !index || *index < 0 || !start ||
      inner.DimAt(3) != *start + graph.type(below->results[0]).sizes[*dim]) {
    return false;
  }
  graph.Redefine(id, "aten.select.int", {std::get<Ref>(below->args[0]), Dim(*dim), *start + Dim(*index)});
  return true;
}

/// expand(expand(x)) => expand(x).
bool MergeExpands(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "aten.expand") return false;
  const Node* below = Definition(graph, Call(graph, node).ValueAt(0));
  if (!below || below->op != "aten.expand" || !Call(graph, *below).TypeAt(0)) return false;
  const Ref source = std::get<Ref>(below->args[0]);
  std::vector<Arg> args = node.args;
  args[0] = source;
  graph.Redefine(id, "aten.expand", std::move(args));
  return true;
}

}  // namespace

Result<bool> SimplifyViews(Graph& graph) {
  bool changed = false;
  for (NodeId id : graph.order()) {
    // A change exposes the next link of a chain, so the node is tried again.
    while (MergeReshapes(graph, id) || MergePermutes(graph, id) || MergeSlices(graph, id) ||
           SelectFromSlice(graph, id) || MergeExpands(graph, id)) {
      changed = true;
    }
  }
  return changed;
}

}  // namespace ingot::compiler
