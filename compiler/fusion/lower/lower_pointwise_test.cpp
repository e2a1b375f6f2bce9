// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Pointwise, SiluMulIsOneKernel) {
  FusedProgram run(R"(graph @f(%x: f32[4, 6], %y: f32[4, 6]) {
  %0 = aten.silu(%x) : f32[4, 6]
  %1 = aten.mul.Tensor(%0, %y) : f32[4, 6]
  return %1
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24), y = Ramp(24, 0.9);
  run.Set(0, x);
  run.Set(1, y);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t i = 0; i < 24; ++i) want.push_back(x[i] / (1 + std::exp(-x[i])) * y[i]);
  ExpectNear(run.Get(), want);
}

// From the nearer end: weights of 0 and 1 give the ends themselves, whatever the other one is.
TEST(Pointwise, LerpEndsWhereItsEndsAre) {
  FusedProgram run(R"(graph @f(%x: f32[5], %y: f32[5], %w: f32[5]) {
  %0 = aten.lerp.Tensor(%x, %y, %w) : f32[5]
  %1 = aten.lerp.Scalar(%x, %y, 0.75) : f32[5]
  return %0, %1
})");
  ExpectOneKernel(run);
  run.Set(0, {1, 1e30, 2, -4, 8});
  run.Set(1, {1e30, 3, 6, 4, 0});
  run.Set(2, {0, 1, 0.25, 0.5, 2});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(0), (Values{1, 3, 3, 0, -8}));
  ExpectNear(run.Get(1), {7.5e29, 2.5e29, 5, 2, 2});
}

TEST(Pointwise, BiasGeluIsOneKernel) {
  FusedProgram run(R"(graph @f(%x: f32[4, 6], %b: f32[6]) {
  %0 = aten.add.Tensor(%x, %b, 1) : f32[4, 6]
  %1 = aten.gelu(%0, "none") : f32[4, 6]
  return %1
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24), b = Ramp(6, 0.9);
  run.Set(0, x);
  run.Set(1, b);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t i = 0; i < 24; ++i) {
    const double v = x[i] + b[i % 6];
    want.push_back(0.5 * v * (1 + std::erf(v * M_SQRT1_2)));
  }
  ExpectNear(run.Get(), want);
}

/// One pointwise node over f32[8]; `expected` maps an element.
struct UnaryCase {
  std::string call;
  std::function<double(double)> expected;
};

TEST(Pointwise, PointwiseFormulas) {
  const std::vector<UnaryCase> cases = {
      {"aten.neg(%x)", [](double v) { return -v; }},
      {"aten.abs(%x)", [](double v) { return std::fabs(v); }},
      {"aten.sign(%x)", [](double v) { return (v > 0) - (v < 0); }},
      {"aten.exp(%x)", [](double v) { return std::exp(v); }},
      {"aten.sin(%x)", [](double v) { return std::sin(v); }},
      {"aten.cos(%x)", [](double v) { return std::cos(v); }},
      {"aten.tanh(%x)", [](double v) { return std::tanh(v); }},
      {"aten.sigmoid(%x)", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"aten.log(%x)", [](double v) { return std::log(v); }},
      {"aten.sqrt(%x)", [](double v) { return std::sqrt(v); }},
      {"aten.reciprocal(%x)", [](double v) { return 1 / v; }},
      {"aten.floor(%x)", [](double v) { return std::floor(v); }},
      {"aten.round(%x)", [](double v) { return std::nearbyint(v); }},
      {"aten.trunc(%x)", [](double v) { return std::trunc(v); }},
      {"aten.relu6(%x)", [](double v) { return std::min(std::max(v, 0.0), 6.0); }},
      {"aten.leaky_relu(%x, 0.1)", [](double v) { return v > 0 ? v : 0.1 * v; }},
      {"aten.elu(%x, 1.5, 1, 1)", [](double v) { return v > 0 ? v : 1.5 * std::expm1(v); }},
      {"aten.softplus(%x, 2, 20)", [](double v) { return std::log1p(std::exp(2 * v)) / 2; }},
      {"aten.hardswish(%x)", [](double v) { return v * std::min(std::max(v + 3, 0.0), 6.0) / 6; }},
      {"aten.gelu(%x, \"tanh\")",
       [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
      {"aten.pow.Tensor_Scalar(%x, 3)", [](double v) { return v * v * v; }},
      {"aten.rsub.Scalar(%x, 1.0, 1)", [](double v) { return 1 - v; }},
      {"aten.div.Tensor_mode(%x, number 0.5, \"trunc\")", [](double v) { return std::trunc(v / 0.5); }},
      {"aten.remainder.Scalar(%x, 0.75)", [](double v) { return v - 0.75 * std::floor(v / 0.75); }},
      {"aten.clamp_min(%x, 0.25)", [](double v) { return std::max(v, 0.25); }},
      {"aten.to.dtype(%x, dtype f32, false, false, none)", [](double v) { return v; }},
  };
  const Values x = {-2.6, -1, -0.3, 0.0, 0.2, 0.5, 1.7, 3.25};
  for (const UnaryCase& c : cases) {
    FusedProgram run("graph @f(%x: f32[8]) {\n  %0 = " + c.call + " : f32[8]\n  return %0\n}");
    ASSERT_EQ(run.launches(), 1u) << c.call;
    run.Set(0, x);
    ASSERT_TRUE(run.Go()) << c.call;
    Values want;
    for (double v : x) want.push_back(c.expected(static_cast<float>(v)));
    SCOPED_TRACE(c.call);
    ExpectNear(run.Get(), want);
  }
}

TEST(Pointwise, NanAndInfinityGoThroughAsInTorch) {
  FusedProgram run(R"(graph @f(%x: f32[6]) {
  %0 = aten.relu(%x) : f32[6]
  %1 = aten.clamp(%x, -1, 1) : f32[6]
  %2 = aten.amax(%x, [0], false) : f32[]
  %3 = aten.isnan(%x) : bool[6]
  %4 = aten.argmax(%x, 0, false) : i64[]
  %5 = aten.isfinite(%x) : bool[6]
  return %0, %1, %2, %3, %4, %5
})");
  EXPECT_EQ(run.aten_steps(), 0u);
  const double nan = std::nan("");
  run.Set(0, {1, -kInf, kInf, nan, -0.5, nan});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  ExpectNear(run.Get(0), {1, 0, kInf, nan, 0, nan});
  ExpectNear(run.Get(1), {1, -1, 1, nan, -0.5, nan});
  ExpectNear(run.Get(2), {nan});
  EXPECT_EQ(run.Get(3), (Values{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(run.Get(4), (Values{3}));
  EXPECT_EQ(run.Get(5), (Values{1, 0, 0, 0, 1, 0}));
}

// As torch computes: numbers and tensors of rank 0 take the type of the result first, but for the
// factors of products; a scaled sum is rounded once.
TEST(Pointwise, NarrowOperandsAreRoundedWhereTorchRoundsThem) {
  FusedProgram run(R"(graph @f(%x: bf16[1], %y: bf16[1], %i: i64[1]) {
  %0 = aten.add.Tensor(%x, 0.7, 1) : bf16[1]
  %1 = aten.mul.Tensor(%x, 0.7) : bf16[1]
  %2 = aten.eq.Tensor(%y, 0.7) : bool[1]
  %3 = aten.mul.Tensor(%x, %i) : bf16[1]
  %4 = aten.div.Tensor_mode(%i, %y, "trunc") : bf16[1]
  %5 = aten.pow.Scalar(0.7, %x) : bf16[1]
  return %0, %1, %2, %3, %4, %5
})");
  constexpr double kNear = 0.69921875;  // 0.7 in bf16
  run.Set(0, {-1.7578125});
  run.Set(1, {kNear});
  run.Set(2, {2057});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(0), Values{-1.0625});
  EXPECT_EQ(run.Get(1), Values{-1.234375});
  EXPECT_EQ(run.Get(2), Values{1});
  EXPECT_EQ(run.Get(3), Values{-3632});
  EXPECT_EQ(run.Get(4), Values{2944});
  EXPECT_NEAR(run.Get(5)[0], std::pow(kNear, -1.7578125), 0.008);
}

// Scalars take part in promotion as torch has it.
TEST(Pointwise, IntegerArithmeticPromotes) {
  FusedProgram run(R"(graph @f(%x: i64[4], %y: f32[4]) {
  %0 = aten.div.Tensor(%x, number 2) : f32[4]
  %1 = aten.gt.Tensor(%x, %y) : bool[4]
  %2 = aten.mul.Tensor(%x, number 3) : i64[4]
  %3 = aten.floor_divide(%x, number 2) : i64[4]
  %4 = aten.remainder.Scalar(%x, 3) : i64[4]
  return %0, %1, %2, %3, %4
})");
  ExpectOneKernel(run);
  run.Set(0, {-3, 0, 1, 5});
  run.Set(1, {-3.5, 0, 1.5, 4});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(0), (Values{-1.5, 0, 0.5, 2.5}));
  EXPECT_EQ(run.Get(1), (Values{1, 0, 0, 1}));
  EXPECT_EQ(run.Get(2), (Values{-9, 0, 3, 15}));
  EXPECT_EQ(run.Get(3), (Values{-2, 0, 0, 2}));
  EXPECT_EQ(run.Get(4), (Values{0, 0, 1, 2}));
}

}  // namespace
}  // namespace ingot::compiler
