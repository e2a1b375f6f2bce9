// SPDX-License-Identifier: Apache-2.0
//
// Error bounds of the inlined functions (docs/numerics.md), against the C library in the next
// wider type and against SLEEF, on random arguments of every magnitude and on the edges.
#include <sleef.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/support/compiler/kernel_maker.h"

namespace ingot::compiler {
namespace {

using guards::DType;
using loop::ParamMode;
using loop::ScalarOp;
using Wide = long double;

struct Function {
  ScalarOp op;
  const char* name;
  std::function<Wide(Wide, Wide)> exact;
  double ulp_f32, ulp_f64;
  double low, high;  // Where the function is interesting; half of the arguments lie there.
  int args = 1;
};

void PrintTo(const Function& f, std::ostream* out) { *out << f.name; }

const Function kFunctions[] = {
    {ScalarOp::kExp, "exp", [](Wide x, Wide) { return std::exp(x); }, 1.5, 1.5, -110, 95},
    {ScalarOp::kExpm1, "expm1", [](Wide x, Wide) { return std::expm1(x); }, 2, 2, -5, 5},
    {ScalarOp::kLog, "log", [](Wide x, Wide) { return std::log(x); }, 1, 1.5, 0, 4},
    {ScalarOp::kLog1p, "log1p", [](Wide x, Wide) { return std::log1p(x); }, 1, 2, -1, 2},
    {ScalarOp::kLog2, "log2", [](Wide x, Wide) { return std::log2(x); }, 1, 2, 0, 4},
    {ScalarOp::kSin, "sin", [](Wide x, Wide) { return std::sin(x); }, 1, 2.5, -100, 100},
    {ScalarOp::kCos, "cos", [](Wide x, Wide) { return std::cos(x); }, 1, 2.5, -100, 100},
    {ScalarOp::kTanh, "tanh", [](Wide x, Wide) { return std::tanh(x); }, 2, 3, -10, 10},
    {ScalarOp::kErf, "erf", [](Wide x, Wide) { return std::erf(x); }, 2, 2, -5, 5},
    {ScalarOp::kSigmoid, "sigmoid",
     [](Wide x, Wide) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 2.5, 2.5, -100, 20},
    {ScalarOp::kRsqrt, "rsqrt", [](Wide x, Wide) { return 1 / std::sqrt(x); }, 1.5, 1.5, 0, 100},
    {ScalarOp::kPow, "pow", [](Wide x, Wide y) { return std::pow(x, y); }, 1, 2, -3, 30, 2},
    {ScalarOp::kRem, "rem",
     [](Wide a, Wide b) {
       const Wide r = std::fmod(a, b);
       return r != 0 && std::signbit(r) != std::signbit(b) ? r + b : r;
     },
     0.51, 0.51, -100, 100, 2},
    {ScalarOp::kAtan2, "atan2", [](Wide y, Wide x) { return std::atan2(y, x); }, 1, 2, -3, 3, 2},
};

template <typename T>
std::vector<T> Arguments(const Function& f, std::mt19937_64& random, bool second) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  using L = std::numeric_limits<T>;
  const std::vector<T> edges = {T(0),
                                T(-0.0),
                                T(1),
                                T(-1),
                                T(0.5),
                                T(2),
                                T(-2),
                                T(3),
                                T(-3),
                                kInf,
                                -kInf,
                                L::quiet_NaN(),
                                L::max(),
                                L::lowest(),
                                L::min(),
                                -L::min(),
                                L::denorm_min(),
                                -L::denorm_min(),
                                L::epsilon(),
                                T(1) + L::epsilon(),
                                T(1) - L::epsilon() / 2,
                                T(88.7),
                                T(-87.4),
                                T(-103.9),
                                T(709.7),
                                T(-745),
                                T(-708.5),
                                T(1e5),
                                T(1048576),
                                T(1e9),
                                T(1e22),
                                T(3.1415926535897932),
                                T(0.625)};
  std::vector<T> result;
  if (f.args == 2) {
    for (size_t i = 0; i < edges.size(); ++i) {
      for (size_t k = 0; k < edges.size(); ++k) result.push_back(second ? edges[k] : edges[i]);
    }
  } else {
    result = edges;
  }
  std::uniform_real_distribution<double> inside(f.low, f.high);
  for (int i = 0; i < 200000; ++i) {
    if (i % 2 == 0) {
      result.push_back(static_cast<T>(inside(random)));
    } else if constexpr (sizeof(T) == 4) {
      result.push_back(std::bit_cast<T>(static_cast<uint32_t>(random())));
    } else {
      result.push_back(std::bit_cast<T>(static_cast<uint64_t>(random())));
    }
  }
  return result;
}

/// Distance of `got` from `want` in units of the last place of T at `want`.
template <typename T>
double UlpError(T got, Wide want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // Within reach of overflow the neighbour is the largest number.
    const T largest = std::copysign(std::numeric_limits<T>::max(), rounded);
    return std::isinf(rounded) ? (got == largest ? 1 : INFINITY) : (rounded == largest ? 1 : INFINITY);
  }
  if (std::isnan(got)) return INFINITY;
  if (rounded == 0 && got == 0) return std::signbit(rounded) == std::signbit(got) ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(std::abs(rounded), &exponent);
  const int last = std::max(exponent - std::numeric_limits<T>::digits,
                            std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<Wide>(got) - want) / std::ldexp(Wide(1), last));
}

/// out = f(a) or f(a, b), element by element.
loop::Kernel MathKernel(const Function& f, DType dtype, int64_t n) {
  KernelMaker maker;
  const auto in_a = maker.Param(dtype, ParamMode::kIn, n);
  const auto in_b = maker.Param(dtype, ParamMode::kIn, n);
  const auto result = maker.Param(dtype, ParamMode::kOut, n);
  maker.Loop(n);
  std::vector<loop::Id> args = {maker.Load(in_a, KernelMaker::At({0, 1}))};
  if (f.args == 2) args.push_back(maker.Load(in_b, KernelMaker::At({0, 1})));
  maker.Store(result, KernelMaker::At({0, 1}), maker.Op(f.op, dtype, args));
  return maker.kernel;
}

template <typename T>
void CheckFunction(const Function& f, DType dtype, double bound) {
  std::mt19937_64 random(20240607);
  std::vector<T> a = Arguments<T>(f, random, false);
  std::vector<T> b = Arguments<T>(f, random, true);
  std::vector<T> out(a.size());
  std::vector<Wide> exact(a.size());
  for (size_t i = 0; i < a.size(); ++i) exact[i] = f.exact(a[i], b[i]);
  const TestKernel kernel(MathKernel(f, dtype, static_cast<int64_t>(a.size())));
  for (const CompiledKernel& compiled : kernel.compiled()) {
    ASSERT_EQ(compiled.Run({a.data(), b.data(), out.data()}, {}, 0, 1), 0);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double error = UlpError(out[i], exact[i]);
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    const std::string property = "ulp_" + std::string(NameOf(dtype)) + "_" + compiled.level();
    ::testing::Test::RecordProperty(property, std::to_string(worst));
    EXPECT_LE(worst, bound) << compiled.level() << ": " << f.name << "(" << a[at] << ", " << b[at] << ") = " << out[at]
                            << ", exactly " << exact[at];
  }
}

class InlinedMath : public ::testing::TestWithParam<Function> {};

TEST_P(InlinedMath, StaysWithinItsBoundInF32) { CheckFunction<float>(GetParam(), DType::kF32, GetParam().ulp_f32); }
TEST_P(InlinedMath, StaysWithinItsBoundInF64) { CheckFunction<double>(GetParam(), DType::kF64, GetParam().ulp_f64); }

/// By SLEEF, which shares nothing with the C library: at most one unit of the last place off.
struct OfSleef {
  ScalarOp op;
  double (*function)(double, double);
};

const OfSleef kOfSleef[] = {
    {ScalarOp::kExp, [](double x, double) { return Sleef_exp_u10(x); }},
    {ScalarOp::kExpm1, [](double x, double) { return Sleef_expm1_u10(x); }},
    {ScalarOp::kLog, [](double x, double) { return Sleef_log_u10(x); }},
    {ScalarOp::kLog1p, [](double x, double) { return Sleef_log1p_u10(x); }},
    {ScalarOp::kLog2, [](double x, double) { return Sleef_log2_u10(x); }},
    {ScalarOp::kSin, [](double x, double) { return Sleef_sin_u10(x); }},
    {ScalarOp::kCos, [](double x, double) { return Sleef_cos_u10(x); }},
    {ScalarOp::kTanh, [](double x, double) { return Sleef_tanh_u10(x); }},
    {ScalarOp::kErf, [](double x, double) { return Sleef_erf_u10(x); }},
    {ScalarOp::kPow, [](double x, double y) { return Sleef_pow_u10(x, y); }},
    {ScalarOp::kAtan2, [](double x, double y) { return Sleef_atan2_u10(x, y); }},
};

class AgainstSleef : public ::testing::TestWithParam<OfSleef> {};

TEST_P(AgainstSleef, F64AgreesWithinBothBounds) {
  // Its logarithm of 1 + x and its powers give infinity where arguments or results come near the largest numbers.
  constexpr double kDomain = 1e307;
  const Function& f = *std::ranges::find(kFunctions, GetParam().op, &Function::op);
  std::mt19937_64 random(20261130);
  std::vector<double> a = Arguments<double>(f, random, false), b = Arguments<double>(f, random, true);
  std::vector<double> out(a.size());
  const TestKernel kernel(MathKernel(f, DType::kF64, static_cast<int64_t>(a.size())));
  for (const CompiledKernel& compiled : kernel.compiled()) {
    ASSERT_EQ(compiled.Run({a.data(), b.data(), out.data()}, {}, 0, 1), 0);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a[i]) && (std::abs(a[i]) > kDomain || std::abs(out[i]) > kDomain)) continue;
      const double other = GetParam().function(a[i], b[i]);
      ASSERT_LE(UlpError(out[i], Wide(other)), f.ulp_f64 + 1)
          << compiled.level() << ": " << f.name << "(" << a[i] << ", " << b[i] << ") = " << out[i] << ", by SLEEF "
          << other;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, AgainstSleef, ::testing::ValuesIn(kOfSleef), [](const auto& info) {
  return std::string(std::ranges::find(kFunctions, info.param.op, &Function::op)->name);
});
INSTANTIATE_TEST_SUITE_P(Functions, InlinedMath, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ingot::compiler
