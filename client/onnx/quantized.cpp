// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "client/onnx/element_types.h"
#include "client/onnx/operators.h"

namespace ingot::onnx {
namespace {
namespace quantized_part {

/// Scales or zero points spread over `x`: one for all, one for each position of an axis, or one for each block of it.
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

Results Dequantize(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0);
  const at::Tensor x = n.In(0), scale = n.In(1);
  at::Tensor wide = n.To(x, scale.scalar_type());
  if (n.Has(2)) {
    const at::Tensor zero = Spread(n, n.In(2), x, axis, block);
    // Differences of 32-bit integers are exact as integers alone.
    wide = x.scalar_type() == at::kInt ? n.To(n.Sub(x, zero), scale.scalar_type())
                                       : n.Sub(wide, n.To(zero, scale.scalar_type()));
  }
  return {n.Mul(wide, Spread(n, scale, x, axis, block))};
}

/// The bounds of a narrow integer type.
std::pair<double, double> BoundsOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte: return {0, 255};
    case at::kChar: return {-128, 127};
    case at::kShort: return {-32768, 32767};
    default: Refuse(fmt::format("to {}", at::toString(dtype)));
  }
}

Results Quantize(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0), wanted = n.IntOf("output_dtype", 0);
  n.Ignore("saturate");
  if (const int64_t precision = n.IntOf("precision", 0); precision != 0) Refuse(fmt::format("precision {}", precision));
  const at::Tensor x = n.In(0), scale = n.In(1);
  at::ScalarType dtype = at::kByte;
  if (wanted != 0) {
    const auto given = ScalarTypeOf(wanted);
    if (!given) Refuse(fmt::format("to {}, which PyTorch does not compute with", NameOf(wanted)));
    dtype = *given;
  }
  if (n.Has(2)) dtype = n.In(2).scalar_type();
  const auto [low, high] = BoundsOf(dtype);
  at::Tensor y = n.Call("aten::round", {n.Div(n.To(x, scale.scalar_type()), Spread(n, scale, x, axis, block))});
  if (n.Has(2)) y = n.Add(y, n.To(Spread(n, n.In(2), x, axis, block), scale.scalar_type()));
  return {n.To(n.Call("aten::clamp", {y, low, high}), dtype)};
}

Results DynamicQuantize(NodeCall& n) {
  const at::Tensor x = n.In(0), zero = n.Number(0, x);
  const at::Tensor high = n.Call("aten::maximum", {n.Call("aten::max", {x}), zero});
  const at::Tensor low = n.Call("aten::minimum", {n.Call("aten::min", {x}), zero});
  const at::Tensor scale = n.Call("aten::div.Scalar", {n.Sub(high, low), 255.0});
  const at::Tensor point = n.Call("aten::clamp", {n.Call("aten::round", {n.Div(n.Sub(zero, low), scale)}), 0.0, 255.0});
  const at::Tensor y = n.Add(n.Call("aten::round", {n.Div(x, scale)}), point);
  return {n.To(n.Call("aten::clamp", {y, 0.0, 255.0}), at::kByte), scale, n.To(point, at::kByte)};
}

/// An operand as 32-bit integers, less its zero point, which stands for rows or columns where it is a vector.
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

constexpr Operator kTable[] = {
    {"DequantizeLinear", 10, Dequantize}, {"DynamicQuantizeLinear", 11, DynamicQuantize},
    {"MatMulInteger", 10, MatMulInteger}, {"QLinearMatMul", 10, QLinearMatMul},
    {"QuantizeLinear", 10, Quantize},
};

}  // namespace quantized_part
}  // namespace

std::span<const Operator> QuantizedOperators() { return quantized_part::kTable; }

}  // namespace ingot::onnx
