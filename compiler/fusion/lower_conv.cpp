// SPDX-License-Identifier: Apache-2.0
//
// Convolutions: sums of products over the channels and taps of windows. Channels lie side by side, in what is read and
// in what is written, so that vectors run along them; AssignLayouts sees to that.
#include <algorithm>

#include "compiler/fusion/windows.h"
#include "compiler/ops/few_channels.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

Affine At(size_t dim) { return Affine::Var(static_cast<uint16_t>(dim)); }

bool HasChannelsLast(const Type& type) { return type.sizes[1].is_one() || type.strides[1].is_one(); }

/// conv(x, weight, bias, stride, padding, dilation, groups)
std::optional<Walk> WalkOf(const Rule& r, size_t dims) {
  const std::vector<int64_t> ones(dims, 1), zeros(dims, 0);
  Walk walk;
  for (size_t i = 0; i < dims; ++i) {
    const Dim& size = r.call.TypeAt(1)->sizes[2 + i];
    if (!size.is_const() || size.const_value() < 1) return std::nullopt;
    walk.window.push_back(size.const_value());
  }
  const auto stride = IntsOfDims(r.call, 3, dims, ones), dilation = IntsOfDims(r.call, 5, dims, ones);
  if (!stride || !dilation) return std::nullopt;
  walk.stride = *stride;
  walk.dilation = *dilation;
  if (const auto named = r.call.NameAt(4)) {
    walk.padding = zeros;
    for (size_t i = 0; i < dims && *named == "same"; ++i) {
      const int64_t both = walk.dilation[i] * (walk.window[i] - 1);
      walk.padding[i] = both / 2;  // What is odd is behind.
    }
    return walk;
  }
  const auto padding = IntsOfDims(r.call, 4, dims, zeros);
  if (!padding) return std::nullopt;
  walk.padding = *padding;
  return walk;
}

/// Of all channels, each result: one contraction over channels and taps.
ExprId Dense(const Rule& r, const Walk& walk, ExprId padded) {
  const Type& weight = *r.call.TypeAt(1);
  const Type& result = r.result();
  ExprPool& p = r.pool;
  const size_t dims = walk.dims();
  std::vector<uint16_t> depths;
  const auto fresh = [&](const Dim& extent) {
    size_t nth = 0;
    for (const uint16_t depth : depths) nth += p.DepthExtent(depth) == extent;
    depths.push_back(p.DepthVar(extent, nth));
    return Affine::Var(depths.back());
  };
  // Dims of the product: images, what is walked, channels.
  Coords left(2 + dims), right(2 + dims);
  Dims sizes = {result.sizes[0]};
  left[0] = At(0);
  right[0] = At(1 + dims);
  for (size_t i = 0; i < dims; ++i) {
    sizes.push_back(result.sizes[2 + i]);
    left[2 + i] = TapAt(walk, i, 1 + i, 0);
    if (walk.window[i] == 1) continue;
    const Affine tap = fresh(weight.sizes[2 + i]);
    left[2 + i].AddScaled(tap, Dim(walk.dilation[i]));
    right[2 + i] = tap;
  }
  left[1] = right[1] = depths.empty() || !weight.sizes[1].is_one() ? fresh(weight.sizes[1]) : Affine();
  sizes.push_back(result.sizes[1]);
  // Vectors of columns are turned over from what lies side by side along a depth.
  bool is_dense = false;
  for (size_t k = 1; k < weight.rank(); ++k) {
    is_dense |= weight.strides[k].is_one() && (right[k].vars.size() == 1);
  }
  if (!is_dense) return kNoExpr;
  const ExprId product =
      p.Contract(DType::kF32, padded, r.Tensor(1), std::move(sizes), depths, std::move(left), std::move(right));
  Coords back = {At(0)};
  for (size_t i = 0; i < dims; ++i) back.push_back(At(2 + i));
  back.push_back(At(1));
  return p.View(product, result.sizes, std::move(back));
}

/// Of each channel, its own result: one product for each tap.
ExprId Depthwise(const Rule& r, const Walk& walk, ExprId padded) {
  ExprPool& p = r.pool;
  ExprId sum = kNoExpr;
  ForEachTap(p, padded, walk, r.result().sizes, [&](const std::vector<int64_t>& taps, ExprId value) {
    Coords map = {At(0), Affine()};
    for (const int64_t tap : taps) map.push_back(Affine::Of(Dim(tap)));
    Dims per_channel(r.result().rank() - 1, Dim(1));
    per_channel[0] = r.result().sizes[1];
    const ExprId weight = p.View(r.Tensor(1), per_channel, std::move(map));
    sum = sum == kNoExpr ? p.Map(Op::kMul, {value, weight}) : p.Map(Op::kFma, {value, weight, sum});
  });
  return sum;
}

template <size_t dims>
Results Conv(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  const Type* weight = r.call.TypeAt(1);
  const Type& result = r.result();
  if (!x || !weight || x->rank() != dims + 2 || weight->rank() != dims + 2) return r.No("no batch of images");
  for (const Type* type : {x, weight, &result}) {
    if (type->dtype != DType::kF32) return r.No("PyTorch's library convolves other types than f32 faster");
  }
  if (!HasChannelsLast(result) || !(HasChannelsLast(*x) || HasFewChannels(*x))) return r.No("channels lie apart");
  const auto groups = r.call.IsNone(6) ? std::optional<int64_t>(1) : r.call.IntAt(6);
  const auto walk = WalkOf(r, dims);
  constexpr int64_t kTapsMax = 1024, kDepthwiseTapsMax = 49;
  if (!walk || !groups || walk->Taps() > kTapsMax) return r.No("windows too wide, or that differ with the sizes");
  const bool is_depthwise =
      *groups != 1 && x->sizes[1] == Dim(*groups) && weight->sizes[0] == Dim(*groups) && weight->sizes[1].is_one();
  if (*groups != 1 && !is_depthwise) return r.No("channels in groups");
  if (is_depthwise && walk->Taps() > kDepthwiseTapsMax) return r.No("wide windows of single channels");
  // With one channel there are no columns.
  if (result.sizes[1].is_one()) return r.No("one channel");
  const ExprId padded = Padded(r.pool, r.Tensor(0), kNoExpr, *walk, result.sizes);
  const ExprId sum = is_depthwise ? Depthwise(r, *walk, padded) : Dense(r, *walk, padded);
  if (r.call.IsNone(2) || sum == kNoExpr) return {sum};
  Dims per_channel(result.rank() - 1, Dim(1));
  per_channel[0] = result.sizes[1];
  return {r.pool.Map(Op::kAdd, {sum, r.pool.Reshape(r.Operand(2, DType::kF32), per_channel)})};
}

}  // namespace

const RuleTable& ConvRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define CONV(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
