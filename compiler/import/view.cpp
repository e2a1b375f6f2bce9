// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/view.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"

namespace ingot::compiler {
namespace {

std::optional<int64_t> IntArg(const std::vector<Arg>& args, size_t i) {
  const Dim* dim = i < args.size() ? std::get_if<Dim>(&args[i]) : nullptr;
  if (!dim || !dim->is_const()) return std::nullopt;
  return dim->const_value();
}

std::optional<size_t> DimArg(const std::vector<Arg>& args, size_t i, size_t rank) {
  const std::optional<int64_t> dim = IntArg(args, i);
  return dim ? WrapDim(*dim, rank) : std::nullopt;
}

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

using Order = std::vector<size_t>;

std::optional<Order> Swapped(size_t rank, std::optional<size_t> a, std::optional<size_t> b) {
  if (!a || !b || *a >= rank || *b >= rank) return std::nullopt;
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[*a], order[*b]);
  return order;
}
std::optional<Order> SwapNamed(const TakenView& view, size_t rank) {
  return Swapped(rank, DimArg(view.args, 1, rank), DimArg(view.args, 2, rank));
}
std::optional<Order> SwapTwo(const TakenView&, size_t rank) { return rank == 2 ? Swapped(rank, 0, 1) : std::nullopt; }
std::optional<Order> SwapLast(const TakenView&, size_t rank) {
  return rank >= 2 ? Swapped(rank, rank - 2, rank - 1) : std::nullopt;
}
std::optional<Order> ReverseOrder(const TakenView&, size_t rank) {
  Order order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}
std::optional<Order> PermuteOrder(const TakenView& view, size_t rank) {
  const Dims* dims = view.args.size() == 2 ? std::get_if<Dims>(&view.args[1]) : nullptr;
  if (!dims || dims->size() != rank) return std::nullopt;
  Order order;
  for (const Dim& one : *dims) {
    const std::optional<size_t> dim = one.is_const() ? WrapDim(one.const_value(), rank) : std::nullopt;
    if (!dim) return std::nullopt;
    order.push_back(*dim);
  }
  return order;
}

/// The scatter operator that takes the view's own arguments. Operands are filled in by ScatterOf.
Node ScatterAs(const char* op, const TakenView& view) {
  Node node;
  node.op = op;
  node.step = view.step;
  node.step_shift = 1;
  node.args.assign(view.args.begin() + 1, view.args.end());
  return node;
}
std::optional<Node> SliceScatter(const TakenView& view, const Meta&, const Meta&) {
  return ScatterAs("aten.slice_scatter", view);
}
std::optional<Node> SelectScatter(const TakenView& view, const Meta&, const Meta&) {
  return ScatterAs("aten.select_scatter", view);
}
std::optional<Node> DiagonalScatter(const TakenView& view, const Meta&, const Meta&) {
  return ScatterAs("aten.diagonal_scatter", view);
}
std::optional<Node> NarrowScatter(const TakenView& view, const Meta& parent_meta, const Meta& meta) {
  const std::optional<size_t> dim = DimArg(view.args, 1, parent_meta.type.rank());
  const std::optional<int64_t> start = IntArg(view.args, 2);
  if (!dim || !start) return std::nullopt;
  Node node;
  node.op = "aten.slice_scatter";
  const std::vector<Arg> slice = SliceArgs(kNoValue, *dim, *start, meta.type.sizes[*dim]);
  node.args.assign(slice.begin() + 1, slice.end());
  return node;
}

/// How what was written through a view gets back into its parent. Neither of both: the view has the same elements in
/// the same order by other sizes.
struct Undo {
  using Scatter = std::optional<Node> (*)(const TakenView& view, const Meta& parent_meta, const Meta& meta);
  using Reorder = std::optional<Order> (*)(const TakenView& view, size_t rank);
  constexpr Undo() = default;
  constexpr Undo(Scatter way) : scatter(way) {}
  constexpr Undo(Reorder way) : order(way) {}

  Scatter scatter = nullptr;  ///< the operator that puts a value back where the view took it, less both operands
  Reorder order = nullptr;    ///< dim i of the view is dim result[i] of the parent
};

const OpTable<Undo>& Undos() {
  static const OpTable<Undo> ways = [] {
    OpTable<Undo> table;
#define UNDO(way) , way
#include "compiler/ops/ops.def"
    return table;
  }();
  return ways;
}

/// The scatter operator that puts a value back where the view took it, by name and arguments.
std::optional<Node> ScatterOf(const Undo* undo, const TakenView& view, const Meta& parent_meta, const Meta& meta,
                              ValueId parent, ValueId value) {
  if (!undo || !undo->scatter) return std::nullopt;
  std::optional<Node> node = undo->scatter(view, parent_meta, meta);
  if (node) node->args.insert(node->args.begin(), {Ref{parent}, Ref{value}});
  return node;
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
  const Undo* undo = Undos().Of(view.op);
  if (std::optional<Node> scatter = ScatterOf(undo, view, parent_meta, meta, parent, value)) {
    const NodeId id = graph.AddNode(*std::move(scatter), {graph.type(parent)});
    return graph.node(id).results[0];
  }
  const size_t rank = parent_meta.type.rank();
  const auto order = undo && undo->order ? undo->order(view, rank) : std::nullopt;
  if (order && meta.type.rank() == rank) {
    Dims inverse(rank);
    for (size_t i = 0; i < rank; ++i) inverse[(*order)[i]] = static_cast<int64_t>(i);
    return AddViewNode(graph, {"aten.permute", {Ref{value}, inverse}}, parent_meta.type);
  }
  const bool is_reshape = undo && !undo->scatter && !undo->order;
  if (is_reshape && meta.type.Elements() == parent_meta.type.Elements()) {
    const Type type = Type::Contiguous(parent_meta.type.dtype, parent_meta.type.sizes);
    Node node{"aten.reshape", {Ref{value}, type.sizes}};
    node.sizes_of = static_cast<int32_t>(view.parent);
    return AddViewNode(graph, std::move(node), type);
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
