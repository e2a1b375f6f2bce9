// SPDX-License-Identifier: Apache-2.0
#include "client/archive/scalar_ops.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/floored.h"

namespace ingot::client {
namespace {

using c10::IValue;
using Args = std::span<const IValue>;
using Answer = Result<IValue>;

bool IsNumber(const IValue& value) { return value.isInt() || value.isDouble() || value.isBool(); }
bool IsWhole(const IValue& value) { return value.isInt() || value.isBool(); }
int64_t Whole(const IValue& value) { return value.isBool() ? int64_t{value.toBool()} : value.toInt(); }
double Real(const IValue& value) { return value.isDouble() ? value.toDouble() : static_cast<double>(Whole(value)); }
bool Truth(const IValue& value) { return value.isDouble() ? value.toDouble() != 0 : Whole(value) != 0; }

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kExactMax = int64_t{1} << 53;  // Integers up to there are floats.

Error Overflow() { return Error(Code::kInvalid, "a result beyond 64 bits"); }
Error ZeroDivision() { return Error(Code::kInvalid, "division by zero"); }
Error NotReal() { return Error(Code::kInvalid, "a result that is no number of 64 bits"); }
Error Unknown(std::string what) { return Error(Code::kUnsupported, std::move(what)); }

bool AreWhole(Args a) { return std::ranges::all_of(a, IsWhole); }
bool AreBools(Args a) {
  return std::ranges::all_of(a, [](const IValue& one) { return one.isBool(); });
}

/// Arithmetic that is exact on integers and rounds where Python has a float.
template <typename Whole2, typename Real2>
Answer Arithmetic(Args a, Whole2 whole, Real2 real) {
  if (!AreWhole(a)) return IValue(real(Real(a[0]), Real(a[1])));
  int64_t out = 0;
  if (whole(Whole(a[0]), Whole(a[1]), &out)) return Overflow();
  return IValue(out);
}

Answer Add(Args a) {
  return Arithmetic(a, [](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); }, std::plus<>());
}
Answer Sub(Args a) {
  return Arithmetic(a, [](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); }, std::minus<>());
}
Answer Mul(Args a) {
  return Arithmetic(a, [](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); }, std::multiplies<>());
}

/// Quotient rounded down and remainder of floats: exact by fmod, as CPython has them.
std::pair<double, double> DivMod(double x, double y) {
  double rest = std::fmod(x, y);
  double quotient = (x - rest) / y;
  if (rest == 0) {
    rest = std::copysign(0.0, y);
  } else if ((y < 0) != (rest < 0)) {
    rest += y;
    quotient -= 1;
  }
  if (quotient == 0) return {std::copysign(0.0, x / y), rest};
  const double whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, rest};
}

Answer FloorDiv(Args a) {
  if (Real(a[1]) == 0) return ZeroDivision();
  if (!AreWhole(a)) return IValue(DivMod(Real(a[0]), Real(a[1])).first);
  if (Whole(a[0]) == kLeast && Whole(a[1]) == -1) return Overflow();
  return IValue(ingot::FloorDiv(Whole(a[0]), Whole(a[1])));
}

Answer Mod(Args a) {
  if (Real(a[1]) == 0) return ZeroDivision();
  if (!AreWhole(a)) return IValue(DivMod(Real(a[0]), Real(a[1])).second);
  return IValue(FloorMod(Whole(a[0]), Whole(a[1])));
}

Answer TrueDiv(Args a) {
  if (Real(a[1]) == 0) return ZeroDivision();
  for (const IValue& one : a) {
    const bool is_exact = !IsWhole(one) || (Whole(one) <= kExactMax && Whole(one) >= -kExactMax);
    if (AreWhole(a) && !is_exact) return Unknown("the quotient of integers that are no floats");
  }
  return IValue(Real(a[0]) / Real(a[1]));
}

Answer RealPower(double base, double exponent) {
  if (base == 0 && exponent < 0) return ZeroDivision();
  const double out = std::pow(base, exponent);
  const bool is_finite = std::isfinite(base) && std::isfinite(exponent);
  if (is_finite && !std::isfinite(out)) return NotReal();  // Complex, or Python's OverflowError.
  return IValue(out);
}

Answer Power(Args a) {
  if (!AreWhole(a) || Whole(a[1]) < 0) return RealPower(Real(a[0]), Real(a[1]));
  int64_t out = 1, square = Whole(a[0]);
  for (int64_t left = Whole(a[1]); left > 0;) {
    if (left % 2 == 1 && __builtin_mul_overflow(out, square, &out)) return Overflow();
    left /= 2;
    if (left > 0 && __builtin_mul_overflow(square, square, &square)) return Overflow();
  }
  return IValue(out);
}

Answer ShiftLeft(Args a) {
  if (!AreWhole(a)) return Unknown("a shift of floats");
  const int64_t by = Whole(a[1]);
  if (by < 0) return Error(Code::kInvalid, "a shift by less than nothing");
  int64_t out = 0;
  if (Whole(a[0]) == 0) return IValue(out);
  if (by > 62 || __builtin_mul_overflow(Whole(a[0]), int64_t{1} << by, &out)) return Overflow();
  return IValue(out);
}

Answer ShiftRight(Args a) {
  if (!AreWhole(a)) return Unknown("a shift of floats");
  if (Whole(a[1]) < 0) return Error(Code::kInvalid, "a shift by less than nothing");
  return IValue(Whole(a[0]) >> std::min<int64_t>(Whole(a[1]), 63));
}

/// Of bits; of two bools a bool.
template <typename Bits>
Answer OfBits(Args a, Bits bits) {
  if (!AreWhole(a)) return Unknown("bits of floats");
  const int64_t out = bits(Whole(a[0]), Whole(a[1]));
  return AreBools(a) ? IValue(out != 0) : IValue(out);
}

Answer ToInt(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return Overflow();
  return IValue(static_cast<int64_t>(value));
}

/// By their values, however large: an integer is not rounded to be held against a float. Neither below nor above: NaN.
std::partial_ordering Compare(const IValue& a, const IValue& b) {
  if (IsWhole(a) && IsWhole(b)) return Whole(a) <=> Whole(b);
  if (!IsWhole(a) && !IsWhole(b)) return Real(a) <=> Real(b);
  if (IsWhole(a)) return 0 <=> Compare(b, a);
  const double real = Real(a), down = std::floor(real);
  if (!(real >= -0x1p63 && real < 0x1p63)) return real <=> 0.0;
  const auto whole = static_cast<int64_t>(down) <=> Whole(b);
  return whole == 0 && real > down ? std::partial_ordering::greater : std::partial_ordering(whole);
}

/// A float as soon as one of them is.
Answer Extreme(Args a, bool second) {
  const IValue& one = a[second ? 1 : 0];
  return AreWhole(a) ? Answer(one) : Answer(IValue(Real(one)));
}

Answer Negated(Args a) {
  if (!IsWhole(a[0])) return IValue(-Real(a[0]));
  if (Whole(a[0]) == kLeast) return Overflow();
  return IValue(-Whole(a[0]));
}

Answer SquareRoot(Args a) {
  const double value = Real(a[0]);
  if (value < 0) return NotReal();
  return IValue(std::sqrt(value));
}

Answer Either(Args a) {
  if (!a[0].isBool()) return Unknown("a choice by something else than a bool");
  if (a[1].tagKind() != a[2].tagKind()) return Unknown("a choice between numbers of two types");
  return a[a[0].toBool() ? 1 : 2];
}

struct Function {
  size_t arguments = 2;
  std::function<Answer(Args)> run;
};

const std::unordered_map<std::string_view, Function>& Functions() {
  static const auto* const functions = [] {
    const auto round = [](double (*fn)(double)) {
      return Function{1,
                      [fn](Args a) -> Answer { return IsWhole(a[0]) ? IValue(Whole(a[0])) : ToInt(fn(Real(a[0]))); }};
    };
    const auto compare = [](auto holds) {
      return Function{2, [holds](Args a) -> Answer { return IValue(holds(Compare(a[0], a[1]))); }};
    };
    return new std::unordered_map<std::string_view, Function>{
        {"_operator.add", {2, Add}},
        {"_operator.sub", {2, Sub}},
        {"_operator.mul", {2, Mul}},
        {"_operator.floordiv", {2, FloorDiv}},
        {"_operator.mod", {2, Mod}},
        {"_operator.pow", {2, Power}},
        {"_operator.truediv", {2, TrueDiv}},
        {"_operator.neg", {1, Negated}},
        {"_operator.pos", {1, [](Args a) { return a[0].isBool() ? Answer(IValue(Whole(a[0]))) : Answer(a[0]); }}},
        {"_operator.eq", compare([](auto order) { return order == 0; })},
        {"_operator.ne", compare([](auto order) { return order != 0; })},
        {"_operator.lt", compare([](auto order) { return order < 0; })},
        {"_operator.gt", compare([](auto order) { return order > 0; })},
        {"_operator.le", compare([](auto order) { return order <= 0; })},
        {"_operator.ge", compare([](auto order) { return order >= 0; })},
        {"_operator.and_", {2, [](Args a) { return OfBits(a, std::bit_and<>()); }}},
        {"_operator.or_", {2, [](Args a) { return OfBits(a, std::bit_or<>()); }}},
        {"_operator.lshift", {2, ShiftLeft}},
        {"_operator.rshift", {2, ShiftRight}},
        {"torch.sym_not", {1, [](Args a) -> Answer { return IValue(!Truth(a[0])); }}},
        {"torch.sym_max", {2, [](Args a) { return Extreme(a, Compare(a[0], a[1]) < 0); }}},
        {"torch.sym_min", {2, [](Args a) { return Extreme(a, Compare(a[1], a[0]) < 0); }}},
        {"torch.sym_ite", {3, Either}},
        {"torch.sym_float", {1, [](Args a) -> Answer { return IValue(Real(a[0])); }}},
        {"torch.sym_int", round(std::trunc)},
        {"math.trunc", round(std::trunc)},
        {"math.floor", round(std::floor)},
        {"math.ceil", round(std::ceil)},
        {"torch._sym_sqrt", {1, SquareRoot}},
    };
  }();
  return *functions;
}

}  // namespace

Result<c10::IValue> EvaluateScalar(std::string_view target, std::span<const c10::IValue> args) {
  const auto found = Functions().find(target);
  if (found == Functions().end()) {
    return Unknown("'" + std::string(target) + "' is neither a torch operator nor one on sizes");
  }
  bool numbers = args.size() == found->second.arguments;
  for (const IValue& arg : args) numbers = numbers && IsNumber(arg);
  if (!numbers) {
    const std::string count = std::to_string(found->second.arguments);
    return Unknown("'" + std::string(target) + "' on something else than " + count + " numbers");
  }
  return found->second.run(args);
}

}  // namespace ingot::client
