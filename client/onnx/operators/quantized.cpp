// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "client/onnx/element_types.h"
#include "client/onnx/operators/quantization.h"
#include "client/onnx/operators/windows.h"

namespace ingot::onnx {
namespace {
namespace quantized_part {

bool IsFloat8(at::ScalarType dtype) { return dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2; }

Results Dequantize(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0), wanted = n.IntOf("output_dtype", 0);
  at::Tensor scale = n.In(1);
  // The product is as precise as the result, or as the scale where that is more.
  if (wanted != 0) scale = n.To(scale, at::promoteTypes(scale.scalar_type(), TypeOf(wanted)));
  const at::Tensor y =
      Dequantized(n, n.Levels(0), scale, n.Has(2) ? std::optional(n.Levels(2)) : std::nullopt, axis, block);
  return {wanted == 0 ? y : n.To(y, TypeOf(wanted))};
}

Results Quantize(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0), wanted = n.IntOf("output_dtype", 0);
  const bool saturates = n.FlagOf("saturate", 1);
  const int64_t precision = n.IntOf("precision", 0);
  const at::Tensor x = n.In(0), scale = precision == 0 ? n.In(1) : n.To(n.In(1), TypeOf(precision));
  const at::ScalarType dtype = n.Has(2) ? n.In(2).scalar_type() : wanted == 0 ? at::kByte : TypeOf(wanted);
  if (!IsFloat8(dtype)) return {Quantized(n, x, scale, n.MaybeIn(2), dtype, axis, block)};
  const at::Tensor y = n.Div(n.To(x, scale.scalar_type()), Spread(n, scale, x, axis, block));
  return {saturates ? Saturated(n, y, dtype) : n.To(y, dtype)};
}

Results DynamicQuantize(NodeCall& n) {
  const DynamicLevels made = DynamicallyQuantized(n, n.In(0));
  return {made.levels, made.scale, made.zero};
}

Results MatMulInteger(NodeCall& n) {
  return {n.Call("aten::matmul", {Widened(n, 0, 2, true), Widened(n, 1, 3, false)})};
}

/// Spread over rows or columns of a product.
at::Tensor Along(NodeCall& n, size_t i, bool rows) {
  const at::Tensor x = n.In(i);
  if (x.numel() == 1) return x.dim() == 0 ? x : n.Reshape(x, {});
  return x.dim() == 1 && rows ? n.Call("aten::unsqueeze", {x, -1}) : x;
}

Results QLinearMatMul(NodeCall& n) {
  const at::Tensor product = n.Call("aten::matmul", {Widened(n, 0, 2, true), Widened(n, 3, 5, false)});
  const at::ScalarType dtype = n.In(7).scalar_type();
  const auto [low, high] = BoundsOf(dtype);
  const at::Tensor scale = n.Mul(n.To(Along(n, 1, true), at::kFloat), n.To(Along(n, 4, false), at::kFloat));
  const at::Tensor scaled = n.Mul(n.To(product, at::kFloat), n.Div(scale, n.To(Along(n, 6, true), at::kFloat)));
  const at::Tensor y = n.Add(n.Call("aten::round", {scaled}), n.To(Along(n, 7, true), at::kFloat));
  return {n.To(n.Call("aten::clamp", {y, low, high}), dtype)};
}

/// The kernel less its zero points as floats, made once where it is a constant: a convolution reads it as floats.
at::Tensor FloatKernel(NodeCall& n, size_t weight, size_t point) {
  const auto made = [&] {
    const at::Tensor w = n.To(n.In(weight), at::kFloat);
    return n.Has(point) ? n.Sub(w, Spread(n, n.To(n.In(point), at::kFloat), w, 0)) : w;
  };
  if (!n.IsConstant(weight) || (n.Has(point) && !n.IsConstant(point))) return made();
  const Unnoted unnoted;
  return n.Constant(made());
}

/// A convolution of what is 8 bits wide, less zero points, as 32-bit integers. PyTorch's convolutions are of floats:
/// sums of so few products that f32 holds them exactly are added up as integers.
at::Tensor IntegerConv(NodeCall& n, size_t weight, size_t x_point, size_t w_point) {
  at::Tensor x = n.To(n.In(0), at::kFloat);
  double largest = 255.0 * (n.In(weight).scalar_type() == at::kChar && !n.Has(w_point) ? 128 : 255);
  if (n.Has(x_point)) {
    if (n.In(x_point).numel() != 1) Refuse("a zero point for each channel of the input");
    x = n.Sub(x, n.To(n.Reshape(n.In(x_point), {}), at::kFloat));
  }
  const at::Tensor w = FloatKernel(n, weight, w_point);
  if (n.Has(w_point)) {
    const auto zeros = n.IsConstant(w_point) ? n.KnownOf(n.ValueAt(w_point)) : nullptr;
    const bool is_zero = zeros && std::ranges::all_of(zeros->ints, [](const Int& z) { return z.seen() == 0; });
    if (is_zero && n.In(weight).scalar_type() == at::kChar) largest = 255.0 * 128;
  }
  ConvCall call = ConvOf(n, x, w);
  if (w.dim() < 3) Reject("a kernel of too few dims");
  int64_t products = 1;
  for (int64_t d = 2; d < w.dim(); ++d) products *= w.size(d);
  const auto at_once = std::max<int64_t>(1, static_cast<int64_t>(0x1p24 / largest) / std::max<int64_t>(products, 1));
  const int64_t channels = w.size(1);
  if (channels <= at_once) return n.To(call.Run(n, call.x, w), at::kInt);
  if (call.group != 1 || !n.SizeOf(call.x, 1).is_number()) {
    return n.To(call.Run(n, n.To(call.x, at::kDouble), n.To(w, at::kDouble)), at::kInt);
  }
  at::Tensor sum;
  for (int64_t first = 0; first < channels; first += at_once) {
    const auto part = [&](const at::Tensor& all) {
      return n.Call("aten::slice.Tensor", {all, 1, first, std::min(first + at_once, channels)});
    };
    const at::Tensor some = n.To(call.Run(n, part(call.x), part(w)), at::kInt);
    sum = sum.defined() ? n.Add(sum, some) : some;
  }
  return sum;
}

Results ConvInteger(NodeCall& n) { return {IntegerConv(n, 1, 2, 3)}; }

Results QLinearConv(NodeCall& n) {
  at::Tensor sum = IntegerConv(n, 3, 2, 5);
  const auto of_channels = [&](const at::Tensor& x) { return Spread(n, x, sum, 1); };
  if (n.Has(8)) sum = n.Add(sum, of_channels(n.In(8)));
  const at::ScalarType dtype = n.In(7).scalar_type();
  const auto [low, high] = BoundsOf(dtype);
  const auto one = [&](size_t i) { return n.In(i).dim() == 0 ? n.In(i) : n.Reshape(n.In(i), {}); };
  const at::Tensor scale = n.Div(n.Mul(one(1), of_channels(n.In(4))), one(6));
  const at::Tensor level = n.Call("aten::round", {n.Mul(n.To(sum, at::kFloat), scale)});
  return {n.To(n.Call("aten::clamp", {n.Add(level, n.To(one(7), at::kFloat)), low, high}), dtype)};
}

constexpr Operator kTable[] = {
    {"ConvInteger", 10, ConvInteger},
    {"DequantizeLinear", 10, Dequantize, nullptr, false, true},
    {"DynamicQuantizeLinear", 11, DynamicQuantize},
    {"MatMulInteger", 10, MatMulInteger},
    {"QLinearConv", 10, QLinearConv},
    {"QLinearMatMul", 10, QLinearMatMul},
    {"QuantizeLinear", 10, Quantize},
};

}  // namespace quantized_part
}  // namespace

std::span<const Operator> QuantizedOperators() { return quantized_part::kTable; }

}  // namespace ingot::onnx
