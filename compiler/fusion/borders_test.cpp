// SPDX-License-Identifier: Apache-2.0
//
// What lies around an image, where the kernel of a window computes the image.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

/// Rows of `n` with `fill` at both ends.
Values Padded(const Values& x, size_t n, double fill) {
  Values y;
  for (size_t i = 0; i < x.size(); i += n) {
    y.push_back(fill);
    y.insert(y.end(), x.begin() + static_cast<ptrdiff_t>(i), x.begin() + static_cast<ptrdiff_t>(i + n));
    y.push_back(fill);
  }
  return y;
}

/// Means of windows of 3 within rows of `n`, zeros around them.
Values Means(const Values& x, size_t n) {
  const Values wide = Padded(x, n, 0);
  Values y;
  for (size_t i = 0; i < wide.size(); i += n + 2) {
    for (size_t j = i; j < i + n; ++j) y.push_back((wide[j] + wide[j + 1] + wide[j + 2]) / 3);
  }
  return y;
}

TEST(Borders, AreZerosWhateverTheImageIsMadeOf) {
  const std::vector<std::pair<std::string, double (*)(double)>> producers = {
      {"aten.add.Scalar(%x, number 1.0, number 1)", [](double x) { return x + 1; }},
      {"aten.reciprocal(%x)", [](double x) { return 1 / x; }},
      {"aten.cos(%x)", [](double x) { return std::cos(x); }},
      {"aten.clamp(%x, number 0.5, none)", [](double x) { return std::max(x, 0.5); }},
      {"aten.relu(%x)", [](double x) { return std::max(x, 0.0); }},
  };
  for (const auto& [call, function] : producers) {
    FusedProgram run(fmt::format(R"(graph @f(%x: f32[2, 3, 4]) {{
  %0 = {} : f32[2, 3, 4]
  %1 = aten.avg_pool1d(%0, [3], [1], [1], false, true) : f32[2, 3, 4]
  return %1
}})",
                                 call));
    SCOPED_TRACE(call + "\n" + run.KernelText());
    EXPECT_EQ(run.aten_steps(), 0u);
    Values x = Ramp(24);
    run.Set(0, x);
    ASSERT_TRUE(run.Go());
    std::ranges::transform(x, x.begin(), function);
    ExpectNear(run.Get(), Means(x, 4));
  }
}

// Where the image gives 0 beyond its edge by itself, nothing is chosen.
TEST(Borders, CostNothingWhereLoadsGiveZeros) {
  for (const char* call : {"aten.mul.Tensor(%x, %x)", "aten.relu(%x)", "aten.hardswish(%x)"}) {
    FusedProgram run(fmt::format(R"(graph @f(%x: f32[2, 3, 4]) {{
  %0 = {} : f32[2, 3, 4]
  %1 = aten.avg_pool1d(%0, [3], [1], [1], false, true) : f32[2, 3, 4]
  return %1
}})",
                                 call));
    ExpectOneKernel(run);
    EXPECT_EQ(run.KernelText().find("select"), std::string::npos) << run.KernelText();
  }
}

TEST(Borders, OfOnePixelAreNotThePixel) {
  FusedProgram fold(R"(graph @f(%x: f32[2, 3, 4]) {
  %0 = aten.sum.dim_IntList(%x, [2], true, none) : f32[2, 3, 1]
  %1 = aten.avg_pool1d(%0, [3], [1], [1], false, true) : f32[2, 3, 1]
  return %1
})");
  const Values x = Ramp(24);
  fold.Set(0, x);
  ASSERT_TRUE(fold.Go());
  Values sums;
  for (size_t i = 0; i < x.size(); i += 4) sums.push_back(x[i] + x[i + 1] + x[i + 2] + x[i + 3]);
  ExpectNear(fold.Get(), Means(sums, 1));

  FusedProgram product(R"(graph @f(%x: f32[2, 4], %w: f32[3, 4] weight "w") {
  %0 = aten.linear(%x, %w, none) : f32[2, 3]
  %1 = aten.unsqueeze(%0, 2) : f32[2, 3, 1]
  %2 = aten.avg_pool1d(%1, [3], [1], [1], false, true) : f32[2, 3, 1]
  return %2
})");
  const Values w = Ramp(12, 0.21, -0.4);
  product.Set(0, {x.begin(), x.begin() + 8}), product.Set(1, w);
  ASSERT_TRUE(product.Go());
  Values products;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += x[4 * i + k] * w[4 * j + k];
      products.push_back(sum);
    }
  }
  ExpectNear(product.Get(), Means(products, 1));
}

TEST(Borders, OfOnePoolAreNotThoseOfTheNext) {
  FusedProgram run(R"(graph @f(%x: f32[2, 3, 4]) {
  %0 = aten.max_pool1d(%x, [2], [2], [1], [1], false) : f32[2, 3, 3]
  %1 = aten.avg_pool1d(%0, [3], [1], [1], false, true) : f32[2, 3, 3]
  return %1
})");
  const Values x = Ramp(24);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  const Values wide = Padded(x, 4, -kInf);
  Values most;
  for (size_t i = 0; i < wide.size(); i += 2) most.push_back(std::max(wide[i], wide[i + 1]));
  ExpectNear(run.Get(), Means(most, 3));
}

TEST(Borders, InsideAProductAreZeros) {
  FusedProgram run(R"(graph @f(%q: i8[3, 1, 1], %w: f32[2, 5] weight "w") {
  %0 = aten.to.dtype(%q, dtype f32, false, false, none) : f32[3, 1, 1]
  %1 = aten.add.Scalar(%0, number 1.0, number 1) : f32[3, 1, 1]
  %2 = aten.avg_pool1d(%1, [2], [1], [1], false, true) : f32[3, 1, 2]
  %3 = aten.view(%2, [3, 2]) : f32[3, 2]
  %4 = aten.mm(%3, %w) : f32[3, 5]
  return %4
})");
  const Values q = {3, -2, 7}, w = Ramp(10);
  run.Set(0, q), run.Set(1, w);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText();
  Values want;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 5; ++j) want.push_back((q[i] + 1) / 2 * (w[j] + w[5 + j]));
  }
  ExpectNear(run.Get(), want);
}

}  // namespace
}  // namespace ingot::compiler
