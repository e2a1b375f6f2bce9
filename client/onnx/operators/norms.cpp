// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <numeric>

#include "client/onnx/operators/norms.h"

namespace ingot::onnx {
namespace {
namespace norms_part {

Results LayerNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-5);
  const int64_t stash = n.IntOf("stash_type", 1);
  const at::Tensor x = n.In(0), scale = n.In(1);
  const std::optional<at::Tensor> bias = n.MaybeIn(2);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", -1), x.dim());
  if (stash != 1 && x.scalar_type() != at::kDouble) Refuse(fmt::format("stash_type {}", stash));
  n.CheckSpreads("scale", scale, x);
  if (bias) n.CheckSpreads("bias", *bias, x);
  const Ints sizes = n.SizesOf(x);
  const Ints shape(sizes.begin() + axis, sizes.end());
  const auto is_whole = [&](const at::Tensor& t) { return t.sizes() == x.sizes().slice(static_cast<size_t>(axis)); };
  const bool fused = is_whole(scale) && (!bias || is_whole(*bias));
  const std::optional<at::Tensor> none;
  at::Tensor y;
  std::vector<at::Tensor> parts;
  if (n.Wants(1) || n.Wants(2)) {
    parts = n.CallAll("aten::native_layer_norm",
                      {x, shape, fused ? Arg(scale) : Arg(none), fused ? Arg(bias) : Arg(none), epsilon});
    y = parts.at(0);
  } else {
    y = n.Call("aten::layer_norm", {x, shape, fused ? Arg(scale) : Arg(none), fused ? Arg(bias) : Arg(none), epsilon});
  }
  if (!fused) {
    y = n.Mul(y, scale);
    if (bias) y = n.Add(y, *bias);
  }
  if (parts.empty()) return {y};
  return {y, n.To(parts.at(1), at::kFloat), n.To(parts.at(2), at::kFloat)};
}

Results GroupNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-5);
  const int64_t groups = n.IntOf("num_groups");
  n.Ignore("stash_type");  // PyTorch computes in float as well.
  const at::Tensor x = n.In(0);
  at::Tensor scale = n.In(1), bias = n.In(2);
  // Up to 20 there is one scale for each group instead of each channel.
  if (n.opset() < 21) {
    if (x.dim() < 2 || groups < 1 || x.size(1) % groups != 0) Reject("groups that do not divide the channels");
    const int64_t each = FloorDiv(n.SizeOf(x, 1), groups).Fix();
    const auto spread = [&](const at::Tensor& t) { return n.Call("aten::repeat_interleave.self_int", {t, each}); };
    scale = spread(scale);
    bias = spread(bias);
  }
  return {n.Call("aten::group_norm", {x, groups, scale, bias, epsilon})};
}

Results InstanceNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-5);
  return {n.Call("aten::instance_norm",
                 {n.In(0), n.In(1), n.In(2), std::nullopt, std::nullopt, true, 0.0, epsilon, false})};
}

Results BatchNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-5);
  n.Ignore("momentum");
  if (n.FlagOf("training_mode", 0)) Refuse("training: it would change the statistics. Export the model for inference");
  return {n.Call("aten::batch_norm", {n.In(0), n.In(1), n.In(2), n.In(3), n.In(4), false, 0.1, epsilon, false})};
}

Results Lrn(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1e-4), beta = n.FloatOf("beta", 0.75), bias = n.FloatOf("bias", 1.0);
  const int64_t size = n.IntOf("size");
  const at::Tensor x = n.In(0);
  if (x.dim() < 3 || size < 1) Reject("3 dims and a size are needed");
  const Ints sizes = n.SizesOf(x);
  NodeCall::CheckCount({Int(x.numel()), Int(size)});
  // The mean over neighbouring channels is a pooling over them; the other dims are one.
  const at::Tensor squares = n.Reshape(n.Mul(x, x), {sizes[0], 1, sizes[1], -1});
  const at::Tensor padded = n.Call("aten::constant_pad_nd", {squares, Ints{0, 0, (size - 1) / 2, size / 2}, 0.0});
  const at::Tensor means =
      n.Call("aten::avg_pool2d", {padded, std::vector<int64_t>{size, 1}, std::vector<int64_t>{1, 1}});
  const at::Tensor base = n.Plus(n.Times(n.Reshape(means, sizes), alpha), bias);
  return {n.Div(x, n.Call("aten::pow.Tensor_Scalar", {base, beta}))};
}

Results MeanVarianceNorm(NodeCall& n) {
  const auto axes = NodeCall::Axes(n.IntsOf("axes").value_or(std::vector<int64_t>{0, 2, 3}), n.In(0).dim());
  const at::Tensor x = n.In(0), mean = n.Call("aten::mean.dim", {x, axes, true});
  const at::Tensor centred = n.Sub(x, mean);
  const at::Tensor variance = n.Call("aten::mean.dim", {n.Mul(centred, centred), axes, true});
  return {n.Div(centred, n.Plus(n.Call("aten::sqrt", {variance}), 1e-9))};
}

Results LpNorm(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", -1), x.dim()), p = n.IntOf("p", 2);
  if (p != 1 && p != 2) Reject(fmt::format("the norm of order {}", p));
  const at::Tensor norm =
      n.Call("aten::linalg_vector_norm", {x, static_cast<double>(p), std::vector<int64_t>{axis}, true});
  // A row of zeros stays one.
  return {n.Where(n.Call("aten::eq.Scalar", {norm, 0.0}), n.Number(0, x), n.Div(x, norm))};
}

constexpr Operator kTable[] = {
    {"BatchNormalization", 9, BatchNorm},
    {"GroupNormalization", 18, GroupNorm},
    {"InstanceNormalization", 6, InstanceNorm},
    {"LRN", 1, Lrn},
    {"LayerNormalization", 17, LayerNorm},
    {"LpNormalization", 1, LpNorm},
    {"MeanVarianceNormalization", 9, MeanVarianceNorm},
    {"RMSNormalization", 23, RootMeanSquareNormOf},
    {"SimplifiedLayerNormalization", 1, RootMeanSquareNormOf},
};

}  // namespace norms_part
}  // namespace

at::Tensor RootMeanSquareNorm(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, int64_t axis, double epsilon) {
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - NodeCall::Axis(axis, x.dim())));
  std::iota(axes.begin(), axes.end(), x.dim() - static_cast<int64_t>(axes.size()));
  n.CheckSpreads("scale", scale, x);
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : n.To(x, at::kFloat);
  const at::Tensor mean = n.Call("aten::mean.dim", {n.Call("aten::pow.Tensor_Scalar", {wide, 2}), axes, true});
  const at::Tensor y = n.Mul(wide, n.Call("aten::rsqrt", {n.Plus(mean, epsilon)}));
  return n.Mul(n.To(y, x.scalar_type()), scale);
}

Results RootMeanSquareNormOf(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-5);
  const int64_t axis = n.IntOf("axis", -1);
  if (const int64_t stash = n.IntOf("stash_type", 1); stash != 1) Refuse(fmt::format("stash_type {}", stash));
  if (n.Wants(1)) Refuse("the statistics of a norm, which training alone needs");
  return {RootMeanSquareNorm(n, n.In(0), n.In(1), axis, epsilon)};
}

std::span<const Operator> NormOperators() { return norms_part::kTable; }

}  // namespace ingot::onnx
