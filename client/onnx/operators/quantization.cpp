// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/operators/quantization.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>

namespace ingot::onnx {

at::Tensor Spread(NodeCall& n, const at::Tensor& part, const at::Tensor& x, int64_t axis, int64_t block) {
  if (part.numel() == 1) return part.dim() == 0 ? part : n.Reshape(part, {});
  axis = NodeCall::Axis(axis, x.dim());
  if (block == 0) {
    if (part.dim() != 1) Reject(fmt::format("scales of {} dims", part.dim()));
    Ints sizes(static_cast<size_t>(x.dim()), Int(1));
    sizes[static_cast<size_t>(axis)] = n.SizeOf(part, 0);
    return n.Reshape(part, std::move(sizes));
  }
  if (block < 0 || part.dim() != x.dim()) Reject("scales of blocks have as many dims as what they scale");
  NodeCall::CheckCount({Int(part.numel()), Int(block)});
  const at::Tensor each = n.Call("aten::repeat_interleave.self_int", {part, block, axis});
  return n.Call("aten::slice.Tensor", {each, axis, 0, n.SizeOf(x, axis)});
}

std::pair<double, double> BoundsOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte: return {0, 255};
    case at::kChar: return {-128, 127};
    case at::kShort: return {-32768, 32767};
    default: Refuse(fmt::format("to {}", at::toString(dtype)));
  }
}

at::Tensor Saturated(NodeCall& n, const at::Tensor& x, at::ScalarType dtype) {
  const double most = dtype == at::kFloat8_e4m3fn ? 448 : 57344;
  const bool is_float = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  const at::Tensor wide = is_float ? x : n.To(x, at::kFloat);
  return n.To(n.Call("aten::clamp", {wide, -most, most}), dtype);
}

namespace {

/// Floats that do not hold every level of an integer type, nor every difference of two: what is added to levels is
/// added as f32, which holds those of 16 bits.
bool IsNarrow(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

}  // namespace

at::Tensor Dequantized(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& zero,
                       int64_t axis, int64_t block) {
  if (at::isIntegralType(x.scalar_type(), false) && x.element_size() > 1 && IsNarrow(scale.scalar_type())) {
    return n.To(Dequantized(n, x, n.To(scale, at::kFloat), zero, axis, block), scale.scalar_type());
  }
  if (block > 0 && scale.dim() == x.dim()) {
    axis = NodeCall::Axis(axis, x.dim());
    // Whole blocks are a dim of their own, which a product with such a weight reads as it is.
    if (n.SizeOf(x, axis) == n.SizeOf(scale, axis) * Int(block)) {
      const Ints sizes = n.SizesOf(x);
      Ints blocks = sizes;
      blocks[static_cast<size_t>(axis)] = n.SizeOf(scale, axis);
      blocks.insert(blocks.begin() + axis + 1, Int(block));
      const auto each = [&](const at::Tensor& part) { return n.Call("aten::unsqueeze", {part, axis + 1}); };
      at::Tensor wide = n.To(n.Reshape(x, std::move(blocks)), scale.scalar_type());
      if (zero && at::isIntegralType(x.scalar_type(), false)) {
        wide = n.Sub(wide, n.To(each(*zero), scale.scalar_type()));
      }
      return n.Reshape(n.Mul(wide, each(scale)), sizes);
    }
  }
  at::Tensor wide = n.To(x, scale.scalar_type());
  // float8 has no level for zero but its own.
  if (zero && at::isIntegralType(x.scalar_type(), false)) {
    const at::Tensor level = Spread(n, *zero, x, axis, block);
    // Differences of 32-bit integers are exact as integers alone.
    wide = x.scalar_type() == at::kInt ? n.To(n.Sub(x, level), scale.scalar_type())
                                       : n.Sub(wide, n.To(level, scale.scalar_type()));
  }
  return n.Mul(wide, Spread(n, scale, x, axis, block));
}

at::Tensor Quantized(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& zero,
                     at::ScalarType dtype, int64_t axis, int64_t block) {
  if (zero) dtype = zero->scalar_type();
  const auto [low, high] = BoundsOf(dtype);
  at::Tensor y = n.Call("aten::round", {n.Div(n.To(x, scale.scalar_type()), Spread(n, scale, x, axis, block))});
  if (IsNarrow(scale.scalar_type())) y = n.To(y, at::kFloat);
  if (zero) y = n.Add(y, n.To(Spread(n, *zero, x, axis, block), y.scalar_type()));
  return n.To(n.Call("aten::clamp", {y, low, high}), dtype);
}

DynamicLevels DynamicallyQuantized(NodeCall& n, const at::Tensor& x) {
  const at::Tensor none = n.Number(0, x);
  const at::Tensor high = n.Call("aten::maximum", {n.Call("aten::max", {x}), none});
  const at::Tensor low = n.Call("aten::minimum", {n.Call("aten::min", {x}), none});
  const at::Tensor scale = n.Call("aten::div.Scalar", {n.Sub(high, low), 255.0});
  const at::Tensor point = n.Call("aten::clamp", {n.Call("aten::round", {n.Div(n.Sub(none, low), scale)}), 0.0, 255.0});
  const at::Tensor y = n.Add(n.Call("aten::round", {n.Div(x, scale)}), point);
  return {n.To(n.Call("aten::clamp", {y, 0.0, 255.0}), at::kByte), scale, n.To(point, at::kByte)};
}

at::Tensor Widened(NodeCall& n, size_t operand, size_t point, bool rows) {
  const at::Tensor x = n.To(n.In(operand), at::kInt);
  if (!n.Has(point)) return x;
  at::Tensor zero = n.To(n.In(point), at::kInt);
  if (zero.numel() == 1) {
    zero = zero.dim() == 0 ? zero : n.Reshape(zero, {});
  } else if (zero.dim() == 1 && rows) {
    zero = n.Call("aten::unsqueeze", {zero, -1});
  }
  return n.Sub(x, zero);
}

}  // namespace ingot::onnx
