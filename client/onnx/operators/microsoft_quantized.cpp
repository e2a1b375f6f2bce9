// SPDX-License-Identifier: Apache-2.0
// Quantised operators of the domain com.microsoft: products with weights of few bits, and operators between levels.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "client/onnx/operators/quantization.h"

namespace ingot::onnx {
namespace {
namespace microsoft_quantized_part {

at::Tensor One(NodeCall& n, size_t i) {
  const at::Tensor x = n.In(i);
  return x.numel() == 1 && x.dim() > 0 ? n.Reshape(x, {}) : x;
}

// -- products -----------------------------------------------------------------------------------------

/// Levels of `bits` bits from bytes that hold several along their last dim, the first in the lowest bits.
at::Tensor Unpacked(NodeCall& n, const at::Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  const at::Tensor low = n.Call("aten::bitwise_and.Scalar", {bytes, 15});
  const at::Tensor high = n.Call("aten::__rshift__.Scalar", {bytes, 4});
  return n.Call("aten::flatten.using_ints", {n.Call("aten::stack", {std::vector<at::Tensor>{low, high}, -1}), -2, -1});
}

/// A row for each output, whose blocks have a scale each; nothing wider than a level is ever kept.
Results MatMulNBits(NodeCall& n) {
  const int64_t depth = n.IntOf("K"), outputs = n.IntOf("N"), bits = n.IntOf("bits", 4), block = n.IntOf("block_size");
  n.Ignore("accuracy_level");  // How few bits x may be rounded to.
  if (bits != 4 && bits != 8) Refuse(fmt::format("weights of {} bits", bits));
  if (n.FlagOf("weight_prepacked", 0)) Refuse("weights in an order of onnxruntime's own");
  if (depth < 1 || outputs < 1 || block < 16 || block > 1 << 16) Reject("impossible sizes");
  if (n.Has(4)) Refuse("weights in another order than inputs (g_idx)");
  const int64_t blocks = (depth + block - 1) / block;
  const at::Tensor x = n.In(0);
  const at::Tensor bytes = n.Reshape(n.In(1), {outputs, blocks, -1});
  const at::ScalarType dtype = x.scalar_type();
  at::Tensor zero = n.Number(bits == 4 ? 8 : 128, at::kFloat);
  if (n.Has(3)) {
    const at::Tensor given = n.In(3);
    const bool is_packed = given.scalar_type() == at::kByte;
    const auto made = [&] {
      if (!is_packed) return n.To(n.Reshape(given, {outputs, blocks, 1}), at::kFloat);
      at::Tensor levels = Unpacked(n, n.Reshape(given, {outputs, -1}), bits);
      levels = n.Call("aten::slice.Tensor", {levels, 1, 0, blocks});
      return n.Call("aten::unsqueeze", {n.To(levels, at::kFloat), -1});
    };
    zero = made();
  }
  const at::Tensor scale = n.To(n.Reshape(n.In(2), {outputs, blocks, 1}), at::kFloat);
  at::Tensor weight = n.Mul(n.Sub(n.To(Unpacked(n, bytes, bits), at::kFloat), zero), scale);
  weight = n.Reshape(weight, {outputs, blocks * block});
  if (blocks * block != depth) weight = n.Call("aten::slice.Tensor", {weight, 1, 0, depth});
  return {n.Call("aten::linear", {x, n.To(weight, dtype), n.MaybeIn(5)})};
}

/// Rows of a table of levels, which are found before anything is widened: two levels in a byte stay so till then.
Results GatherBlockQuantized(NodeCall& n) {
  const int64_t block = n.IntOf("block_size", 128), bits = n.IntOf("bits", 4);
  const std::shared_ptr<const Nibbles> nibbles = n.ValueAt(0).nibbles;
  at::Tensor table = nibbles ? n.In(0) : n.Levels(0);
  const auto rank = nibbles ? static_cast<int64_t>(nibbles->sizes.size()) : table.dim();
  const int64_t from = NodeCall::Axis(n.IntOf("gather_axis", 0), rank);
  const int64_t along = NodeCall::Axis(n.IntOf("quantize_axis", 1), rank);
  if (from == along) Refuse("rows that cut through blocks");
  if (block < 16) Refuse(fmt::format("blocks of {}", block));
  const bool is_bytes = !nibbles && table.scalar_type() == at::kByte;
  if (is_bytes && bits != 4 && bits != 8) Refuse(fmt::format("levels of {} bits", bits));
  const bool is_even = nibbles && from + 1 < rank && nibbles->sizes.back() % 2 == 0;
  const bool is_packed = is_even || (is_bytes && bits == 4);
  if (nibbles && !is_even) table = n.Levels(0);
  if (is_even) {
    Ints sizes(nibbles->sizes.begin(), nibbles->sizes.end());
    sizes.back() = Int(nibbles->sizes.back() / 2);
    table = n.Reshape(table, sizes);
  }
  const at::Tensor index = n.To(n.Index(1), at::kLong);
  const auto picked = [&](const at::Tensor& x) {
    std::vector<std::optional<at::Tensor>> indices(static_cast<size_t>(from));
    indices.emplace_back(index);
    return n.Call("aten::index.Tensor", {x, std::move(indices)});
  };
  // How far the rows' own dims have moved.
  const int64_t axis = along > from ? along + index.dim() - 1 : along;
  const auto levels_of = [&](const at::Tensor& bytes, bool is_signed) {
    const at::Tensor levels = Unpacked(n, bytes, 4);
    if (!is_signed) return levels;
    return n.Call("aten::sub.Scalar", {n.To(n.Call("aten::bitwise_xor.Scalar", {levels, 8}), at::kChar), 8});
  };
  at::Tensor levels = picked(table);
  if (is_packed) levels = levels_of(levels, nibbles && nibbles->is_signed);
  const at::Tensor scale = picked(n.In(2));
  std::optional<at::Tensor> zero;
  if (n.Has(3)) {
    zero = picked(n.Levels(3));
    if (is_bytes && bits == 4) zero = n.Call("aten::slice.Tensor", {Unpacked(n, *zero, 4), -1, 0, n.SizeOf(scale, -1)});
  } else if (is_bytes) {
    zero = n.Call("aten::full_like", {n.To(scale, at::kByte), bits == 4 ? 8 : 128});
  }
  return {Dequantized(n, levels, scale, zero, axis, block)};
}

at::Tensor WithBias(NodeCall& n, const at::Tensor& product, size_t bias) {
  return n.Has(bias) ? n.Add(product, n.In(bias)) : product;
}

Results MatMulIntegerToFloat(NodeCall& n) {
  const at::Tensor sums = n.Call("aten::matmul", {Widened(n, 0, 4, true), Widened(n, 1, 5, false)});
  const at::Tensor scaled = n.Mul(n.To(sums, n.In(2).scalar_type()), n.Mul(One(n, 2), One(n, 3)));
  return {WithBias(n, scaled, 6)};
}

Results DynamicQuantizeMatMul(NodeCall& n) {
  const DynamicLevels made = DynamicallyQuantized(n, n.In(0));
  const at::Tensor levels = n.Sub(n.To(made.levels, at::kInt), n.To(made.zero, at::kInt));
  const at::Tensor sums = n.Call("aten::matmul", {levels, Widened(n, 1, 3, false)});
  return {WithBias(n, n.Mul(n.To(sums, at::kFloat), n.Mul(made.scale, One(n, 2))), 4)};
}

/// Rows and columns as Gemm has them; without a scale of the result it stays a float.
Results QGemm(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0);
  const bool turns_a = n.IntOf("transA", 0) != 0, turns_b = n.IntOf("transB", 0) != 0;
  const auto less = [&](size_t i, size_t point, bool turns) {
    at::Tensor x = n.To(n.In(i), at::kInt);
    if (turns) x = n.Call("aten::t", {x});
    return n.Has(point) ? n.Sub(x, n.To(One(n, point), at::kInt)) : x;
  };
  at::Tensor sums = n.Call("aten::matmul", {less(0, 2, turns_a), less(3, 5, turns_b)});
  if (n.Has(6)) {
    n.CheckSpreads("C", n.In(6), sums);
    sums = n.Add(sums, n.In(6));
  }
  at::Tensor scale = n.Mul(One(n, 1), One(n, 4));
  if (alpha != 1.0) scale = n.Times(scale, alpha);
  const at::Tensor y = n.Mul(n.To(sums, at::kFloat), scale);
  return {n.Has(7) ? Quantized(n, y, One(n, 7), n.MaybeIn(8)) : y};
}

// -- operators between levels -------------------------------------------------------------------------

at::Tensor Decoded(NodeCall& n, size_t first) {
  const std::optional<at::Tensor> zero = n.Has(first + 2) ? std::optional(One(n, first + 2)) : std::nullopt;
  return Dequantized(n, n.In(first), One(n, first + 1), zero);
}
at::Tensor Encoded(NodeCall& n, const at::Tensor& y, size_t scale) {
  const std::optional<at::Tensor> zero = n.Has(scale + 1) ? std::optional(One(n, scale + 1)) : std::nullopt;
  return Quantized(n, y, One(n, scale), zero, n.In(0).scalar_type());
}

Results QLinearBinary(NodeCall& n) {
  const at::Tensor a = Decoded(n, 0), b = Decoded(n, 3);
  return {Encoded(n, n.op().name == "QLinearAdd" ? n.Add(a, b) : n.Mul(a, b), 6)};
}

Results QLinearSigmoid(NodeCall& n) { return {Encoded(n, n.Call("aten::sigmoid", {Decoded(n, 0)}), 3)}; }

Results QLinearLeakyRelu(NodeCall& n) {
  const double slope = n.FloatOf("alpha", 0.01);
  return {Encoded(n, n.Call("aten::leaky_relu", {Decoded(n, 0), slope}), 3)};
}

Results QLinearSoftmax(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", -1), opset = n.IntOf("opset", 13);
  const at::Tensor x = Decoded(n, 0);
  // Before 13 all dims from `axis` on were one.
  if (opset < 13 && NodeCall::Axis(axis, x.dim()) != x.dim() - 1) Refuse("the softmax of several dims");
  return {Encoded(n, n.Call("aten::softmax.int", {x, axis}), 3)};
}

Results QLinearGlobalAveragePool(NodeCall& n) {
  const bool is_last = n.FlagOf("channels_last", 0);
  const at::Tensor x = Decoded(n, 0);
  std::vector<int64_t> planes;
  for (int64_t d = is_last ? 1 : 2; d < x.dim() - (is_last ? 1 : 0); ++d) planes.push_back(d);
  if (planes.empty()) Reject(fmt::format("{} dims", x.dim()));
  return {Encoded(n, n.Call("aten::mean.dim", {x, planes, true}), 3)};
}

Results QLinearConcat(NodeCall& n) {
  const int64_t axis = n.IntOf("axis");
  std::vector<at::Tensor> parts;
  for (size_t i = 2; i + 1 < n.input_count(); i += 3) parts.push_back(Decoded(n, i));
  if (parts.empty()) Reject("nothing to join");
  const at::Tensor all = n.Call("aten::cat", {parts, NodeCall::Axis(axis, parts.front().dim())});
  return {Quantized(n, all, One(n, 0), std::optional(One(n, 1)))};
}

Results QuantizeLinear(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0);
  return {Quantized(n, n.In(0), n.In(1), n.MaybeIn(2), at::kByte, axis, block)};
}
Results DequantizeLinear(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", 1), block = n.IntOf("block_size", 0);
  return {Dequantized(n, n.Levels(0), n.In(1), n.Has(2) ? std::optional(n.Levels(2)) : std::nullopt, axis, block)};
}

constexpr Operator kTable[] = {
    {"DequantizeLinear", 1, DequantizeLinear, nullptr, false, true},
    {"DynamicQuantizeMatMul", 1, DynamicQuantizeMatMul},
    {"GatherBlockQuantized", 1, GatherBlockQuantized, nullptr, false, true},
    {"MatMulIntegerToFloat", 1, MatMulIntegerToFloat},
    {"MatMulNBits", 1, MatMulNBits},
    {"QGemm", 1, QGemm},
    {"QLinearAdd", 1, QLinearBinary},
    {"QLinearConcat", 1, QLinearConcat},
    {"QLinearGlobalAveragePool", 1, QLinearGlobalAveragePool},
    {"QLinearLeakyRelu", 1, QLinearLeakyRelu},
    {"QLinearMul", 1, QLinearBinary},
    {"QLinearSigmoid", 1, QLinearSigmoid},
    {"QLinearSoftmax", 1, QLinearSoftmax},
    {"QuantizeLinear", 1, QuantizeLinear},
};

}  // namespace microsoft_quantized_part
}  // namespace

std::span<const Operator> MicrosoftQuantizedOperators() { return microsoft_quantized_part::kTable; }

}  // namespace ingot::onnx
