// SPDX-License-Identifier: Apache-2.0
// What picks elements by positions that are data, or puts them there.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace index_part {

using Indices = std::vector<std::optional<at::Tensor>>;

/// Positions that may count from the end, counted from the front; those outside stay outside.
at::Tensor FromFront(NodeCall& n, const at::Tensor& index, const Int& size) {
  const at::Tensor wide = n.To(index, at::kLong);
  return n.Where(n.Call("aten::lt.Scalar", {wide, 0}), n.Call("aten::add.Scalar", {wide, size}), wide);
}

Results Gather(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", 0), x.dim());
  const Value& index = n.ValueAt(1);
  const bool is_known = index.known != nullptr || index.is_constant;
  // One row that is known is a view.
  if (is_known && (index.known ? index.known->sizes.empty() : index.tensor.dim() == 0)) {
    return {n.Call("aten::select.int", {x, axis, n.IntAt(1)})};
  }
  Indices indices(static_cast<size_t>(axis));
  indices.emplace_back(n.To(n.Index(1), at::kLong));
  return {n.Call("aten::index.Tensor", {x, std::move(indices)})};
}

Results GatherElements(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", 0), x.dim());
  return {n.Call("aten::gather", {x, axis, FromFront(n, n.Index(1), n.SizeOf(x, axis))})};
}

/// The last dim of `index` as one tensor of positions for each dim it names, after `batch` shared dims.
Indices Positions(NodeCall& n, const at::Tensor& x, const at::Tensor& index, int64_t batch) {
  if (index.dim() < 1 || batch < 0 || batch >= index.dim()) Reject("indices of too few dims");
  const int64_t depth = n.SizeOf(index, index.dim() - 1).Fix();
  if (batch + depth > x.dim()) Reject(fmt::format("{} positions for {} dims", depth, x.dim() - batch));
  Indices positions;
  for (int64_t b = 0; b < batch; ++b) {
    // Otherwise a size of 1 would spread.
    if (n.SizeOf(x, b) != n.SizeOf(index, b)) Reject("batch dims of other sizes than those of the indices");
    Ints sizes(static_cast<size_t>(index.dim() - 1), Int(1));
    sizes[static_cast<size_t>(b)] = n.SizeOf(x, b);
    const at::Tensor rows = n.Call("aten::arange.start_step", {0, n.SizeOf(x, b), 1, at::kLong});
    positions.emplace_back(n.Reshape(rows, std::move(sizes)));
  }
  for (int64_t d = 0; d < depth; ++d) {
    positions.emplace_back(n.Call("aten::select.int", {index, index.dim() - 1, d}));
  }
  return positions;
}

Results GatherNd(NodeCall& n) {
  const at::Tensor x = n.In(0);
  return {n.Call("aten::index.Tensor", {x, Positions(n, x, n.Index(1), n.IntOf("batch_dims", 0))})};
}

/// One for each that an index names; PyTorch would spread them.
void CheckUpdates(NodeCall& n, const at::Tensor& x, const at::Tensor& index, const at::Tensor& updates) {
  if (index.dim() < 1) Reject("indices of no dim");
  const int64_t depth = n.SizeOf(index, index.dim() - 1).Fix();
  if (depth > x.dim()) Reject(fmt::format("{} positions for {} dims", depth, x.dim()));
  Ints wanted = n.SizesOf(index);
  wanted.pop_back();
  for (int64_t d = depth; d < x.dim(); ++d) wanted.push_back(n.SizeOf(x, d));
  const Ints given = n.SizesOf(updates);
  if (given != wanted) {
    Reject(fmt::format("updates of sizes [{}] for [{}]", fmt::join(Seen(given), ", "), fmt::join(Seen(wanted), ", ")));
  }
}

Results ScatterNd(NodeCall& n) {
  const std::string reduction = n.TextOf("reduction", "none");
  const at::Tensor x = n.In(0), index = n.Index(1), updates = n.In(2);
  CheckUpdates(n, x, index, updates);
  if (reduction == "none" || reduction == "add") {
    Indices positions = Positions(n, x, index, 0);
    return {n.Call("aten::index_put", {x, std::move(positions), updates, reduction == "add"})};
  }
  const char* const how = reduction == "mul" ? "prod" : reduction == "max" ? "amax" : "amin";
  if (reduction != "mul" && reduction != "max" && reduction != "min") Reject(fmt::format("reduction '{}'", reduction));
  // Rows of all that an index names, numbered in order.
  const int64_t depth = n.SizeOf(index, index.dim() - 1).Fix();
  at::Tensor rows;
  Int count = 1, width = 1;
  const Ints sizes = n.SizesOf(x);
  for (int64_t d = 0; d < x.dim(); ++d) {
    const Int size = sizes[static_cast<size_t>(d)];
    if (d >= depth) {
      width = width * size;
      continue;
    }
    count = count * size;
    // Before they are one number, in which a position outside of its own dim is another row.
    const at::Tensor at = n.WithinEither(n.Call("aten::select.int", {index, index.dim() - 1, d}), size);
    rows = d == 0 ? at : n.Add(n.Call("aten::mul.Scalar", {rows, size}), at);
  }
  if (depth == 0) Refuse("positions that name no dim");
  const at::Tensor flat = n.Reshape(x, {count, width}), source = n.Reshape(updates, {-1, width});
  const at::Tensor spread =
      n.Call("aten::expand", {n.Reshape(rows, {-1, 1}), Ints{n.SizeOf(source, 0), n.SizeOf(source, 1)}});
  return {n.Reshape(n.Call("aten::scatter_reduce.two", {flat, 0, spread, source, how}), sizes)};
}

Results ScatterElements(NodeCall& n) {
  const std::string reduction = n.TextOf("reduction", "none");
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", 0), x.dim());
  const at::Tensor index = FromFront(n, n.Index(1), n.SizeOf(x, axis)), updates = n.In(2);
  if (n.SizesOf(index) != n.SizesOf(updates)) Reject("as many updates as indices are needed");
  if (reduction == "none") return {n.Call("aten::scatter.src", {x, axis, index, updates})};
  const char* const how = reduction == "add"   ? "sum"
                          : reduction == "mul" ? "prod"
                          : reduction == "max" ? "amax"
                          : reduction == "min" ? "amin"
                                               : nullptr;
  if (how == nullptr) Reject(fmt::format("reduction '{}'", reduction));
  return {n.Call("aten::scatter_reduce.two", {x, axis, index, updates, how})};
}

Results OneHot(NodeCall& n) {
  const at::Tensor index = n.To(n.In(0), at::kLong), values = n.In(2);
  if (values.dim() != 1 || n.SizeOf(values, 0) != Int(2)) {
    Reject(fmt::format("values of sizes [{}] instead of two", fmt::join(values.sizes(), ", ")));
  }
  const double asked = n.NumbersAt(1).at(0);
  if (!(asked >= 1 && asked <= 1 << 28)) Reject(fmt::format("{} classes", asked));
  const Int depth = static_cast<int64_t>(asked);
  const int64_t given = n.IntOf("axis", -1), axis = NodeCall::Axis(given, index.dim() + 1);
  Ints sizes(static_cast<size_t>(index.dim() + 1), Int(1));
  sizes[static_cast<size_t>(axis)] = depth;
  NodeCall::CheckCount({depth, Int(std::max<int64_t>(index.numel(), 1))});
  const at::Tensor classes = n.Reshape(n.Call("aten::arange.start_step", {0, depth, 1, at::kLong}), std::move(sizes));
  const at::Tensor chosen = n.Call("aten::unsqueeze", {FromFront(n, index, depth), axis});
  const at::Tensor off = n.Call("aten::select.int", {values, 0, 0}), on = n.Call("aten::select.int", {values, 0, 1});
  return {n.Where(n.Call("aten::eq.Tensor", {chosen, classes}), on, off)};
}

Results GridSample(NodeCall& n) {
  const std::string mode = n.TextOf("mode", n.opset() < 20 ? "bilinear" : "linear");
  const std::string padding = n.TextOf("padding_mode", "zeros");
  const bool align = n.FlagOf("align_corners", 0);
  const at::Tensor x = n.In(0);
  const int64_t how = mode == "nearest" ? 1 : mode == "cubic" || mode == "bicubic" ? 2 : 0;
  const int64_t pad = padding == "border" ? 1 : padding == "reflection" ? 2 : 0;
  if (how == 0 && mode != "linear" && mode != "bilinear") Reject(fmt::format("mode '{}'", mode));
  if (pad == 0 && padding != "zeros") Reject(fmt::format("padding mode '{}'", padding));
  return {n.Call("aten::grid_sampler", {x, n.In(1), how, pad, align})};
}

Results AffineGrid(NodeCall& n) {
  const bool align = n.FlagOf("align_corners", 0);
  const Ints sizes = n.IntsAt(1);
  NodeCall::CheckCount(sizes);
  return {n.Call("aten::affine_grid_generator", {n.In(0), sizes, align})};
}

constexpr Operator kTable[] = {
    {"AffineGrid", 20, AffineGrid},
    {"Gather", 1, Gather, Moves},
    {"GatherElements", 11, GatherElements, Moves},
    {"GatherND", 11, GatherNd},
    {"GridSample", 16, GridSample},
    {"OneHot", 11, OneHot},  // Before, an index below 0 was none.
    {"ScatterElements", 11, ScatterElements},
    {"ScatterND", 11, ScatterNd},
};

}  // namespace index_part
}  // namespace

std::span<const Operator> IndexOperators() { return index_part::kTable; }

}  // namespace ingot::onnx
