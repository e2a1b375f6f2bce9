// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;
using Mask = std::vector<bool>;

/// The dims of argument `arg` (an integer or a list); absent or empty means all.
std::optional<Mask> MaskAt(const Rule& r, size_t arg) {
  const size_t rank = r.call.TypeAt(0)->rank();
  const auto dims = r.call.IntsAt(arg);
  if (r.call.IsNone(arg) || (dims && dims->empty())) return Mask(rank, true);
  if (!dims) return std::nullopt;
  Mask mask(rank);
  for (int64_t dim : *dims) {
    const auto axis = WrapDim(dim, rank);
    if (!axis) return std::nullopt;
    if (rank > 0) mask[*axis] = true;
  }
  return mask;
}

/// Elements folded into each result.
Dim Count(const ExprPool& pool, ExprId x, const Mask& mask) {
  Dim count = 1;
  for (size_t k = 0; k < mask.size(); ++k) {
    if (mask[k]) count = count * pool[x].sizes[k];
  }
  return count;
}

ExprId CountAs(ExprPool& p, ExprId x, const Mask& mask, DType t) { return p.Cast(p.Size(Count(p, x, mask)), t); }

ExprId Mean(ExprPool& p, ExprId x, const Mask& mask) {
  if (x == kNoExpr) return kNoExpr;
  const DType t = p[x].dtype;
  return p.Map(Op::kDiv, {p.Reduce(Op::kReduceSum, t, x, mask), CountAs(p, x, mask, t)});
}

/// The keepdim form with the result's sizes: reduced dims go where keepdim is false.
Results Shaped(const Rule& r, ExprId kept) { return {r.pool.Reshape(kept, r.result().sizes)}; }

template <Op op>
Results Fold(const Rule& r) {
  const auto mask = MaskAt(r, 1);
  const DType t = ComputeType(r.result().dtype);
  if (!mask || t == DType::kBool) return {};
  return Shaped(r, r.pool.Reduce(op, t, r.Converted(0, r.result().dtype), *mask));
}
/// Whole-tensor forms, whose argument 1 is a dtype.
template <Op op>
Results FoldAll(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  if (t == DType::kBool) return {};
  return Shaped(r, r.pool.Reduce(op, t, r.Converted(0, r.result().dtype), Mask(r.call.TypeAt(0)->rank(), true)));
}
template <Op op>
Results FoldBool(const Rule& r) {
  const auto mask = MaskAt(r, 1);
  if (!mask || r.result().dtype != DType::kBool) return {};
  return Shaped(r, r.pool.Reduce(op, DType::kBool, r.Operand(0, DType::kBool), *mask));
}

Results MeanDim(const Rule& r) {
  const auto mask = MaskAt(r, 1);
  const DType t = ComputeType(r.result().dtype);
  if (!mask || !guards::IsFloat(t)) return {};
  return Shaped(r, Mean(r.pool, r.Converted(0, r.result().dtype), *mask));
}
Results MeanAll(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  if (!guards::IsFloat(t)) return {};
  return Shaped(r, Mean(r.pool, r.Converted(0, r.result().dtype), Mask(r.call.TypeAt(0)->rank(), true)));
}

/// Distances from the mean and the sum of their squares: two passes, as precise as the type allows.
struct Centred {
  ExprId values = kNoExpr;
  ExprId sum_of_squares = kNoExpr;
};
Centred Centre(ExprPool& p, ExprId x, const Mask& mask) {
  Centred c;
  c.values = p.Map(Op::kSub, {x, Mean(p, x, mask)});
  if (c.values == kNoExpr) return c;
  c.sum_of_squares = p.Reduce(Op::kReduceSum, p[x].dtype, p.Map(Op::kMul, {c.values, c.values}), mask);
  return c;
}

template <bool root>
Results Variance(const Rule& r, double correction) {
  const auto mask = MaskAt(r, 1);
  if (!guards::IsFloat(r.result().dtype)) return {};
  // As torch does: squares of values of any size are finite, and the mean's rounding adds nothing.
  constexpr DType t = DType::kF64;
  ExprPool& p = r.pool;
  const ExprId x = r.Operand(0, t);
  if (!mask || x == kNoExpr) return {};
  const Dim count = Count(p, x, *mask);
  // Fewer elements than the correction divide by zero: torch clamps, and warns where it sees that.
  if (std::isnan(correction)) return r.No("a correction that is no number");
  if (count.is_const() && static_cast<double>(count.const_value()) <= correction) return {};
  const ExprId divisor =
      count.is_const()
          ? p.Float(static_cast<double>(count.const_value()) - correction, t)
          : p.Map(Op::kMax, {p.Map(Op::kSub, {CountAs(p, x, *mask, t), p.Float(correction, t)}), p.Float(0, t)});
  const ExprId variance = p.Map(Op::kDiv, {Centre(p, x, *mask).sum_of_squares, divisor});
  return Shaped(r, p.Cast(root ? p.Map(Op::kSqrt, {variance}) : variance, r.result().dtype));
}
/// var.dim(x, dim, unbiased, keepdim)
template <bool root>
Results VarDim(const Rule& r) {
  return Variance<root>(r, r.call.BoolAt(2).value_or(true) ? 1 : 0);
}
/// var.correction(x, dim, *, correction, keepdim)
template <bool root>
Results VarCorrection(const Rule& r) {
  return Variance<root>(r, r.FloatAt(2, 1));
}

/// linalg_vector_norm(x, ord, dim, keepdim, *, dtype)
Results VectorNorm(const Rule& r) {
  const auto mask = MaskAt(r, 2);
  const DType t = ComputeType(r.result().dtype);
  const ExprId x = r.Operand(0, t);
  if (!mask || x == kNoExpr) return {};
  if (r.FloatAt(1, 2) != 2) return r.No("a norm that is not Euclidean");
  const ExprId squares = r.pool.Map(Op::kMul, {x, x});
  return Shaped(r, r.pool.Map(Op::kSqrt, {r.pool.Reduce(Op::kReduceSum, t, squares, *mask)}));
}

/// argmax(x, dim, keepdim); no dim means the flattened tensor.
template <Op op>
Results ArgExtreme(const Rule& r) {
  const auto mask = MaskAt(r, 1);
  const ExprId x = r.Tensor(0);
  if (!mask || x == kNoExpr || r.pool[x].dtype == DType::kBool) return {};
  return Shaped(r, r.pool.Reduce(op, DType::kI64, x, *mask));
}
/// max.dim(x, dim, keepdim): values and indices.
template <Op op, Op arg_op>
Results ExtremeDim(const Rule& r) {
  const auto mask = MaskAt(r, 1);
  const ExprId x = r.Tensor(0);
  if (!mask || x == kNoExpr || r.pool[x].dtype == DType::kBool) return {};
  const ExprId best = r.pool.Reduce(op, r.pool[x].dtype, x, *mask);
  const ExprId at = r.pool.Reduce(arg_op, DType::kI64, x, *mask);
  return {r.pool.Reshape(best, r.result(0).sizes), r.pool.Reshape(at, r.result(1).sizes)};
}

/// softmax(x, dim, dtype): exp(x - max) / sum. A NaN reaches every result through the sum, so the
/// maximum may pass it over; the sum is at least 1, so its reciprocal costs at most one more ulp.
template <bool log>
Results Softmax(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto axis = r.call.IntAt(1);
  const ExprId x = r.Converted(0, r.result().dtype);
  if (!axis || x == kNoExpr || !guards::IsFloat(t)) return {};
  const size_t rank = r.result().rank();
  const auto dim = WrapDim(*axis, rank);
  if (!dim || rank == 0) return {};
  Mask mask(rank);
  mask[*dim] = true;
  ExprPool& p = r.pool;
  const ExprId shifted = p.Map(Op::kSub, {x, p.Reduce(Op::kReduceMaxNumber, t, x, mask)});
  const ExprId grown = p.Map(Op::kExp, {shifted});
  const ExprId sum = p.Reduce(Op::kReduceSum, t, grown, mask);
  return {log ? p.Map(Op::kSub, {shifted, p.Map(Op::kLog, {sum})})
              : p.Map(Op::kMul, {grown, p.Map(Op::kRecip, {sum})})};
}

/// logsumexp(x, dim, keepdim); an infinite maximum is not subtracted from itself.
Results LogSumExp(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto mask = MaskAt(r, 1);
  const ExprId x = r.Operand(0, t);
  if (!mask || x == kNoExpr || !guards::IsFloat(t)) return {};
  ExprPool& p = r.pool;
  const ExprId top = p.Reduce(Op::kReduceMax, t, x, *mask);
  const ExprId size = p.Map(Op::kAbs, {top});
  const ExprId infinite = p.Map(Op::kEq, DType::kBool, {size, p.Float(__builtin_inf(), t)});
  const ExprId base = p.Map(Op::kSelect, t, {infinite, p.Float(0, t), top});
  const ExprId grown = p.Map(Op::kExp, {p.Map(Op::kSub, {x, base})});
  const ExprId sum = p.Reduce(Op::kReduceSum, t, grown, *mask);
  return Shaped(r, p.Map(Op::kAdd, {p.Map(Op::kLog, {sum}), base}));
}

/// The trailing dims that `normalized_shape` (argument 1) covers.
std::optional<Mask> TrailingMask(const Rule& r) {
  const auto shape = r.call.DimsAt(1);
  const size_t rank = r.result().rank();
  if (!shape || shape->empty() || shape->size() > rank) return std::nullopt;
  Mask mask(rank);
  for (size_t k = rank - shape->size(); k < rank; ++k) mask[k] = true;
  return mask;
}

/// normalised * weight + bias where they are given.
ExprId Scaled(const Rule& r, ExprId x, size_t weight, size_t bias, DType t) {
  if (!r.call.IsNone(weight)) x = r.pool.Map(Op::kMul, {x, r.Operand(weight, t)});
  if (!r.call.IsNone(bias)) x = r.pool.Map(Op::kAdd, {x, r.Operand(bias, t)});
  return x;
}

ExprId Normalised(ExprPool& p, ExprId x, const Mask& mask, double eps, DType t) {
  if (x == kNoExpr) return kNoExpr;
  const Centred centred = Centre(p, x, mask);
  const ExprId variance = p.Map(Op::kDiv, {centred.sum_of_squares, CountAs(p, x, mask, t)});
  const ExprId scale = p.Map(Op::kRsqrt, {p.Map(Op::kAdd, {variance, p.Float(eps, t)})});
  return p.Map(Op::kMul, {centred.values, scale});
}

/// layer_norm(x, normalized_shape, weight, bias, eps, cudnn_enable)
Results LayerNorm(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto mask = TrailingMask(r);
  if (!mask || !guards::IsFloat(t)) return {};
  const ExprId x = Normalised(r.pool, r.Operand(0, t), *mask, r.FloatAt(4, 1e-5), t);
  return {Scaled(r, x, 2, 3, t)};
}

/// rms_norm(x, normalized_shape, weight, eps); no eps means the machine epsilon of the type.
Results RmsNorm(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const auto mask = TrailingMask(r);
  const ExprId x = r.Operand(0, t);
  if (!mask || x == kNoExpr || !guards::IsFloat(t)) return {};
  const double epsilon = t == DType::kF64 ? 0x1p-52 : 0x1p-23;
  ExprPool& p = r.pool;
  const ExprId mean = Mean(p, p.Map(Op::kMul, {x, x}), *mask);
  const ExprId scale = p.Map(Op::kRsqrt, {p.Map(Op::kAdd, {mean, p.Float(r.FloatAt(3, epsilon), t)})});
  return {Scaled(r, p.Map(Op::kMul, {x, scale}), 2, r.call.size(), t)};
}

/// batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled) over [N, C, ...]
/// outside of training: each channel is scaled and shifted by what is known of it, as eager does, in one
/// multiplication.
Results BatchNorm(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  const Dims& sizes = r.result().sizes;
  if (r.call.BoolAt(5).value_or(true)) return r.No("batch norm in training");
  if (sizes.size() < 2 || !guards::IsFloat(t) || r.call.IsNone(3) || r.call.IsNone(4)) return {};
  ExprPool& p = r.pool;
  Dims per_channel(sizes.size() - 1, Dim(1));
  per_channel[0] = sizes[1];
  const auto channel = [&](size_t argument) { return p.Reshape(r.Operand(argument, t), per_channel); };
  ExprId factor = p.Map(Op::kRsqrt, {p.Map(Op::kAdd, {channel(4), p.Float(r.FloatAt(7, 1e-5), t)})});
  if (!r.call.IsNone(1)) factor = p.Map(Op::kMul, {factor, channel(1)});
  ExprId shift = p.Map(Op::kNeg, {p.Map(Op::kMul, {channel(3), factor})});
  if (!r.call.IsNone(2)) shift = p.Map(Op::kAdd, {channel(2), shift});
  return {p.Map(Op::kAdd, {p.Map(Op::kMul, {r.Operand(0, t), factor}), shift})};
}

}  // namespace

const RuleTable& ReduceRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define REDUCE(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
