// SPDX-License-Identifier: Apache-2.0
//
// x^y = e^(y log x) with the logarithm as a sum of two doubles: the product of y and log x is up to
// 745, so about ten more bits than a double has are needed before e^x.
#include "compiler/targets/llvm/math/math.h"

namespace ingot::compiler::x86 {
namespace {

using llvm::Value;

/// An unevaluated sum; |low| is at most an ulp of high.
struct Pair {
  Value* high;
  Value* low;
};

Pair TwoSum(Builder& code, Value* a, Value* b) {
  Value* sum = code.CreateFAdd(a, b);
  Value* b_part = code.CreateFSub(sum, a);
  Value* a_part = code.CreateFSub(sum, b_part);
  return {sum, code.CreateFAdd(code.CreateFSub(a, a_part), code.CreateFSub(b, b_part))};
}

Pair FastTwoSum(Builder& code, Value* large, Value* small) {
  Value* sum = code.CreateFAdd(large, small);
  return {sum, code.CreateFSub(small, code.CreateFSub(sum, large))};
}

/// a * b + rest, with the rounding error of a * b kept.
Pair TwoProduct(Builder& code, Value* a, Value* b, Value* rest) {
  Value* high = code.CreateFMul(a, b);
  return {high, code.CreateFAdd(code.Fma(a, b, code.CreateFNeg(high)), rest)};
}

// (2 atanh(s) - 2s - 2/3 s^3) / s^5 over s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
constexpr double kLogTail[] = {0x1.999999999999ap-2, 0x1.2492492492539p-2, 0x1.c71c71c6e3c21p-3, 0x1.745d1780906f7p-3,
                               0x1.3b13935d9d0fap-3, 0x1.11194b67efeeap-3, 0x1.df61a9c01353ap-4, 0x1.e146311ae993ap-4};

/// log x for positive finite x, good to about 2^-63 of its size.
Pair LogPair(Builder& code, Value* x) {
  const LogSplit split = SplitForLog(code, x);
  Value* f = split.f;
  const Pair d = FastTwoSum(code, code.F(x, 2), f);
  Value* s = code.CreateFDiv(f, d.high);
  Value* minus_s = code.CreateFNeg(s);
  Value* remainder = code.Fma(minus_s, d.low, code.Fma(minus_s, d.high, f));
  Value* s_low = code.CreateFDiv(remainder, d.high);
  Value* two_s_low = code.CreateFAdd(s_low, s_low);
  const Pair square = TwoProduct(code, s, s, code.CreateFMul(two_s_low, s));
  Value* cube_rest = code.Fma(s_low, square.high, code.CreateFMul(s, square.low));
  const Pair cube = TwoProduct(code, s, square.high, cube_rest);
  Value* third = code.F(x, 0x1.5555555555555p-1);
  Value* third_rest = code.Fma(third, cube.low, code.CreateFMul(cube.high, code.F(x, 0x1.5555555555555p-55)));
  const Pair cubic = TwoProduct(code, third, cube.high, third_rest);
  Value* fifth = code.CreateFMul(code.CreateFMul(cube.high, square.high), code.Polynomial(square.high, kLogTail));

  Value* k_high = code.CreateFMul(split.k, code.F(x, 0x1.62e42fee00000p-1));
  Value* k_low = code.CreateFMul(split.k, code.F(x, 0x1.a39ef35793c76p-33));
  const Pair first = TwoSum(code, k_high, code.CreateFAdd(s, s));
  const Pair second = TwoSum(code, first.high, cubic.high);
  // k_low can be as large as 2^-23, so its own rounding against the sum is kept as well.
  const Pair third_sum = TwoSum(code, second.high, k_low);
  Value* low = code.CreateFAdd(code.CreateFAdd(first.low, second.low), third_sum.low);
  low = code.CreateFAdd(low, code.CreateFAdd(code.CreateFAdd(two_s_low, cubic.low), fifth));
  return FastTwoSum(code, third_sum.high, low);
}

}  // namespace

Value* EmitPow64(Builder& code, Value* x, Value* y, bool is_single) {
  const double infinity = std::numeric_limits<double>::infinity();
  Value* zero = code.F(x, 0);
  Value* one = code.F(x, 1);
  Value* inf = code.F(x, infinity);
  Value* nan = code.F(x, std::numeric_limits<double>::quiet_NaN());
  Value* ax = code.Abs(x);
  // In f64 a product of up to 104 has bits to spare for f32.
  const Pair log = is_single ? Pair{LogOfSingle(code, ax), zero} : LogPair(code, ax);
  Value* high = code.CreateSelect(code.CreateFCmpOEQ(ax, zero), code.F(x, -infinity), log.high);
  high = code.CreateSelect(code.CreateFCmpOEQ(ax, inf), inf, high);
  Value* product = code.CreateFMul(y, high);
  Value* tail = nullptr;
  if (!is_single) {
    tail = code.Fma(y, log.low, code.Fma(y, high, code.CreateFNeg(product)));
    // Beyond the range of e^x the tail is meaningless (and NaN where the product is infinite).
    Value* in_range = code.CreateFCmpOLT(code.Abs(product), code.F(x, 750));
    tail = code.CreateSelect(in_range, tail, zero);
  }
  Value* result = EmitExp(code, product, tail, is_single);

  const auto floor = [&](Value* v) { return code.Unary(llvm::Intrinsic::floor, v); };
  Value* is_integer = code.CreateFCmpOEQ(floor(y), y);
  Value* half = code.CreateFMul(y, code.F(x, 0.5));
  Value* is_odd = code.CreateAnd(is_integer, code.CreateFCmpONE(floor(half), half));
  result = code.CreateSelect(is_odd, code.CopySign(result, x), result);
  Value* bad = code.CreateAnd(code.CreateFCmpOLT(x, zero), code.CreateNot(is_integer));
  bad = code.CreateAnd(bad, code.CreateFCmpOLT(ax, inf));
  bad = code.CreateOr(bad, code.CreateFCmpUNO(x, y));
  result = code.CreateSelect(bad, nan, result);
  // 1^y and x^0 are 1 even for NaN; (-1)^(+-inf) is 1 as well.
  Value* unit = code.CreateOr(code.CreateFCmpOEQ(x, one), code.CreateFCmpOEQ(y, zero));
  Value* swing = code.CreateAnd(code.CreateFCmpOEQ(ax, one), code.CreateFCmpOEQ(code.Abs(y), inf));
  return code.CreateSelect(code.CreateOr(unit, swing), one, result);
}

}  // namespace ingot::compiler::x86
