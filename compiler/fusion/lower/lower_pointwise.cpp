// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

DType TypeOfResult(const Rule& r) { return ComputeType(r.result().dtype); }

template <Op op>
Results Unary(const Rule& r) {
  return {r.pool.Map(op, {r.Operand(0, TypeOfResult(r))})};
}
/// Operations that leave integers as they are.
template <Op op>
Results Rounding(const Rule& r) {
  const ExprId x = r.Operand(0, TypeOfResult(r));
  return {guards::IsFloat(TypeOfResult(r)) ? r.pool.Map(op, {x}) : x};
}
template <Op op>
Results Binary(const Rule& r) {
  const DType t = r.result().dtype;
  if (t == DType::kBool) return {};
  return {r.pool.Map(op, {r.Converted(0, t), r.Converted(1, t)})};
}

/// add and sub with alpha (argument 2); `reverse` swaps the operands.
template <Op op, bool reverse>
Results AddSub(const Rule& r) {
  const DType t = r.result().dtype;
  ExprId a = r.Converted(0, t), b = r.Converted(1, t);
  if (reverse) std::swap(a, b);
  if (t == DType::kBool) {
    if (op != Op::kAdd) return {};
    const ExprId scaled = r.call.IsNone(2) ? b : r.pool.Map(Op::kAnd, {b, r.Operand(2, t)});
    return {r.pool.Map(Op::kOr, {a, scaled})};
  }
  const auto alpha = r.call.ScalarAt(2);
  if (!alpha || IsNumber(*alpha, 1)) return {r.pool.Map(op, {a, b})};
  // alpha scales the operand that is subtracted in rsub too. torch rounds a float result once.
  ExprId scale = r.Operand(2, t);
  if (!guards::IsFloat(t)) return {r.pool.Map(op, {a, r.pool.Map(Op::kMul, {b, scale})})};
  if (op == Op::kSub) scale = r.pool.Map(Op::kNeg, {scale});
  return {r.pool.Map(Op::kFma, {b, scale, a})};
}

/// The second operand of mul and div: torch keeps a number and a tensor of rank 0 wide there.
ExprId Factor(const Rule& r, size_t i) {
  const DType t = r.result().dtype;
  const Type* type = r.call.TypeAt(i);
  return type && type->rank() > 0 ? r.Converted(i, t) : r.Operand(i, t);
}
Results Mul(const Rule& r) {
  const Op op = r.result().dtype == DType::kBool ? Op::kAnd : Op::kMul;
  return {r.pool.Map(op, {r.Converted(0, r.result().dtype), Factor(r, 1)})};
}
Results Div(const Rule& r) {
  const DType t = r.result().dtype;
  if (t == DType::kBool) return {};
  return {r.pool.Map(Op::kDiv, {r.Converted(0, t), Factor(r, 1)})};
}

/// torch raises on integer division by zero, so only divisors known to be nonzero are lowered.
bool IsSafeDivisor(const Rule& r, size_t i) { return r.call.ValueAt(i) == kNoValue && r.FloatAt(i, 0) != 0; }

Results DivMode(const Rule& r) {
  const DType t = r.result().dtype;
  const auto mode = r.call.NameAt(2);
  if (!mode) return r.call.IsNone(2) ? Div(r) : Results{};
  const bool is_float = guards::IsFloat(t);
  if (is_float && *mode == "trunc") {
    const Results quotient = Div(r);
    // torch has the quotient in its own type before it cuts it.
    return {r.pool.Map(Op::kTrunc, {ComputeType(t) == t ? quotient[0] : r.pool.Round(quotient[0], t)})};
  }
  // Floor division of floats corrects the quotient with fmod in ATen: left there.
  if (is_float || t == DType::kBool || !IsSafeDivisor(r, 1)) return {};
  return *mode == "floor" ? Binary<Op::kFloorDiv>(r) : Binary<Op::kDiv>(r);
}
Results FloorDivide(const Rule& r) {
  if (!guards::IsInteger(TypeOfResult(r)) || !IsSafeDivisor(r, 1)) return {};
  return Binary<Op::kFloorDiv>(r);
}
Results Remainder(const Rule& r) {
  if (!guards::IsFloat(TypeOfResult(r)) && !IsSafeDivisor(r, 1)) return {};
  return Binary<Op::kRem>(r);
}

Results PowScalar(const Rule& r) {
  const DType t = TypeOfResult(r);
  const ExprId x = r.Operand(0, t);
  if (t == DType::kBool || x == kNoExpr) return {};
  const auto dim = r.call.DimAt(1);
  const double e = dim && !dim->is_const() ? std::nan("") : r.FloatAt(1, std::nan(""));
  ExprPool& p = r.pool;
  if (e == 1) return {x};
  ExprId square = p.Map(Op::kMul, {x, x});
  if (e == 2) return {square};
  // torch's loops over bf16 round each product, those over f16 the result.
  if (r.result().dtype == DType::kBF16) square = p.Round(square, DType::kBF16);
  if (e == 3) return {p.Map(Op::kMul, {square, x})};
  if (guards::IsFloat(t)) {
    // torch takes roots as powers in f16 alone, where those of -inf and -0 differ.
    const bool has_roots = r.result().dtype != DType::kF16;
    if (e == 0.5 && has_roots) return {p.Map(Op::kSqrt, {x})};
    if (e == -0.5 && has_roots) return {p.Map(Op::kRsqrt, {x})};
    if (e == -1) return {p.Map(Op::kRecip, {x})};
    if (e == -2) return {p.Map(Op::kRecip, {square})};
  } else if (!(e >= 0)) {
    return {};
  }
  return {p.Map(Op::kPow, {x, r.Converted(1, r.result().dtype)})};
}

template <Op op>
Results Compare(const Rule& r) {
  std::vector<PromoteOperand> operands;
  for (size_t i = 0; i < 2; ++i) {
    if (const Type* type = r.call.TypeAt(i)) {
      operands.push_back({type->dtype, type->rank() ? PromoteOperand::kTensor : PromoteOperand::kZeroDim});
    } else if (const auto number = r.call.ScalarAt(i)) {
      operands.push_back({DTypeOf(*number), PromoteOperand::kNumber});
    } else {
      return {};
    }
  }
  DType t = ResultType(operands);
  if (t == DType::kBool) t = DType::kU8;
  if (guards::IsComplex(t)) return {};
  return {r.pool.Map(op, DType::kBool, {r.Converted(0, t), r.Converted(1, t)})};
}

template <Op op>
Results Logical(const Rule& r) {
  return {r.pool.Map(op, DType::kBool, {r.Operand(0, DType::kBool), r.Operand(1, DType::kBool)})};
}
Results LogicalNot(const Rule& r) { return {r.pool.Map(Op::kNot, DType::kBool, {r.Operand(0, DType::kBool)})}; }
template <Op op>
Results Bitwise(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (guards::IsFloat(t)) return {};
  return {r.pool.Map(op, {r.Operand(0, t), r.Operand(1, t)})};
}

/// Amounts below 0 or beyond the width leave nothing but signs, as in torch.
template <Op op>
Results Shift(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (guards::IsFloat(t) || t == DType::kBool) return {};
  return {r.pool.Map(op, {r.Operand(0, t), r.Operand(1, t)})};
}

Results IsNan(const Rule& r) {
  const ExprId x = r.Tensor(0);
  if (x == kNoExpr) return {};
  if (!guards::IsFloat(r.pool[x].dtype)) {
    return {r.pool.Expand(r.pool.Int(0, DType::kBool), r.result().sizes)};
  }
  return {r.pool.Map(Op::kIsNan, DType::kBool, {x})};
}
/// isinf: |x| == inf; isfinite: |x| < inf, which NaN fails too.
template <Op op>
Results AgainstInfinity(const Rule& r) {
  const ExprId x = r.Tensor(0);
  if (x == kNoExpr || !guards::IsFloat(r.pool[x].dtype)) return {};
  const ExprId inf = r.pool.Float(std::numeric_limits<double>::infinity(), r.pool[x].dtype);
  return {r.pool.Map(op, DType::kBool, {r.pool.Map(Op::kAbs, {x}), inf})};
}

Results Abs(const Rule& r) {
  const ExprId x = r.Operand(0, TypeOfResult(r));
  return TypeOfResult(r) == DType::kBool ? Results{x} : Results{r.pool.Map(Op::kAbs, {x})};
}
Results Sign(const Rule& r) {
  const ExprId x = r.Operand(0, TypeOfResult(r));
  return TypeOfResult(r) == DType::kBool ? Results{x} : Results{r.pool.Map(Op::kSign, {x})};
}
Results Identity(const Rule& r) { return {r.Operand(0, TypeOfResult(r))}; }

/// A cast the user wrote: rounds to the narrow type although arithmetic goes on in f32.
Results To(const Rule& r) {
  const Type* from = r.call.TypeAt(0);
  if (!from || guards::IsComplex(from->dtype)) return {};
  const DType to = r.result().dtype;
  const ExprId x = r.Operand(0, to);
  const bool is_narrow = ComputeType(to) != to;
  // Wider floats hold every float8.
  const bool is_exact = from->dtype == to || (guards::IsFloat8(from->dtype) && !guards::IsFloat8(to));
  return {is_narrow && !is_exact ? r.pool.Round(x, to) : x};
}

Results Square(const Rule& r) {
  const ExprId x = r.Operand(0, TypeOfResult(r));
  return {r.pool.Map(Op::kMul, {x, x})};
}

/// A float rule of one operand and the pool.
using Formula = ExprId (*)(const Rule& r, ExprPool& p, ExprId x, DType t);
template <Formula formula>
Results FloatRule(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (!guards::IsFloat(t)) return {};
  return {formula(r, r.pool, r.Operand(0, t), t)};
}

ExprId Gelu(const Rule& r, ExprPool& p, ExprId x, DType t) {
  if (r.call.NameAt(1).value_or("none") == "tanh") {
    // (1 + tanh(u)) / 2 is the sigmoid of 2u, which costs less and keeps the tail's accuracy.
    const ExprId cube = p.Map(Op::kMul, {p.Map(Op::kMul, {x, x}), x});
    const ExprId sum = p.Map(Op::kAdd, {x, p.Map(Op::kMul, {cube, p.Float(0.044715, t)})});
    const ExprId twice = p.Map(Op::kMul, {sum, p.Float(M_SQRT2 * M_2_SQRTPI, t)});
    return p.Map(Op::kMul, {x, p.Map(Op::kSigmoid, {twice})});
  }
  const ExprId half = p.Map(Op::kMul, {x, p.Float(0.5, t)});
  const ExprId inner = p.Map(Op::kErf, {p.Map(Op::kMul, {x, p.Float(M_SQRT1_2, t)})});
  return p.Map(Op::kMul, {half, p.Map(Op::kAdd, {inner, p.Float(1, t)})});
}
ExprId Silu(const Rule&, ExprPool& p, ExprId x, DType) { return p.Map(Op::kMul, {x, p.Map(Op::kSigmoid, {x})}); }
/// Of equal numbers the second, as maxps gives: a zero keeps its sign where the bound is the other one, as eager's
/// does.
ExprId Between(ExprPool& p, ExprId x, ExprId low, ExprId high) {
  if (low != kNoExpr) x = p.Map(Op::kMax, {low, x});
  return high == kNoExpr ? x : p.Map(Op::kMin, {high, x});
}
ExprId Clip(ExprPool& p, ExprId x, double low, double high, DType t) {
  return Between(p, x, p.Float(low, t), p.Float(high, t));
}
ExprId Relu6(const Rule&, ExprPool& p, ExprId x, DType t) { return Clip(p, x, 0, 6, t); }
ExprId HardTanh(const Rule& r, ExprPool& p, ExprId x, DType t) {
  return Clip(p, x, r.FloatAt(1, -1), r.FloatAt(2, 1), t);
}
ExprId HardSigmoid(const Rule&, ExprPool& p, ExprId x, DType t) {
  return p.Map(Op::kDiv, {Clip(p, p.Map(Op::kAdd, {x, p.Float(3, t)}), 0, 6, t), p.Float(6, t)});
}
ExprId HardSwish(const Rule&, ExprPool& p, ExprId x, DType t) {
  const ExprId clipped = Clip(p, p.Map(Op::kAdd, {x, p.Float(3, t)}), 0, 6, t);
  return p.Map(Op::kDiv, {p.Map(Op::kMul, {x, clipped}), p.Float(6, t)});
}
ExprId IfPositive(ExprPool& p, ExprId x, ExprId then, ExprId otherwise, DType t) {
  const ExprId positive = p.Map(Op::kGt, DType::kBool, {x, p.Float(0, t)});
  return p.Map(Op::kSelect, t, {positive, then, otherwise});
}
ExprId LeakyRelu(const Rule& r, ExprPool& p, ExprId x, DType t) {
  return IfPositive(p, x, x, p.Map(Op::kMul, {x, p.Float(r.FloatAt(1, 0.01), t)}), t);
}
/// elu(x, alpha, scale, input_scale)
ExprId Elu(const Rule& r, ExprPool& p, ExprId x, DType t) {
  const double alpha = r.FloatAt(1, 1), scale = r.FloatAt(2, 1), input = r.FloatAt(3, 1);
  const ExprId grown = p.Map(Op::kExpm1, {p.Map(Op::kMul, {x, p.Float(input, t)})});
  // Zero is no negative number: what an infinite alpha would make of it matters.
  const ExprId negative = p.Map(Op::kLt, DType::kBool, {x, p.Float(0, t)});
  return p.Map(
      Op::kSelect, t,
      {negative, p.Map(Op::kMul, {grown, p.Float(alpha * scale, t)}), p.Map(Op::kMul, {x, p.Float(scale, t)})});
}
ExprId SoftplusOf(ExprPool& p, ExprId x, double beta, double threshold, DType t) {
  const ExprId scaled = p.Map(Op::kMul, {x, p.Float(beta, t)});
  const ExprId soft = p.Map(Op::kDiv, {p.Map(Op::kLog1p, {p.Map(Op::kExp, {scaled})}), p.Float(beta, t)});
  const ExprId linear = p.Map(Op::kGt, DType::kBool, {scaled, p.Float(threshold, t)});
  return p.Map(Op::kSelect, t, {linear, x, soft});
}
ExprId Softplus(const Rule& r, ExprPool& p, ExprId x, DType t) {
  return SoftplusOf(p, x, r.FloatAt(1, 1), r.FloatAt(2, 20), t);
}
ExprId Mish(const Rule&, ExprPool& p, ExprId x, DType t) {
  return p.Map(Op::kMul, {x, p.Map(Op::kTanh, {SoftplusOf(p, x, 1, 1e30, t)})});
}
ExprId LogSigmoid(const Rule&, ExprPool& p, ExprId x, DType t) {
  const ExprId decay = p.Map(Op::kExp, {p.Map(Op::kNeg, {p.Map(Op::kAbs, {x})})});
  return p.Map(Op::kSub, {p.Map(Op::kMin, {x, p.Float(0, t)}), p.Map(Op::kLog1p, {decay})});
}

Results Relu(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (t == DType::kBool) return {};
  const ExprId zero = guards::IsFloat(t) ? r.pool.Float(0, t) : r.pool.Int(0, t);
  return {Between(r.pool, r.Operand(0, t), zero, kNoExpr)};
}

/// clamp(x, min, max), either bound may be absent.
Results Clamp(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (t == DType::kBool) return {};
  const auto bound = [&](size_t i) { return r.call.IsNone(i) ? kNoExpr : r.Operand(i, t); };
  ExprId x = r.Operand(0, t);
  const ExprId low = bound(1), high = bound(2);
  if (r.call.TypeAt(1) == nullptr && r.call.TypeAt(2) == nullptr) return {Between(r.pool, x, low, high)};
  // Of equal numbers the bound, as eager's vectors have it.
  if (low != kNoExpr) x = r.pool.Map(Op::kMax, {x, low});
  if (high != kNoExpr) x = r.pool.Map(Op::kMin, {x, high});
  return {x};
}

Results Where(const Rule& r) {
  const DType t = r.result().dtype;
  return {r.pool.Map(Op::kSelect, ComputeType(t), {r.Operand(0, DType::kBool), r.Converted(1, t), r.Converted(2, t)})};
}
/// masked_fill(x, mask, value)
Results MaskedFill(const Rule& r) {
  const DType t = r.result().dtype;
  return {r.pool.Map(Op::kSelect, ComputeType(t), {r.Operand(1, DType::kBool), r.Converted(2, t), r.Operand(0, t)})};
}
/// addcmul and addcdiv(x, a, b, value); torch rounds the product and the sum as one.
template <Op op>
Results AddC(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (!guards::IsFloat(t)) return {};
  ExprPool& p = r.pool;
  const ExprId scaled = p.Map(Op::kMul, {r.Operand(1, t), p.Float(r.FloatAt(3, 1), t)});
  const ExprId x = r.Operand(0, t), other = r.Operand(2, t);
  if (op == Op::kMul) return {p.Map(Op::kFma, {scaled, other, x})};
  return {p.Map(Op::kAdd, {x, p.Map(op, {scaled, other})})};
}

/// lerp(x, end, weight): from the nearer end, as torch does, so that weights of 0 and 1 give the ends themselves.
Results Lerp(const Rule& r) {
  const DType t = TypeOfResult(r);
  if (!guards::IsFloat(t)) return {};
  ExprPool& p = r.pool;
  const ExprId x = r.Operand(0, t), end = r.Operand(1, t), weight = r.Operand(2, t);
  if (x == kNoExpr || end == kNoExpr || weight == kNoExpr) return {};
  const ExprId is_near = p.Map(Op::kLt, DType::kBool, {p.Map(Op::kAbs, {weight}), p.Float(0.5, t)});
  const ExprId beyond = p.Map(Op::kSub, {weight, p.Float(1, t)});
  const ExprId factor = p.Map(Op::kSelect, t, {is_near, weight, beyond}),
               base = p.Map(Op::kSelect, t, {is_near, x, end});
  return {p.Map(Op::kFma, {factor, p.Map(Op::kSub, {end, x}), base})};
}

}  // namespace

const RuleTable& PointwiseRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define POINTWISE(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
