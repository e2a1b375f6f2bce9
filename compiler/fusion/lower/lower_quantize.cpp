// SPDX-License-Identifier: Apache-2.0
//
// torch.ops.quantized_decomposed: what PyTorch's quantisation tools write into graphs, as the arithmetic that it is.
#include <algorithm>
#include <limits>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

constexpr DType kWide = DType::kF32;

/// Integers that f32 holds exactly, as quantised tensors of 8 and 16 bits are.
bool IsOfFewBits(DType t) { return t == DType::kI8 || t == DType::kU8 || t == DType::kI16; }

/// The type that arithmetic between f32 and a tensor of `t` is in; integers do not widen it.
DType WithFloat(DType t) { return t == DType::kF64 ? DType::kF64 : kWide; }

/// A scale or zero point for all elements: a number, or a tensor of one element.
ExprId OfAll(const Rule& r, size_t arg, DType t) {
  const Type* type = r.call.TypeAt(arg);
  if (type == nullptr) return r.Operand(arg, t);
  if (!guards::Product(type->sizes).is_one()) return kNoExpr;
  return r.pool.Cast(r.pool.Reshape(r.Tensor(arg), {}), t);
}

/// clamp(x, quant_min, quant_max) to the result's type; `bounds`: the argument that has the first.
ExprId Clamped(const Rule& r, ExprId x, size_t bounds) {
  if (x == kNoExpr) return kNoExpr;
  ExprPool& p = r.pool;
  const DType t = p[x].dtype;
  const ExprId low = OfAll(r, bounds, t), high = OfAll(r, bounds + 1, t);
  return p.Cast(p.Map(Op::kMin, {p.Map(Op::kMax, {x, low}), high}), r.result().dtype);
}

/// (x - zero) * scale as the result's type.
Results Decoded(const Rule& r, ExprId x, ExprId zero, ExprId scale) {
  ExprPool& p = r.pool;
  if (x == kNoExpr || scale == kNoExpr) return {};
  const DType t = p[scale].dtype;
  const ExprId distance = zero == kNoExpr ? p.Cast(x, t) : p.Map(Op::kSub, {p.Cast(x, t), p.Cast(zero, t)});
  const ExprId wide = p.Cast(p.Map(Op::kMul, {distance, scale}), r.result().dtype);
  if (wide == kNoExpr) return {};
  const bool is_narrow = ComputeType(r.result().dtype) != r.result().dtype;
  return {is_narrow ? p.Round(wide, r.result().dtype) : wide};
}

bool IsFloatOperand(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  return x != nullptr && guards::IsFloat(x->dtype) && ComputeType(x->dtype) == kWide;
}
bool IsCodedOperand(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  return x != nullptr && IsOfFewBits(x->dtype);
}

/// quantize_per_tensor(x, scale, zero_point, quant_min, quant_max, dtype): the scale's reciprocal is rounded to f32.
Results QuantizeTensor(const Rule& r) {
  if (!IsFloatOperand(r)) return r.No("quantises something else than f32, f16 and bf16");
  ExprPool& p = r.pool;
  ExprId inverse = kNoExpr;
  if (r.call.TypeAt(1) == nullptr) {
    const auto scale = r.call.FloatAt(1);
    if (!scale) return r.No("a scale that is no number");
    inverse = p.Float(static_cast<float>(1.0 / *scale));
  } else {
    inverse = p.Cast(p.Map(Op::kDiv, {p.Float(1, DType::kF64), OfAll(r, 1, DType::kF64)}), kWide);
  }
  const ExprId level = p.Map(Op::kRound, {p.Map(Op::kMul, {r.Tensor(0), inverse})});
  return {Clamped(r, p.Map(Op::kAdd, {level, OfAll(r, 2, kWide)}), 3)};
}

Results DequantizeTensor(const Rule& r) {
  if (!IsCodedOperand(r)) return r.No("dequantises something else than 8 or 16 bits");
  return Decoded(r, r.Tensor(0), OfAll(r, 2, kWide), OfAll(r, 1, kWide));
}

/// A vector along dim `axis` of the operand.
ExprId AlongAxis(const Rule& r, size_t arg, size_t axis) {
  const Type* type = r.call.TypeAt(arg);
  const Type& x = *r.call.TypeAt(0);
  if (type == nullptr || type->rank() != 1 || !(type->sizes[0] == x.sizes[axis])) return kNoExpr;
  Dims sizes(x.rank(), Dim(1));
  sizes[axis] = x.sizes[axis];
  return r.pool.Reshape(r.Tensor(arg), std::move(sizes));
}

std::optional<size_t> AxisOf(const Rule& r) {
  const auto axis = r.call.IntAt(3);
  return axis && r.call.TypeAt(0) != nullptr ? WrapDim(*axis, r.call.TypeAt(0)->rank()) : std::nullopt;
}

/// quantize_per_channel(x, scales, zero_points, axis, quant_min, quant_max, dtype)
Results QuantizeChannel(const Rule& r) {
  const auto axis = AxisOf(r);
  if (!IsFloatOperand(r) || !axis) return r.No("quantises something else than f32, f16 and bf16");
  ExprPool& p = r.pool;
  const ExprId scale = p.Cast(AlongAxis(r, 1, *axis), kWide), zero = p.Cast(AlongAxis(r, 2, *axis), kWide);
  const ExprId inverse = p.Map(Op::kDiv, {p.Float(1), scale});
  const ExprId level = p.Map(Op::kRound, {p.Map(Op::kMul, {r.Tensor(0), inverse})});
  if (r.call.TypeAt(1)->dtype != kWide) return r.No("scales of another type than f32");
  return {Clamped(r, p.Map(Op::kAdd, {level, zero}), 4)};
}

Results DequantizeChannel(const Rule& r) {
  const auto axis = AxisOf(r);
  if (!IsCodedOperand(r) || !axis) return r.No("dequantises something else than 8 or 16 bits");
  const Type* scales = r.call.TypeAt(1);
  if (scales == nullptr) return r.No("scales that are no tensor");
  const bool has_zero = !r.call.IsNone(2);
  const ExprId zero = has_zero ? AlongAxis(r, 2, *axis) : kNoExpr;
  if (has_zero && zero == kNoExpr) return r.No("zero points of another size");
  return Decoded(r, r.Tensor(0), zero, r.pool.Cast(AlongAxis(r, 1, *axis), WithFloat(scales->dtype)));
}

/// A scale or zero point for each row of the operand.
ExprId OfRows(const Rule& r, size_t arg) {
  const Type* type = r.call.TypeAt(arg);
  const Type& x = *r.call.TypeAt(0);
  if (type == nullptr || type->rank() != x.rank() || type->rank() == 0 || !type->sizes.back().is_one()) return kNoExpr;
  return r.Tensor(arg);
}

/// clamp(round(x * (1 / scale) + zero)), in the type that torch promotes to.
ExprId Levels(const Rule& r, ExprId x, ExprId scale, ExprId zero) {
  ExprPool& p = r.pool;
  if (scale == kNoExpr) return kNoExpr;
  const DType t = WithFloat(p[scale].dtype);
  scale = p.Cast(scale, t);
  const ExprId inverse = p.Map(Op::kDiv, {p.Float(1, t), scale});
  const ExprId scaled = p.Map(Op::kMul, {p.Cast(x, t), inverse});
  return p.Map(Op::kRound, {p.Map(Op::kAdd, {scaled, p.Cast(zero, t)})});
}

/// Whether a scale is of a type in which the levels are torch's to the last digit.
bool HasWideScales(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  const Type* scales = r.call.TypeAt(1);
  if (x == nullptr || scales == nullptr || x->dtype != kWide) return false;
  return scales->dtype == kWide || scales->dtype == DType::kF64;
}

/// quantize_per_token(x, scales, zero_points, quant_min, quant_max, dtype)
Results QuantizeToken(const Rule& r) {
  if (!HasWideScales(r)) return r.No("quantises something else than f32");
  return {Clamped(r, Levels(r, r.Tensor(0), OfRows(r, 1), OfRows(r, 2)), 3)};
}

Results DequantizeToken(const Rule& r) {
  if (!IsCodedOperand(r)) return r.No("dequantises something else than 8 or 16 bits");
  const ExprId scale = OfRows(r, 1), zero = OfRows(r, 2);
  if (scale == kNoExpr || zero == kNoExpr) return r.No("scales of another shape");
  return Decoded(r, r.Tensor(0), zero, r.pool.Cast(scale, WithFloat(r.call.TypeAt(1)->dtype)));
}

/// The operand of a grouped operator as [groups, group size], and what belongs to each group as [groups, 1].
struct Groups {
  ExprId x = kNoExpr, scale = kNoExpr, zero = kNoExpr;
};
Groups GroupsOf(const Rule& r, size_t size_at) {
  const Type& x = *r.call.TypeAt(0);
  const auto size = r.call.IntAt(size_at);
  if (!size || *size < 2 || x.rank() != 2) return {};
  const auto count = x.sizes[1].DivideExactly(Dim(*size));
  if (!count) return {};
  const Dim groups = x.sizes[0] * *count;
  const auto of_groups = [&](size_t arg) { return r.pool.Reshape(r.Tensor(arg), {groups, Dim(1)}); };
  return {r.pool.Reshape(r.Tensor(0), {groups, Dim(*size)}), of_groups(1), r.call.IsNone(2) ? kNoExpr : of_groups(2)};
}

/// dequantize_per_channel_group(x, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype)
Results DequantizeGroup(const Rule& r) {
  if (!IsCodedOperand(r)) return r.No("dequantises something else than 8 or 16 bits");
  const Groups g = GroupsOf(r, 6);
  const bool has_zero = !r.call.IsNone(2);
  if (g.x == kNoExpr || g.scale == kNoExpr || (has_zero && g.zero == kNoExpr)) return r.No("groups of other sizes");
  Results wide = Decoded(r, g.x, g.zero, r.pool.Cast(g.scale, WithFloat(r.call.TypeAt(1)->dtype)));
  if (wide.empty()) return {};
  return {r.pool.Reshape(wide[0], r.result().sizes)};
}

std::vector<bool> LastDim(const Type& x) {
  std::vector<bool> folded(x.rank());
  folded.back() = true;
  return folded;
}

/// choose_qparams_per_token(x, dtype): the greatest of each row is 127.
Results ChooseToken(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  if (x == nullptr || x->dtype != kWide || x->rank() == 0) return r.No("chooses scales for something else than f32");
  ExprPool& p = r.pool;
  const ExprId most = p.Reduce(Op::kReduceMax, kWide, p.Map(Op::kAbs, {r.Tensor(0)}), LastDim(*x));
  const ExprId scale = p.Map(Op::kDiv, {p.Map(Op::kMax, {most, p.Float(static_cast<float>(1e-5))}), p.Float(127)});
  return {scale, p.Expand(p.Float(0, ComputeType(r.result(1).dtype)), r.result(1).sizes)};
}

/// choose_qparams_per_token_asymmetric(x, dtype): the least is -128 and the greatest 127, zero a level between.
Results ChooseTokenAsymmetric(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  if (x == nullptr || x->dtype != kWide || x->rank() == 0) return r.No("chooses scales for something else than f32");
  ExprPool& p = r.pool;
  constexpr double kLow = -128, kHigh = 127;
  const ExprId zero = p.Float(0), low = p.Float(kLow), high = p.Float(kHigh);
  const auto fold = [&](Op op) { return p.Reduce(op, kWide, r.Tensor(0), LastDim(*x)); };
  const ExprId least = p.Map(Op::kMin, {fold(Op::kReduceMin), zero});
  const ExprId most = p.Map(Op::kMax, {fold(Op::kReduceMax), zero});
  const ExprId range = p.Map(Op::kDiv, {p.Map(Op::kSub, {most, least}), p.Float(kHigh - kLow)});
  const ExprId scale = p.Map(Op::kMax, {range, p.Float(std::numeric_limits<float>::epsilon())});
  const ExprId at_least = p.Map(Op::kDiv, {least, scale}), at_most = p.Map(Op::kDiv, {most, scale});
  const ExprId errors = p.Map(Op::kAdd, {p.Map(Op::kAdd, {low, at_least}), p.Map(Op::kAdd, {high, at_most})});
  const ExprId point = p.Map(Op::kSelect, kWide,
                             {p.Map(Op::kGt, DType::kBool, {errors, zero}), p.Map(Op::kSub, {low, at_least}),
                              p.Map(Op::kSub, {high, at_most})});
  const ExprId level = p.Map(Op::kRound, {p.Map(Op::kMin, {p.Map(Op::kMax, {point, low}), high})});
  return {p.Cast(scale, r.result(0).dtype), p.Cast(level, r.result(1).dtype)};
}

/// A rule whose formula could not be written for these operands leaves the node to ATen.
template <LowerFn rule>
Results Whole(const Rule& r) {
  Results results = rule(r);
  if (std::ranges::find(results, kNoExpr) != results.end()) return r.No("scales of other shapes");
  return results;
}

}  // namespace

const RuleTable& QuantizeRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define QUANTIZE(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
