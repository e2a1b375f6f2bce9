// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "compiler/fusion/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

std::optional<size_t> AxisAt(const Rule& r, size_t arg, size_t rank, int64_t otherwise) {
  if (r.call.IsNone(arg)) return WrapDim(otherwise, rank);
  const auto axis = r.call.IntAt(arg);
  return axis ? WrapDim(*axis, rank) : std::nullopt;
}

Coords IdentityMap(size_t rank) {
  Coords map;
  for (size_t k = 0; k < rank; ++k) map.push_back(Affine::Var(static_cast<uint16_t>(k)));
  return map;
}

Results Alias(const Rule& r) { return {r.Tensor(0)}; }
Results Reshaped(const Rule& r) { return {r.pool.Reshape(r.Tensor(0), r.result().sizes)}; }
Results Expand(const Rule& r) { return {r.pool.Expand(r.Tensor(0), r.result().sizes)}; }

/// Result dim k is operand dim order[k].
Results PermuteBy(const Rule& r, const std::vector<size_t>& order) {
  const Type& from = *r.call.TypeAt(0);
  Coords map(from.rank());
  Dims sizes;
  for (size_t k = 0; k < order.size(); ++k) {
    map[order[k]] = Affine::Var(static_cast<uint16_t>(k));
    sizes.push_back(from.sizes[order[k]]);
  }
  return {r.pool.View(r.Tensor(0), std::move(sizes), std::move(map))};
}

std::vector<size_t> Iota(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

Results Transpose(const Rule& r) {
  const size_t rank = r.call.TypeAt(0)->rank();
  const auto a = AxisAt(r, 1, rank, 0), b = AxisAt(r, 2, rank, 0);
  if (!a || !b) return r.No("dims that are not there");
  if (rank == 0) return Alias(r);
  std::vector<size_t> order = Iota(rank);
  std::swap(order[*a], order[*b]);
  return PermuteBy(r, order);
}
Results Reverse(const Rule& r) {
  std::vector<size_t> order = Iota(r.call.TypeAt(0)->rank());
  std::reverse(order.begin(), order.end());
  return PermuteBy(r, order);
}
Results SwapLast(const Rule& r) {
  std::vector<size_t> order = Iota(r.call.TypeAt(0)->rank());
  if (order.size() < 2) return r.No("mT of fewer than two dims");
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return PermuteBy(r, order);
}
Results Permute(const Rule& r) {
  const size_t rank = r.call.TypeAt(0)->rank();
  const auto dims = r.call.IntsAt(1);
  if (!dims || dims->size() != rank) return r.No("dims that are not there");
  std::vector<size_t> order;
  for (int64_t dim : *dims) {
    const auto axis = WrapDim(dim, rank);
    if (!axis) return r.No("dims that are not there");
    order.push_back(*axis);
  }
  return PermuteBy(r, order);
}
Results MoveDim(const Rule& r) {
  const size_t rank = r.call.TypeAt(0)->rank();
  const auto from = AxisAt(r, 1, rank, 0), to = AxisAt(r, 2, rank, 0);
  if (!from || !to || rank == 0) return r.No("dims that are not there");
  std::vector<size_t> order = Iota(rank);
  order.erase(order.begin() + static_cast<ptrdiff_t>(*from));
  order.insert(order.begin() + static_cast<ptrdiff_t>(*to), *from);
  return PermuteBy(r, order);
}

/// Operand dim `axis` at start + step * result dim.
ExprId SliceOf(const Rule& r, size_t axis, const Dim& start, const Dim& step, const Dims& sizes) {
  Coords map = IdentityMap(sizes.size());
  map[axis] = Affine{start, {{static_cast<uint16_t>(axis), step}}, {}};
  return r.pool.View(r.Tensor(0), sizes, std::move(map));
}
/// slice(x, dim, start, end, step)
Results Slice(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto axis = AxisAt(r, 1, from.rank(), 0);
  if (!axis || from.rank() == 0) return r.No("a dim that is not there");
  const Dim start = r.call.DimAt(2).value_or(Dim());
  const auto step = r.call.IsNone(4) ? std::optional<int64_t>(1) : r.call.IntAt(4);
  if (!step || *step < 1) return r.No("a step that is no number above 0");
  return {SliceOf(r, *axis, start, Dim(*step), r.result().sizes)};
}
/// narrow(x, dim, start, length)
Results Narrow(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto axis = AxisAt(r, 1, from.rank(), 0);
  const auto start = r.call.DimAt(2);
  if (!axis || !start || from.rank() == 0) return r.No("a dim or start that is not there");
  return {SliceOf(r, *axis, *start, Dim(1), r.result().sizes)};
}

ExprId SelectOf(const Rule& r, size_t axis, const Dim& index) {
  Dims sizes = r.call.TypeAt(0)->sizes;
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(axis));
  Coords map = IdentityMap(sizes.size());
  map.insert(map.begin() + static_cast<ptrdiff_t>(axis), Affine::Of(index));
  return r.pool.View(r.Tensor(0), std::move(sizes), std::move(map));
}
/// select(x, dim, index)
Results Select(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto axis = AxisAt(r, 1, from.rank(), 0);
  const auto index = r.call.DimAt(2);
  if (!axis || !index || from.rank() == 0) return r.No("a dim or index that is not there");
  return {SelectOf(r, *axis, *index)};
}
/// unbind(x, dim)
Results Unbind(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto axis = AxisAt(r, 1, from.rank(), 0);
  if (!axis || from.rank() == 0) return r.No("a dim that is not there");
  Results results;
  for (size_t i = 0; i < r.node().results.size(); ++i) {
    results.push_back(SelectOf(r, *axis, Dim(static_cast<int64_t>(i))));
  }
  return results;
}
/// split and chunk: each part begins where those before it end.
Results Split(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto axis = AxisAt(r, 2, from.rank(), 0);
  if (!axis || from.rank() == 0) return r.No("a dim that is not there");
  Results results;
  Dim start;
  for (size_t i = 0; i < r.node().results.size(); ++i) {
    const Dims& sizes = r.result(i).sizes;
    if (sizes.size() != from.rank()) return r.No("parts of another rank");
    results.push_back(SliceOf(r, *axis, start, Dim(1), sizes));
    start = start + sizes[*axis];
  }
  return results;
}

}  // namespace

const RuleTable& ViewRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define VIEW(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
