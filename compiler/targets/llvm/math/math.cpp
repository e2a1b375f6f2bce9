// SPDX-License-Identifier: Apache-2.0
//
// Coefficients are minimax fits (Remez exchange in 50 digits) of the functions named beside them
// on slightly more than the interval they serve, rounded to the type they are used in.
#include "compiler/targets/llvm/math/math.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ingot::compiler::x86 {
namespace {

using llvm::Value;
using loop::ScalarOp;

/// 2^(i / 8), rounded: the bits of its mantissa, without those that i itself has where it counts eighths of an
/// exponent.
constexpr int kStepBits = 3;
constexpr int32_t kSteps32[1 << kStepBits] = {0x000000,
                                              0xb95c2 - 0x100000,
                                              0x1837f0 - 0x200000,
                                              0x25fed7 - 0x300000,
                                              0x3504f3 - 0x400000,
                                              0x45672a - 0x500000,
                                              0x5744fd - 0x600000,
                                              0x6ac0c7 - 0x700000};

bool IsF32(const Value* x) { return x->getType()->getScalarType()->isFloatTy(); }

/// What e^x needs to know of a float type, as 2^(k / 2^steps) e^r. `magic` shifts an integer into the low mantissa
/// bits.
struct ExpTraits {
  double magic, log2e, ln2_hi, ln2_lo, x_min, x_max, unit_min, tiny;
  int mantissa_bits, bias;
  int sigmoid_shift;      // Keeps 2^n normal for all of sigmoid's n, see EmitSigmoid.
  double sigmoid_max;     // Sigmoid is 1 above and 0 below -x_min.
  int steps;              // Bits of k that powers of two between 1 and 2 are looked up by.
  std::span<const double> q;  // (e^r - 1 - r) / r^2 on |r| <= ln(2)/2 / 2^steps
};

constexpr double kExpQ32[] = {0x1p-1, 0x1.5554acp-3, 0x1.555484p-5, 0x1.122b90p-7, 0x1.6d9d7ap-10};
constexpr double kExpStepQ32[] = {0x1.000896p-1, 0x1.5560f4p-3};
constexpr double kExpQ64[] = {0x1.0000000000000p-1,  0x1.5555555555559p-3,  0x1.555555555555ap-5,
                              0x1.111111110f5e4p-7,  0x1.6c16c16c14384p-10, 0x1.a01a01b05fba6p-13,
                              0x1.a01a01b11fd71p-16, 0x1.71ddf6c644deap-19, 0x1.27e4c4876c990p-22,
                              0x1.af61f8c44d7a0p-26, 0x1.1f97544513c37p-29};
constexpr ExpTraits kExp32 = {
    0x1.8p23, 0x1.715476p+0, 0x1.62e430p-1, -0x1.05c610p-29, -104, 89, -88.03, 0x1p-30, 23, 127, 24, 70, 0, kExpQ32};
/// In eighths of a power of two: three steps less of a polynomial for a permutation of one register.
constexpr ExpTraits kExpStep32 = {
    0x1.8p23, 0x1.715476p+3, 0x1.62e430p-4, -0x1.05c610p-32, -104, 89, -88.03, 0x1p-30, 23, 127, 24,
    70,       kStepBits,     kExpStepQ32};
/// The same with one more term, where what follows leaves less room for errors.
constexpr double kExpFineQ32[] = {0x1p-1, 0x1.555c7cp-3, 0x1.554834p-5};
constexpr ExpTraits kExpFine32 = [] {
  ExpTraits traits = kExpStep32;
  traits.q = kExpFineQ32;
  return traits;
}();
/// Of a difference from a row's maximum. It was rounded by up to 2^-24 of itself; without its low part, ln(2) is off by
/// 2^-28 of itself.
constexpr ExpTraits kExpOfDifference32 = [] {
  ExpTraits traits = kExpStep32;
  traits.ln2_lo = 0;
  return traits;
}();
constexpr ExpTraits kExp64 = {0x1.8p52,
                              0x1.71547652b82fep+0,
                              0x1.62e42fefa39efp-1,
                              0x1.abc9e3b39803fp-56,
                              -746,
                              710,
                              -709.1,
                              0x1p-60,
                              52,
                              1023,
                              54,
                              600,
                              0,
                              kExpQ64};

/// In f64, as precise as a result of f32 needs it.
constexpr ExpTraits kExpSingle64 = [] {
  ExpTraits traits = kExp64;
  traits.q = traits.q.first(7);
  return traits;
}();

const ExpTraits& ExpTraitsOf(const Value* x) { return IsF32(x) ? kExp32 : kExp64; }
/// Of functions that are not near zero where e^x is near one: a factor that was looked up is rounded.
const ExpTraits& SteppedTraitsOf(const Value* x) { return IsF32(x) ? kExpStep32 : kExp64; }

/// Comparisons are written so that a NaN falls through to `x`.
Value* AtMost(Builder& code, Value* x, double high) {
  Value* bound = code.F(x, high);
  return code.CreateSelect(code.CreateFCmpOGT(x, bound), bound, x);
}
Value* AtLeast(Builder& code, Value* x, double low) {
  Value* bound = code.F(x, low);
  return code.CreateSelect(code.CreateFCmpOLT(x, bound), bound, x);
}
Value* Clamp(Builder& code, Value* x, double low, double high) { return AtLeast(code, AtMost(code, x, high), low); }

/// e^(factor * x) = 2^n * e^(factor * r), the factor a power of two or its negative, n a multiple of 2^-steps. The
/// lowest bits of `shifted` are (n + offset) 2^steps, so that one shift makes a power of two of them.
struct ExpParts {
  const ExpTraits& traits;
  Value* shifted;
  Value* r;
  double factor;
};

ExpParts ReduceExp(Builder& code, const ExpTraits& t, Value* x, double factor, int offset) {
  Value* magic = code.F(x, t.magic + offset * (1 << t.steps));
  Value* shifted = code.Fma(x, code.F(x, factor * t.log2e), magic);
  Value* n = code.CreateFSub(shifted, magic);
  Value* r = code.Fma(n, code.F(x, -t.ln2_hi / factor), x);
  if (t.ln2_lo != 0) r = code.Fma(n, code.F(x, -t.ln2_lo / factor), r);
  llvm::Type* integer = Builder::Like(x, IsF32(x) ? code.getInt32Ty() : static_cast<llvm::Type*>(code.getInt64Ty()));
  return {t, code.CreateBitCast(shifted, integer), r, factor};
}

/// e^(factor * r) - 1 with coefficients that have taken up the factor.
Value* ExpPolynomial(Builder& code, const ExpParts& parts) {
  Value* r = parts.r;
  std::vector<double> coefs;
  double power = parts.factor;
  for (const double q : parts.traits.q) coefs.push_back(q * (power *= parts.factor));
  Value* square = code.CreateFMul(r, r);
  Value* linear = r;
  if (parts.factor == -1) linear = code.CreateFNeg(r);
  if (parts.factor == 2) linear = code.CreateFAdd(r, r);
  return code.Fma(code.PairedPolynomial(r, square, coefs), square, linear);
}

/// The bits of 2^(n + offset - bias), which is a float where its exponent is one.
Value* BitsOfPower(Builder& code, const ExpParts& parts) {
  Value* shifted = parts.shifted;
  Value* exponent = code.CreateShl(shifted, code.I(shifted, parts.traits.mantissa_bits - parts.traits.steps));
  return parts.traits.steps == 0 ? exponent : code.CreateAdd(exponent, code.OneOfEight(kSteps32, shifted));
}
Value* PowerOfTwo(Builder& code, const ExpParts& parts) {
  return code.CreateBitCast(BitsOfPower(code, parts), parts.r->getType());
}

Value* EmitExpm1(Builder& code, Value* x) {
  const ExpTraits& t = ExpTraitsOf(x);
  // Half of the result is formed first: 2^n itself overflows where e^x does not.
  const ExpParts parts = ReduceExp(code, t, Clamp(code, x, IsF32(x) ? -20 : -40, t.x_max), 1, t.bias - 1);
  Value* p = ExpPolynomial(code, parts);
  Value* half_scale = PowerOfTwo(code, parts);
  Value* half = code.Fma(p, half_scale, code.CreateFSub(half_scale, code.F(x, 0.5)));
  Value* result = code.CreateFAdd(half, half);
  Value* is_tiny = code.CreateFCmpOLT(code.Abs(x), code.F(x, t.tiny));
  return code.CreateSelect(is_tiny, x, result);
}

/// 2^-k / (2^-k + 2^-k e^-x): scaled by 2^-k, e^-x is a normal number until the result leaves the
/// denormals, so one division serves both tails and keeps their relative accuracy.
Value* EmitSigmoid(Builder& code, Value* x) {
  const ExpTraits& t = IsF32(x) ? kExpFine32 : kExp64;
  const ExpParts parts = ReduceExp(code, t, Clamp(code, x, t.x_min, t.sigmoid_max), -1, t.bias - t.sigmoid_shift);
  Value* scale = code.F(x, std::ldexp(1.0, -t.sigmoid_shift));
  Value* power = PowerOfTwo(code, parts);
  Value* sum = code.Fma(ExpPolynomial(code, parts), power, code.CreateFAdd(power, scale));
  return code.CreateFDiv(scale, sum);
}

// (tanh(x) - x) / x^3 over x^2, |x| <= 0.65.
constexpr double kTanh32[] = {-0x1.555556p-2, 0x1.1110dap-3,  -0x1.ba0388p-5,
                              0x1.645594p-6,  -0x1.0f5036p-7, 0x1.233952p-9};

Value* EmitTanh32(Builder& code, Value* x) {
  Value* a = code.Abs(x);
  Value* z = code.CreateFMul(x, x);
  Value* small = code.Fma(code.CreateFMul(z, a), code.Polynomial(z, kTanh32), a);
  const ExpParts parts = ReduceExp(code, kExpStep32, AtMost(code, a, 10), 2, kExpStep32.bias);
  Value* one = code.F(x, 1);
  Value* power = PowerOfTwo(code, parts);
  Value* sum = code.Fma(ExpPolynomial(code, parts), power, code.CreateFAdd(power, one));
  Value* large = code.CreateFSub(one, code.CreateFDiv(code.F(x, 2), sum));
  Value* is_small = code.CreateFCmpOLT(a, code.F(x, 0.625));
  return code.CopySign(code.CreateSelect(is_small, small, large), x);
}

Value* EmitTanh64(Builder& code, Value* x) {
  Value* a = Clamp(code, code.Abs(x), 0, 22);
  Value* t = EmitExpm1(code, code.CreateFAdd(a, a));
  return code.CopySign(code.CreateFDiv(t, code.CreateFAdd(t, code.F(x, 2))), x);
}

// erf(x) / x - kErfSlope32 over x^2, |x| <= 0.875; log2(erfc(x)) on [0.875, 4] as precise as
// 1 - erfc needs it; 2^f on |f| <= 1/2 likewise.
constexpr double kErfSlope32 = 0x1.20dd76p+0;
constexpr double kErfSmall32[] = {-0x1.2515ecp-24, -0x1.81270cp-2, 0x1.ce2138p-4,
                                  -0x1.b6f4dcp-6,  0x1.49d136p-8,  -0x1.4556cap-11};
constexpr double kErfBig32[] = {-0x1.b44522p-13, -0x1.a09036p+0, -0x1.d664d2p-1, -0x1.340592p-3,
                                0x1.0882eap-5,   -0x1.2365cap-8, 0x1.2e67bap-12};
constexpr double kExp2Rough32[] = {0x1.000002p+0, 0x1.62e432p-1, 0x1.ebf860p-3,
                                   0x1.c6adb4p-5, 0x1.3d3814p-7, 0x1.5fb4f2p-10};

Value* EmitErf32(Builder& code, Value* x) {
  Value* a = AtMost(code, code.Abs(x), 4);
  Value* z = code.CreateFMul(a, a);
  // The slope at 0 is kept apart: rounded into the polynomial it would cost an ulp everywhere.
  Value* rest = code.CreateFMul(a, code.Polynomial(z, kErfSmall32));
  Value* small = code.Fma(a, code.F(x, kErfSlope32), rest);
  Value* exponent = code.PairedPolynomial(a, z, kErfBig32);
  Value* magic = code.F(x, kExp32.magic + kExp32.bias);
  Value* shifted = code.CreateFAdd(exponent, magic);
  Value* f = code.CreateFSub(exponent, code.CreateFSub(shifted, magic));
  Value* bits = code.CreateBitCast(shifted, Builder::Like(x, code.getInt32Ty()));
  Value* scale = PowerOfTwo(code, {kExp32, bits, x, 1});
  Value* grown = code.PairedPolynomial(f, code.CreateFMul(f, f), kExp2Rough32);
  Value* big = code.Fma(code.CreateFNeg(grown), scale, code.F(x, 1));
  Value* is_small = code.CreateFCmpOLT(a, code.F(x, 0.875));
  return code.CopySign(code.CreateSelect(is_small, small, big), x);
}

// erf(x) / x over x^2 in f64, |x| <= 1, and erfc(x) * e^(x^2) over (x - 2) / (x + 2) on [1, 6].
constexpr double kErfSmall64[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b0bp-4,
                                  -0x1.b82ce312842afp-6,  0x1.565bcd0d9d9d5p-8,   -0x1.c02db3d54dbc9p-11,
                                  0x1.f9a3212f93f8ep-14,  -0x1.f4d1d62676e6ap-17, 0x1.b9de76a52e56ep-20,
                                  -0x1.5f18f06c088acp-23, 0x1.f7741070c3048p-27,  -0x1.37d091d01e984p-30,
                                  0x1.03ca030c759b1p-34};
constexpr double kErfBig64[] = {
    0x1.058671b52c776p-2,  -0x1.b57034efd3f72p-2,  0x1.eeea7dc8a772dp-3,   -0x1.437f0b68c322bp-4, 0x1.e947159acf577p-9,
    0x1.ca95ed70c4c66p-8,  -0x1.bc25a3c31d72ap-11, -0x1.016b742f60749p-10, 0x1.6d521f7a45249p-15, 0x1.6db15c86cd6efp-13,
    0x1.d05fee78e1d04p-16, -0x1.cad9ffeaf10a5p-16, -0x1.ef294a06d3e40p-17, -0x1.dc681aadf4025p-20};

Value* EmitErf64(Builder& code, Value* x) {
  Value* a = Clamp(code, code.Abs(x), 0, 6);
  Value* z = code.CreateFMul(a, a);
  Value* small = code.CreateFMul(a, code.Polynomial(z, kErfSmall64));
  Value* two = code.F(x, 2);
  Value* t = code.CreateFDiv(code.CreateFSub(a, two), code.CreateFAdd(a, two));
  Value* erfc = code.CreateFMul(EmitExp(code, code.CreateFNeg(z)), code.Polynomial(t, kErfBig64));
  Value* big = code.CreateFSub(code.F(x, 1), erfc);
  Value* is_small = code.CreateFCmpOLT(a, code.F(x, 1));
  return code.CopySign(code.CreateSelect(is_small, small, big), x);
}

// (2 atanh(s) - 2s) / s^3 over s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
constexpr double kLog64[] = {0x1.5555555555555p-1, 0x1.9999999999a52p-2, 0x1.2492492472fe1p-2, 0x1.c71c7207f957ep-3,
                             0x1.745cf64be27d1p-3, 0x1.3b1cc726657dep-3, 0x1.0faf8cd71bd6fp-3, 0x1.0c9eb59120ac0p-3};
/// The same to 2^-43, for results of f32.
constexpr double kLogSingle64[] = {0x1.5555555564e96p-1, 0x1.999998cafbf2ap-2, 0x1.249323e4d7fc7p-2,
                                   0x1.c67ada017cf97p-3, 0x1.8c8c11e54d389p-3};
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: k * kLn2High is exact.
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// log(2^k (1 + f)) = k ln2 + f - (f^2/2 - s (f^2/2 + R)), which keeps the large term f exact.
Value* CombineLog(Builder& code, const LogSplit& split, Value* low, std::span<const double> tail = kLog64) {
  Value* f = split.f;
  Value* s = code.CreateFDiv(f, code.CreateFAdd(f, code.F(f, 2)));
  Value* z = code.CreateFMul(s, s);
  Value* r = code.CreateFMul(z, code.Polynomial(z, tail));
  Value* half_square = code.CreateFMul(code.F(f, 0.5), code.CreateFMul(f, f));
  Value* inner = code.Fma(s, code.CreateFAdd(half_square, r), low);
  Value* correction = code.CreateFSub(code.CreateFSub(half_square, inner), f);
  return code.CreateFSub(code.CreateFMul(split.k, code.F(f, kLn2High)), correction);
}

/// The values at 0, below 0, at infinity and NaN, common to all logarithms of `x`.
Value* FixLog(Builder& code, Value* x, Value* result) {
  const double infinity = std::numeric_limits<double>::infinity();
  result = code.CreateSelect(code.CreateFCmpOEQ(x, code.F(x, 0)), code.F(x, -infinity), result);
  result = code.CreateSelect(code.CreateFCmpOEQ(x, code.F(x, infinity)), x, result);
  Value* nan = code.F(x, std::numeric_limits<double>::quiet_NaN());
  return code.CreateSelect(code.CreateFCmpULT(x, code.F(x, 0)), nan, result);
}

Value* EmitLog64(Builder& code, Value* x) {
  const LogSplit split = SplitForLog(code, x);
  Value* low = code.CreateFMul(split.k, code.F(x, kLn2Low));
  return FixLog(code, x, CombineLog(code, split, low));
}

Value* EmitLog2In64(Builder& code, Value* x, bool is_single) {
  LogSplit split = SplitForLog(code, x, is_single);
  Value* k = split.k;
  split.k = code.F(x, 0);
  Value* log = is_single ? CombineLog(code, split, code.F(x, 0), kLogSingle64) : CombineLog(code, split, code.F(x, 0));
  Value* low = code.Fma(log, code.F(x, 0x1.777d0ffda0d24p-56), k);
  Value* result = code.Fma(log, code.F(x, 0x1.71547652b82fep+0), low);
  return FixLog(code, x, result);
}

/// Of x that was f32, 1 + x is exact, or so near to 1 that the result is x.
Value* EmitLog1pOfSingle(Builder& code, Value* x) {
  Value* u = code.CreateFAdd(x, code.F(x, 1));
  Value* result = FixLog(code, u, LogOfSingle(code, u));
  return code.CreateSelect(code.CreateFCmpOLT(code.Abs(x), code.F(x, 0x1p-26)), x, result);
}

Value* EmitLog1p64(Builder& code, Value* x) {
  Value* one = code.F(x, 1);
  Value* u = code.CreateFAdd(x, one);
  // What rounding 1 + x lost, relative to u; the branch keeps the difference exact.
  Value* lost = code.CreateSelect(code.CreateFCmpOGE(x, one), code.CreateFSub(one, code.CreateFSub(u, x)),
                                  code.CreateFSub(x, code.CreateFSub(u, one)));
  const LogSplit split = SplitForLog(code, u);
  Value* low = code.Fma(split.k, code.F(x, kLn2Low), code.CreateFDiv(lost, u));
  Value* result = FixLog(code, u, CombineLog(code, split, low));
  Value* is_tiny = code.CreateFCmpOLT(code.Abs(x), code.F(x, 0x1p-54));
  return code.CreateSelect(is_tiny, x, result);
}

// (atan(t) - t) / t^3 over t^2, |t| <= tan(pi/8).
constexpr double kAtan64[] = {-0x1.5555555555555p-2, 0x1.9999999999949p-3, -0x1.249249248cd30p-3, 0x1.c71c71c27ee2ap-4,
                              -0x1.745d16437cd0ep-4, 0x1.3b138fd27158ep-4, -0x1.110e5113a4e7fp-4, 0x1.e1951a0655b88p-5,
                              -0x1.ac55b9d7d1409p-5, 0x1.74351428a2421p-5, -0x1.1980ab8f4c3b5p-5, 0x1.070df49c546bap-6};

/// The same to 2^-38 of the angle, for results of f32.
constexpr double kAtanSingle64[] = {-0x1.5555555502188p-2, 0x1.99999825954bep-3,  -0x1.2491c08b2dc95p-3,
                                    0x1.c6f68737bd590p-4,  -0x1.71d3c10805470p-4, 0x1.24434e877a5ddp-4,
                                    -0x1.4b3891ff382b2p-5};

Value* EmitAtan2In64(Builder& code, Value* y, Value* x, bool is_single) {
  const double infinity = std::numeric_limits<double>::infinity();
  Value* ax = code.Abs(x);
  Value* ay = code.Abs(y);
  Value* steep = code.CreateFCmpOGT(ay, ax);
  Value* high = code.CreateSelect(steep, ay, ax);
  Value* low = code.CreateSelect(steep, ax, ay);
  // Infinities count as 1, finite values beside them as 0; huge ones are scaled before the sum.
  Value* inf = code.F(x, infinity);
  Value* zero = code.F(x, 0);
  Value* one = code.F(x, 1);
  Value* high_inf = code.CreateFCmpOEQ(high, inf);
  low = code.CreateSelect(high_inf, code.CreateSelect(code.CreateFCmpOEQ(low, inf), one, zero), low);
  high = code.CreateSelect(high_inf, one, high);
  if (!is_single) {
    Value* huge = code.CreateFCmpOGT(high, code.F(x, 0x1p1000));
    Value* scale = code.CreateSelect(huge, code.F(x, 0x1p-200), one);
    high = code.CreateFMul(high, scale);
    low = code.CreateFMul(low, scale);
  }

  Value* wide = code.CreateFCmpOGT(low, code.CreateFMul(high, code.F(x, 0.41421356237309503)));
  Value* numerator = code.CreateSelect(wide, code.CreateFSub(low, high), low);
  Value* denominator = code.CreateSelect(wide, code.CreateFAdd(low, high), high);
  Value* t = code.CreateFDiv(numerator, denominator);
  t = code.CreateSelect(code.CreateFCmpOEQ(high, zero), zero, t);
  Value* z = code.CreateFMul(t, t);
  const std::span<const double> coefs = is_single ? std::span<const double>(kAtanSingle64) : kAtan64;
  Value* cubic = code.CreateFMul(code.CreateFMul(t, z), code.Polynomial(z, coefs));
  // The angle is base + sign * (t + cubic); base is a multiple of pi/4 with its low part.
  Value* base_high = code.CreateSelect(wide, code.F(x, 0x1.921fb54442d18p-1), zero);
  Value* base_low = code.CreateSelect(wide, code.F(x, 0x1.1a62633145c07p-55), zero);
  const auto reflect = [&](Value* where, double pi_high, double pi_low) {
    base_high = code.CreateSelect(where, code.CreateFSub(code.F(x, pi_high), base_high), base_high);
    base_low = code.CreateSelect(where, code.CreateFSub(code.F(x, pi_low), base_low), base_low);
    t = code.CreateSelect(where, code.CreateFNeg(t), t);
    cubic = code.CreateSelect(where, code.CreateFNeg(cubic), cubic);
  };
  reflect(steep, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54);
  llvm::Type* bits_type = Builder::Like(x, code.getInt64Ty());
  Value* x_bits = code.CreateBitCast(x, bits_type);
  reflect(code.CreateICmpSLT(x_bits, code.I(x_bits, 0)), 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53);
  Value* angle = code.CreateFAdd(base_high, code.CreateFAdd(t, code.CreateFAdd(cubic, base_low)));
  Value* result = code.CopySign(angle, y);
  return code.CreateSelect(code.CreateFCmpUNO(x, y), code.CreateFAdd(x, y), result);
}

/// `is_single`: arguments were f32, and the result will be.
Value* EmitIn64(Builder& code, ScalarOp op, Value* a, Value* b, bool is_single) {
  switch (op) {
    case ScalarOp::kErf: return EmitErf64(code, a);
    case ScalarOp::kTanh: return EmitTanh64(code, a);
    case ScalarOp::kLog: return is_single ? FixLog(code, a, LogOfSingle(code, a)) : EmitLog64(code, a);
    case ScalarOp::kLog1p: return is_single ? EmitLog1pOfSingle(code, a) : EmitLog1p64(code, a);
    case ScalarOp::kLog2: return EmitLog2In64(code, a, is_single);
    case ScalarOp::kSin: return EmitSinCos64(code, false, a);
    case ScalarOp::kCos: return EmitSinCos64(code, true, a);
    case ScalarOp::kPow: return EmitPow64(code, a, b, is_single);
    case ScalarOp::kAtan2: return EmitAtan2In64(code, a, b, is_single);
    default: return nullptr;
  }
}

}  // namespace

Value* LogOfSingle(Builder& code, Value* x) {
  const LogSplit split = SplitForLog(code, x, /*is_normal=*/true);
  return CombineLog(code, split, code.CreateFMul(split.k, code.F(x, kLn2Low)), kLogSingle64);
}

Value* EmitExp(Builder& code, Value* x, Value* tail, bool is_single) {
  const ExpTraits& t = is_single ? kExpSingle64 : SteppedTraitsOf(x);
  ExpParts parts = ReduceExp(code, t, Clamp(code, x, t.x_min, t.x_max), 1, 2 * t.bias);
  if (tail != nullptr) parts.r = code.CreateFAdd(parts.r, tail);
  // Two factors: 2^n alone leaves the range of normal numbers before e^x leaves the denormals.
  // Half of n + 2 bias, rounded down, is one biased exponent; what remains is the other.
  Value* bits = parts.shifted;
  Value* both = BitsOfPower(code, parts);
  Value* first = code.CreateShl(bits, code.I(bits, t.mantissa_bits - t.steps - 1));
  const int64_t exponents = -(int64_t{1} << t.mantissa_bits);
  first = code.CreateAnd(first, code.I(bits, exponents));
  Value* second = code.CreateSub(code.CreateAnd(both, code.I(bits, exponents)), first);
  Value* scale = code.CreateBitCast(code.CreateSub(both, second), x->getType());
  Value* result = code.Fma(ExpPolynomial(code, parts), scale, scale);
  return code.CreateFMul(result, code.CreateBitCast(second, x->getType()));
}

Value* EmitExpBelowMaximum(Builder& code, Value* x) {
  const ExpTraits& t = IsF32(x) ? kExpOfDifference32 : kExp64;
  const ExpParts parts = ReduceExp(code, t, AtLeast(code, x, t.unit_min), 1, t.bias);
  Value* power = PowerOfTwo(code, parts);
  return code.Fma(ExpPolynomial(code, parts), power, power);
}

LogSplit SplitForLog(Builder& code, Value* x, bool is_normal) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  Value* denormal = is_normal ? nullptr : code.CreateFCmpOLT(x, code.F(x, 0x1p-1022));
  Value* scaled = is_normal ? x : code.CreateSelect(denormal, code.CreateFMul(x, code.F(x, 0x1p54)), x);
  Value* bits = code.CreateBitCast(scaled, Builder::Like(x, code.getInt64Ty()));
  Value* offset = code.CreateSub(bits, code.I(bits, kSqrtHalf));
  // Shifting left first leaves the mantissa; the exponent becomes a double through the low bits
  // of a large one, because AVX2 converts no 64-bit integers.
  Value* mantissa = code.CreateAnd(offset, code.I(bits, (int64_t{1} << 52) - 1));
  Value* m = code.CreateBitCast(code.CreateAdd(mantissa, code.I(bits, kSqrtHalf)), x->getType());
  Value* exponent = code.CreateAShr(offset, code.I(bits, 52));
  constexpr int64_t kMagicBits = 0x4338000000000000;  // 1.5 * 2^52
  Value* shifted = code.CreateBitCast(code.CreateAdd(exponent, code.I(bits, kMagicBits)), x->getType());
  Value* k = code.CreateFSub(shifted, code.F(x, 0x1.8p52));
  if (!is_normal) k = code.CreateFSub(k, code.CreateSelect(denormal, code.F(x, 54), code.F(x, 0)));
  return {k, code.CreateFSub(m, code.F(x, 1))};
}

Value* EmitMath(Builder& code, ScalarOp op, Value* a, Value* b) {
  switch (op) {
    case ScalarOp::kExp: return EmitExp(code, a);
    case ScalarOp::kExpm1: return EmitExpm1(code, a);
    case ScalarOp::kSigmoid: return EmitSigmoid(code, a);
    default: break;
  }
  if (!IsF32(a)) return EmitIn64(code, op, a, b, false);
  if (op == ScalarOp::kTanh) return EmitTanh32(code, a);
  if (op == ScalarOp::kErf) return EmitErf32(code, a);
  // The other functions are rare in kernels: f64 inside makes them all but correctly rounded.
  llvm::Type* type = a->getType();
  llvm::Type* wide = Builder::Like(a, code.getDoubleTy());
  a = code.CreateFPExt(a, wide);
  if (b != nullptr) b = code.CreateFPExt(b, wide);
  Value* result = EmitIn64(code, op, a, b, true);
  return result == nullptr ? nullptr : code.CreateFPTrunc(result, type);
}

}  // namespace ingot::compiler::x86
