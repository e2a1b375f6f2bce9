// SPDX-License-Identifier: Apache-2.0
#include "client/archive/scalar_ops.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

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

Error Overflow() { return Error(Code::kInvalid, "a result beyond 64 bits"); }
Error ZeroDivision() { return Error(Code::kInvalid, "division by zero"); }

/// Arithmetic that is exact on integers and rounds where Python has a float.
template <typename Whole2, typename Real2>
Answer Arithmetic(Args a, Whole2 whole, Real2 real) {
  if (!IsWhole(a[0]) || !IsWhole(a[1])) return IValue(real(Real(a[0]), Real(a[1])));
  int64_t out = 0;
  if (whole(Whole(a[0]), Whole(a[1]), &out)) return Overflow();
  return IValue(out);
}

Answer FloorDiv(Args a) {
  if (Real(a[1]) == 0) return ZeroDivision();
  if (!IsWhole(a[0]) || !IsWhole(a[1])) return IValue(std::floor(Real(a[0]) / Real(a[1])));
  if (Whole(a[0]) == std::numeric_limits<int64_t>::min() && Whole(a[1]) == -1) return Overflow();
  return IValue(ingot::FloorDiv(Whole(a[0]), Whole(a[1])));
}

Answer Mod(Args a) {
  if (Real(a[1]) == 0) return ZeroDivision();
  if (!IsWhole(a[0]) || !IsWhole(a[1])) {
    return Error(Code::kUnsupported, "the remainder of floats");
  }
  if (Whole(a[1]) == -1) return IValue(int64_t{0});
  return IValue(FloorMod(Whole(a[0]), Whole(a[1])));
}

Answer Power(Args a) {
  if (!IsWhole(a[0]) || !IsWhole(a[1]) || Whole(a[1]) < 0) return IValue(std::pow(Real(a[0]), Real(a[1])));
  if (Whole(a[1]) > 64) return Overflow();
  int64_t out = 1;
  for (int64_t i = 0; i < Whole(a[1]); ++i) {
    if (__builtin_mul_overflow(out, Whole(a[0]), &out)) return Overflow();
  }
  return IValue(out);
}

Answer ToInt(double value) {
  if (!(std::abs(value) < 9.2e18)) return Overflow();
  return IValue(static_cast<int64_t>(value));
}

bool IsLess(const IValue& a, const IValue& b) {
  return IsWhole(a) && IsWhole(b) ? Whole(a) < Whole(b) : Real(a) < Real(b);
}
bool IsEqual(const IValue& a, const IValue& b) {
  return IsWhole(a) && IsWhole(b) ? Whole(a) == Whole(b) : Real(a) == Real(b);
}

struct Function {
  size_t arguments = 2;
  std::function<Answer(Args)> run;
};

const std::unordered_map<std::string_view, Function>& Functions() {
  static const auto* const functions = [] {
    const auto round = [](double (*fn)(double)) {
      return Function{1, [fn](Args a) -> Answer { return IsWhole(a[0]) ? Answer(a[0]) : ToInt(fn(Real(a[0]))); }};
    };
    const Function add{2, [](Args a) {
                         return Arithmetic(
                             a, [](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); }, std::plus<>());
                       }};
    const Function sub{
        2, [](Args a) {
          return Arithmetic(a, [](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); }, std::minus<>());
        }};
    const Function mul{2, [](Args a) {
                         return Arithmetic(
                             a, [](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); },
                             std::multiplies<>());
                       }};
    const Function largest{2, [](Args a) -> Answer { return IsLess(a[0], a[1]) ? a[1] : a[0]; }};
    const Function least{2, [](Args a) -> Answer { return IsLess(a[1], a[0]) ? a[1] : a[0]; }};
    return new std::unordered_map<std::string_view, Function>{
        {"_operator.add", add},
        {"_operator.sub", sub},
        {"_operator.mul", mul},
        {"_operator.floordiv", {2, FloorDiv}},
        {"_operator.mod", {2, Mod}},
        {"_operator.pow", {2, Power}},
        {"_operator.truediv",
         {2,
          [](Args a) -> Answer {
            if (Real(a[1]) == 0) return ZeroDivision();
            return IValue(Real(a[0]) / Real(a[1]));
          }}},
        {"_operator.neg",
         {1,
          [](Args a) -> Answer {
            if (!IsWhole(a[0])) return IValue(-Real(a[0]));
            int64_t out = 0;
            if (__builtin_sub_overflow(int64_t{0}, Whole(a[0]), &out)) return Overflow();
            return IValue(out);
          }}},
        {"_operator.eq", {2, [](Args a) -> Answer { return IValue(IsEqual(a[0], a[1])); }}},
        {"_operator.ne", {2, [](Args a) -> Answer { return IValue(!IsEqual(a[0], a[1])); }}},
        {"_operator.lt", {2, [](Args a) -> Answer { return IValue(IsLess(a[0], a[1])); }}},
        {"_operator.gt", {2, [](Args a) -> Answer { return IValue(IsLess(a[1], a[0])); }}},
        {"_operator.le", {2, [](Args a) -> Answer { return IValue(!IsLess(a[1], a[0])); }}},
        {"_operator.ge", {2, [](Args a) -> Answer { return IValue(!IsLess(a[0], a[1])); }}},
        {"_operator.and_", {2, [](Args a) -> Answer { return IValue(Truth(a[0]) && Truth(a[1])); }}},
        {"_operator.or_", {2, [](Args a) -> Answer { return IValue(Truth(a[0]) || Truth(a[1])); }}},
        {"torch.sym_not", {1, [](Args a) -> Answer { return IValue(!Truth(a[0])); }}},
        {"torch.sym_max", largest},
        {"torch.sym_min", least},
        {"torch.sym_float", {1, [](Args a) -> Answer { return IValue(Real(a[0])); }}},
        {"torch.sym_int", round(std::trunc)},
        {"math.trunc", round(std::trunc)},
        {"math.floor", round(std::floor)},
        {"math.ceil", round(std::ceil)},
        {"torch._sym_sqrt", {1, [](Args a) -> Answer { return IValue(std::sqrt(Real(a[0]))); }}},
    };
  }();
  return *functions;
}

}  // namespace

Result<c10::IValue> EvaluateScalar(std::string_view target, std::span<const c10::IValue> args) {
  const auto found = Functions().find(target);
  if (found == Functions().end()) {
    return Error(Code::kUnsupported, fmt::format("'{}' is neither a torch operator nor one on sizes", target));
  }
  bool numbers = args.size() == found->second.arguments;
  for (const IValue& arg : args) numbers = numbers && IsNumber(arg);
  if (!numbers) {
    return Error(Code::kUnsupported,
                 fmt::format("'{}' on something else than {} numbers", target, found->second.arguments));
  }
  return found->second.run(args);
}

}  // namespace ingot::client
