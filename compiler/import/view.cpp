// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/view.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "compiler/ops/infer.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

std::vector<Arg> SliceArgs(ValueId parent, size_t dim, int64_t start, const Dim& length) {
  return {Ref{parent}, Dim(static_cast<int64_t>(dim)), Dim(start), Dim(start) + length, Dim(1)};
}

/// Dims `from` of the parent, except `without`, step through memory as those of the view do.
bool SameSteps(const Type& parent, const Type& view, size_t without) {
  for (size_t k = 0, v = 0; k < parent.rank(); ++k) {
    if (k == without && parent.rank() != view.rank()) continue;
    const bool same_size = k == without || parent.sizes[k] == view.sizes[v];
    if (!same_size || (!view.sizes[v].is_one() && parent.strides[k] != view.strides[v])) return false;
    ++v;
  }
  return true;
}

/// Where along dim `dim` of the parent the view of `length` elements begins.
std::optional<int64_t> StartAlong(const Meta& parent, const Meta& meta, size_t dim, int64_t length) {
  if (meta.type.Elements().is_zero()) return 0;
  const int64_t stride = parent.type.strides[dim].const_value();
  const int64_t offset = meta.offset - parent.offset;
  const int64_t start = stride == 0 ? 0 : offset / stride;
  if (start < 0 || start * stride != offset || start + length > parent.type.sizes[dim].const_value()) {
    return std::nullopt;
  }
  return start;
}

/// The slice or select that takes the same elements, told from where they lie.
std::optional<TakenView> PartOf(uint32_t parent, const Meta& parent_meta, const Meta& meta) {
  const Type& from = parent_meta.type;
  const Type& to = meta.type;
  if (from.dtype != to.dtype) return std::nullopt;
  for (size_t dim = 0; dim < from.rank(); ++dim) {
    const Arg at = Dim(static_cast<int64_t>(dim));
    if (to.rank() == from.rank() && SameSteps(from, to, dim)) {
      const auto start = StartAlong(parent_meta, meta, dim, to.sizes[dim].const_value());
      if (start) return TakenView{parent, "aten.slice.Tensor", SliceArgs(kNoValue, dim, *start, to.sizes[dim]), 0};
    }
    if (to.rank() + 1 == from.rank() && SameSteps(from, to, dim)) {
      const auto index = StartAlong(parent_meta, meta, dim, 1);
      if (index) return TakenView{parent, "aten.select.int", {Ref{}, at, Dim(*index)}, 0};
    }
  }
  return std::nullopt;
}

/// The operator that puts a value back where the view took it, less both operands.
std::optional<Node> PutBack(const TakenView& view, const ViewMap* map, const Type& from, const Type& to) {
  if (const std::string_view scatter = ScatterOf(view.op); !scatter.empty()) {
    Node node{std::string(scatter), {view.args.begin() + 1, view.args.end()}};
    node.step = view.step;
    node.step_shift = 1;
    return node;
  }
  // Another that takes a part of one dim.
  const auto cut = std::ranges::mismatch(from.sizes, to.sizes).in1 - from.sizes.begin();
  const size_t dim = static_cast<size_t>(cut);
  if (map == nullptr || map->axes.size() != to.rank() || dim >= to.rank()) return std::nullopt;
  ViewMap others = *map;
  const Dim start = std::exchange(others.axes[dim].start, 0);
  Dims sizes = to.sizes;
  sizes[dim] = from.sizes[dim];
  if (others != ViewMap::Identity(to.rank()) || sizes != from.sizes || !start.is_const()) return std::nullopt;
  const std::vector<Arg> slice = SliceArgs(kNoValue, dim, start.const_value(), to.sizes[dim]);
  return Node{"aten.slice_scatter", {slice.begin() + 1, slice.end()}};
}

/// Any view by its geometry, where it begins with its parent: offsets of as_strided count from the
/// start of a storage, and what lies there before the parent differs from call to call.
Result<Node> StridedScatter(const Graph& graph, const TakenView& view, const Meta& parent_meta, const Meta& meta,
                            ValueId parent, ValueId value) {
  if (parent_meta.offset != meta.offset || meta.type.dtype != parent_meta.type.dtype ||
      graph.type(parent).strides != parent_meta.type.strides || HasInternalOverlap(parent_meta.type)) {
    return Error(Code::kUnsupported,
                 "written through a view by " + view.op + " that cannot be undone; write to the tensor itself");
  }
  return Node{"aten.as_strided_scatter", {Ref{parent}, Ref{value}, meta.type.sizes, meta.type.strides, None{}}};
}

}  // namespace

std::optional<TakenView> MakeView(const Node& step, uint32_t parent, size_t parent_arg, const Meta& parent_meta,
                                  const Meta& meta) {
  TakenView view{parent, {}, {}, 0};
  if (meta.type == parent_meta.type && meta.offset == parent_meta.offset) return view;
  // Several results, or a place in the storage instead of one in the parent: the step says too little.
  if (step.results.size() > 1 || step.op == "aten.as_strided" || step.op == "aten.unbind.int") {
    return PartOf(parent, parent_meta, meta);
  }
  view.op = step.op;
  view.args = step.args;
  view.parent_arg = parent_arg;
  view.step = step.step;
  return view;
}

ValueId AddViewNode(Graph& graph, Node node, Type type) {
  const NodeId id = graph.AddNode(std::move(node), {std::move(type)});
  const ValueId value = graph.node(id).results[0];
  const std::optional<std::vector<Inferred>> inferred = Infer(graph, graph.node(id));
  if (inferred && inferred->size() == 1 && (*inferred)[0].strides && (*inferred)[0].sizes == graph.type(value).sizes) {
    graph.value(value).type.strides = *(*inferred)[0].strides;
  }
  return value;
}

ValueId Replay(Graph& graph, const TakenView& view, ValueId parent, const Type& type) {
  Node node{view.op, view.args};
  node.args[view.parent_arg] = Ref{parent};
  node.step = view.step;
  return AddViewNode(graph, std::move(node), type);
}

Result<ValueId> Invert(Graph& graph, const TakenView& view, const Meta& parent_meta, const Meta& meta, ValueId parent,
                       ValueId value) {
  Node node{view.op, view.args};
  node.args[view.parent_arg] = Ref{parent};
  const std::vector<ViewMap> maps = ViewMapsOf(graph, node, std::span(&meta.type.sizes, 1));
  const ViewMap* map = maps.size() == 1 ? &maps[0] : nullptr;
  if (std::optional<Node> scatter = PutBack(view, map, parent_meta.type, meta.type)) {
    scatter->args.insert(scatter->args.begin(), {Ref{parent}, Ref{value}});
    const NodeId id = graph.AddNode(*std::move(scatter), {graph.type(parent)});
    return graph.node(id).results[0];
  }
  if (const auto order = map ? OrderOf(*map, parent_meta.type.sizes, meta.type.sizes) : std::nullopt) {
    Dims inverse(order->size());
    for (size_t i = 0; i < order->size(); ++i) inverse[(*order)[i]] = static_cast<int64_t>(i);
    return AddViewNode(graph, {"aten.permute", {Ref{value}, inverse}}, parent_meta.type);
  }
  if (map != nullptr && map->in_order && meta.type.Elements() == parent_meta.type.Elements()) {
    const Type type = Type::Contiguous(parent_meta.type.dtype, parent_meta.type.sizes);
    Node reshape{"aten.reshape", {Ref{value}, type.sizes}};
    reshape.sizes_of = static_cast<int32_t>(view.parent);
    return AddViewNode(graph, std::move(reshape), type);
  }
  TRY_ASSIGN(Node scatter, StridedScatter(graph, view, parent_meta, meta, parent, value));
  const NodeId id = graph.AddNode(std::move(scatter), {graph.type(parent)});
  return graph.node(id).results[0];
}

bool HasInternalOverlap(const Type& type) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < type.rank(); ++i) {
    const int64_t size = type.sizes[i].const_value();
    if (size == 0) return false;
    if (size > 1) dims.emplace_back(type.strides[i].const_value(), size);
  }
  std::sort(dims.begin(), dims.end());
  // Each dim must step over everything the smaller ones reach.
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace ingot::compiler
