// SPDX-License-Identifier: Apache-2.0
//
// Pooling over small windows: what each tap reads is one operand of a formula.
#include <algorithm>
#include <limits>

#include "compiler/fusion/lower/windows.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {

using Op = ScalarOp;

int64_t Walk::Taps() const {
  int64_t taps = 1;
  for (const int64_t size : window) taps *= size;
  return taps;
}

std::optional<std::vector<int64_t>> IntsOfDims(const Call& call, size_t at, size_t count,
                                               const std::vector<int64_t>& otherwise) {
  if (call.IsNone(at)) return otherwise;
  const auto ints = call.IntsAt(at);
  if (!ints) return std::nullopt;
  if (ints->empty()) return otherwise;
  if (ints->size() == 1) return std::vector<int64_t>(count, ints->front());
  return ints->size() == count ? ints : std::nullopt;
}

ExprId Padded(ExprPool& pool, ExprId x, ExprId fill, const Walk& walk, const Dims& results) {
  for (size_t i = 0; i < walk.dims(); ++i) {
    if (x == kNoExpr) return kNoExpr;
    Dims sizes = pool[x].sizes;
    const size_t axis = sizes.size() - walk.dims() + i;
    const Dim size = sizes[axis];
    const Dim reach = (results[results.size() - walk.dims() + i] - Dim(1)) * Dim(walk.stride[i]) +
                      Dim(walk.dilation[i] * (walk.window[i] - 1) + 1);
    const Dim beyond = reach - size;
    // Of what is left over behind the last window, nothing is read.
    const bool is_within = beyond.is_const() && beyond.const_value() <= 0;
    if (walk.padding[i] == 0 && is_within) continue;
    sizes[axis] = reach;
    x = pool.Region(x, fill, std::move(sizes), static_cast<uint32_t>(axis), Dim(walk.padding[i]), size);
  }
  return x;
}

Affine TapAt(const Walk& walk, size_t dim, size_t result_dim, int64_t tap) {
  Affine at = Affine::Of(Dim(tap * walk.dilation[dim]));
  at.AddScaled(Affine::Var(static_cast<uint16_t>(result_dim)), Dim(walk.stride[dim]));
  return at;
}

void ForEachTap(ExprPool& pool, ExprId padded, const Walk& walk, const Dims& sizes,
                const std::function<void(const std::vector<int64_t>& taps, ExprId value)>& take) {
  const size_t first = sizes.size() - walk.dims();
  std::vector<int64_t> taps(walk.dims());
  for (int64_t number = 0; number < walk.Taps(); ++number) {
    int64_t rest = number;
    for (size_t i = walk.dims(); i-- > 0;) {
      taps[i] = rest % walk.window[i];
      rest /= walk.window[i];
    }
    Coords map;
    for (size_t k = 0; k < first; ++k) map.push_back(Affine::Var(static_cast<uint16_t>(k)));
    for (size_t i = 0; i < walk.dims(); ++i) map.push_back(TapAt(walk, i, first + i, taps[i]));
    take(taps, pool.View(padded, sizes, std::move(map)));
  }
}

namespace {

// Each tap costs a read, and a comparison where there is padding.
constexpr int64_t kTapsMax = 25;

/// The walk of a pooling whose windows are argument 1; nullopt: it is too wide, or differs with the sizes.
std::optional<Walk> WalkOf(const Rule& r, size_t dims, bool has_dilation) {
  const std::vector<int64_t> ones(dims, 1), zeros(dims, 0);
  Walk walk;
  const auto window = IntsOfDims(r.call, 1, dims, {});
  if (!window || window->empty()) return std::nullopt;
  const auto stride = IntsOfDims(r.call, 2, dims, *window);
  const auto padding = IntsOfDims(r.call, 3, dims, zeros);
  const auto dilation = has_dilation ? IntsOfDims(r.call, 4, dims, ones) : std::optional(ones);
  if (!stride || !padding || !dilation || r.result().rank() != dims + 2) return std::nullopt;
  walk = {*window, *stride, *padding, *dilation};
  return walk.Taps() > kTapsMax ? std::nullopt : std::optional(walk);
}

template <size_t dims>
Results MaxPool(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto walk = WalkOf(r, dims, true);
  if (!walk || !guards::IsFloat(t)) return r.No("pooling over wide windows, of other types or sizes");
  const ExprId lowest = r.pool.Float(-std::numeric_limits<double>::infinity(), t);
  const ExprId padded = Padded(r.pool, r.Operand(0, t), lowest, *walk, r.result().sizes);
  ExprId most = kNoExpr;
  ForEachTap(r.pool, padded, *walk, r.result().sizes, [&](const std::vector<int64_t>&, ExprId value) {
    most = most == kNoExpr ? value : r.pool.Map(Op::kMax, {most, value});
  });
  return {most};
}

/// Means of whole windows, the padding counted as zeros.
template <size_t dims>
Results AvgPool(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto walk = WalkOf(r, dims, false);
  if (!walk || !guards::IsFloat(t)) return r.No("pooling over wide windows, of other types or sizes");
  const bool pads = std::ranges::any_of(walk->padding, [](int64_t padding) { return padding != 0; });
  const bool laps_over = r.call.BoolAt(4).value_or(false), counts_pads = r.call.BoolAt(5).value_or(true);
  if (laps_over || (pads && !counts_pads) || !r.call.IsNone(6)) return r.No("means of parts of windows");
  const ExprId padded = Padded(r.pool, r.Operand(0, t), r.pool.Float(0, t), *walk, r.result().sizes);
  ExprId sum = kNoExpr;
  ForEachTap(r.pool, padded, *walk, r.result().sizes, [&](const std::vector<int64_t>&, ExprId value) {
    sum = sum == kNoExpr ? value : r.pool.Map(Op::kAdd, {sum, value});
  });
  return {r.pool.Map(Op::kDiv, {sum, r.pool.Float(static_cast<double>(walk->Taps()), t)})};
}

/// Of pooling to one place: the mean of all. Others have windows of several sizes.
template <size_t dims>
Results AdaptiveAvgPool(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const Type* x = r.call.TypeAt(0);
  const size_t rank = r.result().rank();
  if (!x || rank < dims + 1 || !guards::IsFloat(t)) return {};
  Dim count = 1;
  std::vector<bool> reduced(rank);
  for (size_t k = rank - dims; k < rank; ++k) {
    if (!r.result().sizes[k].is_one()) return r.No("pooling to several places");
    reduced[k] = true;
    count = count * x->sizes[k];
  }
  const ExprId sum = r.pool.Reduce(Op::kReduceSum, t, r.Operand(0, t), std::move(reduced));
  return {r.pool.Map(Op::kDiv, {sum, r.pool.Cast(r.pool.Size(count), t)})};
}

}  // namespace

const RuleTable& PoolRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define POOL(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
