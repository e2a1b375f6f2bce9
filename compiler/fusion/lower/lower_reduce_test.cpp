// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Reduce, HandWrittenRmsNormIsOneKernel) {
  FusedProgram run(R"(graph @f(%x: bf16[s0, 6], %w: bf16[6]) symbols(s0 = %x.dim(0)) {
  %0 = aten.to.dtype(%x, dtype f32, false, false, none) : f32[s0, 6]
  %1 = aten.pow.Tensor_Scalar(%0, 2) : f32[s0, 6]
  %2 = aten.mean.dim(%1, [-1], true, none) : f32[s0, 1]
  %3 = aten.add.Tensor(%2, number 1e-6, 1) : f32[s0, 1]
  %4 = aten.rsqrt(%3) : f32[s0, 1]
  %5 = aten.mul.Tensor(%0, %4) : f32[s0, 6]
  %6 = aten.to.dtype(%5, dtype bf16, false, false, none) : bf16[s0, 6]
  %7 = aten.mul.Tensor(%w, %6) : bf16[s0, 6]
  return %7
})",
                   {4});
  ExpectOneKernel(run);
  const Values x = Ramp(24), w = Ramp(6, 0.2, 0.5);
  run.Set(0, x);
  run.Set(1, w);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (int i = 0; i < 4; ++i) {
    double sum = 0;
    for (int j = 0; j < 6; ++j) sum += x[i * 6 + j] * x[i * 6 + j];
    for (int j = 0; j < 6; ++j) want.push_back(x[i * 6 + j] / std::sqrt(sum / 6 + 1e-6) * w[j]);
  }
  ExpectNear(run.Get(), want, 0.02);
}

TEST(Reduce, MaskedSoftmaxIsOneKernel) {
  FusedProgram run(R"(graph @f(%x: f32[2, 3, 5], %m: bool[3, 5]) {
  %0 = aten.mul.Tensor(%x, number 0.5) : f32[2, 3, 5]
  %1 = aten.masked_fill.Scalar(%0, %m, number -inf) : f32[2, 3, 5]
  %2 = aten.softmax.int(%1, -1, none) : f32[2, 3, 5]
  return %2
})");
  ExpectOneKernel(run);
  Values x = Ramp(30), masked, m(15, 0);
  m[2] = m[7] = 1;
  run.Set(0, x);
  run.Set(1, m);
  ASSERT_TRUE(run.Go());
  for (size_t i = 0; i < 30; ++i) masked.push_back(m[i % 15] ? -kInf : x[i] * 0.5);
  ExpectNear(run.Get(), SoftmaxOf(masked, 5));
}

TEST(Reduce, SoftmaxOfRowsWithNanOrNothingIsNan) {
  for (const char* op : {"softmax", "log_softmax"}) {
    FusedProgram run(fmt::format(R"(graph @f(%x: f32[4, 5]) {{
  %0 = aten.{}.int(%x, -1, none) : f32[4, 5]
  return %0
}})",
                                 op));
    Values x = Ramp(20);
    x[3] = std::numeric_limits<double>::quiet_NaN();
    for (size_t j = 5; j < 10; ++j) x[j] = -kInf;
    x[12] = kInf;
    run.Set(0, x);
    ASSERT_TRUE(run.Go());
    const Values y = run.Get();
    for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(std::isnan(y[i])) << op << i;
    EXPECT_TRUE(std::isnan(y[12])) << op;
    for (size_t i = 15; i < 20; ++i) EXPECT_TRUE(std::isfinite(y[i])) << op << i;
  }
}

TEST(Reduce, SoftmaxAlongAnOuterDim) {
  FusedProgram run(R"(graph @f(%x: f32[2, 4, 3]) {
  %0 = aten.softmax.int(%x, 1, none) : f32[2, 4, 3]
  return %0
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  Values want(24);
  for (size_t b = 0; b < 2; ++b) {
    for (size_t k = 0; k < 3; ++k) {
      Values column;
      for (size_t s = 0; s < 4; ++s) column.push_back(x[b * 12 + s * 3 + k]);
      const Values soft = SoftmaxOf(column, 4);
      for (size_t s = 0; s < 4; ++s) want[b * 12 + s * 3 + k] = soft[s];
    }
  }
  ExpectNear(run.Get(), want);
}

Values LayerNormOf(const Values& x, const Values& w, const Values& b) {
  Values y;
  const size_t n = w.size();
  for (size_t i = 0; i < x.size(); i += n) {
    double mean = 0, var = 0;
    for (size_t j = 0; j < n; ++j) mean += x[i + j] / n;
    for (size_t j = 0; j < n; ++j) var += (x[i + j] - mean) * (x[i + j] - mean) / n;
    for (size_t j = 0; j < n; ++j) {
      y.push_back((x[i + j] - mean) / std::sqrt(var + 1e-5) * w[j] + b[j]);
    }
  }
  return y;
}

TEST(Reduce, ResidualAddAndLayerNormAreOneKernelWithTwoResults) {
  FusedProgram run(R"(graph @f(%x: f32[s0, s1, 8], %r: f32[s0, s1, 8], %w: f32[8], %b: f32[8])
      symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.add.Tensor(%x, %r, 1) : f32[s0, s1, 8]
  %1 = aten.layer_norm(%0, [8], %w, %b, 1e-5, true) : f32[s0, s1, 8]
  return %1, %0
})",
                   {2, 3});
  ExpectOneKernel(run);
  const Values x = Ramp(48), r = Ramp(48, 0.11), w = Ramp(8, 0.3), b = Ramp(8, 0.7);
  run.Set(0, x);
  run.Set(1, r);
  run.Set(2, w);
  run.Set(3, b);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values sum;
  for (size_t i = 0; i < 48; ++i) sum.push_back(x[i] + r[i]);
  ExpectNear(run.Get(1), sum);
  ExpectNear(run.Get(0), LayerNormOf(sum, w, b));
  // Rows of two dims collapse into one.
  EXPECT_EQ(run.fused().kernels[0].rows.size(), 1u) << run.KernelText();
}

TEST(Reduce, EmbeddingSumAndLayerNormAreOneKernel) {
  FusedProgram run(R"(graph @f(%ids: i64[2, 3], %words: f32[10, 4] weight "w", %places: f32[5, 4] weight "p",
      %w: f32[4], %b: f32[4]) {
  %0 = aten.embedding(%words, %ids, -1, false, false) : f32[2, 3, 4]
  %1 = aten.arange.start(0, 3, dtype i64, none, "cpu", none) : i64[3]
  %2 = aten.embedding(%places, %1, -1, false, false) : f32[3, 4]
  %3 = aten.add.Tensor(%0, %2, 1) : f32[2, 3, 4]
  %4 = aten.layer_norm(%3, [4], %w, %b, 1e-5, true) : f32[2, 3, 4]
  return %4
})");
  ExpectOneKernel(run);
  const Values words = Ramp(40), places = Ramp(20, 0.77), w = Ramp(4), b = Ramp(4, 0.5);
  const Values ids = {3, 0, 9, 1, 2, 4};
  run.Set(0, ids);
  run.Set(1, words);
  run.Set(2, places);
  run.Set(3, w);
  run.Set(4, b);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values sum;
  for (size_t i = 0; i < 6; ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    for (size_t j = 0; j < 4; ++j) sum.push_back(words[id * 4 + j] + places[i % 3 * 4 + j]);
  }
  ExpectNear(run.Get(), LayerNormOf(sum, w, b));
  for (const double bad : {10, -1}) {
    run.Set(0, {3, 0, bad, 1, 2, 4});
    EXPECT_FALSE(run.Go()) << bad << " is no row of the table";
  }
}

TEST(Reduce, QueryNormAndRotaryAreOneKernel) {
  FusedProgram run(R"(graph @f(%q: f32[2, 5, 3, 4], %w: f32[4], %cos: f32[5, 4]) {
  %0 = aten.rms_norm(%q, [4], %w, 1e-6) : f32[2, 5, 3, 4]
  %1 = aten.transpose.int(%0, 1, 2) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  %2 = aten.mul.Tensor(%1, %cos) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  %3 = aten.slice.Tensor(%1, 3, 0, 2, 1) : f32[2, 3, 5, 2] strides [60, 4, 12, 1]
  %4 = aten.slice.Tensor(%1, 3, 2, 4, 1) : f32[2, 3, 5, 2] strides [60, 4, 12, 1]
  %5 = aten.neg(%4) : f32[2, 3, 5, 2] strides [30, 2, 6, 1]
  %6 = aten.cat([%5, %3], 3) : f32[2, 3, 5, 4]
  %7 = aten.add.Tensor(%2, %6, 1) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  return %7
})");
  ExpectOneKernel(run);
  const Values q = Ramp(120), w = Ramp(4, 0.3, 0.2), c = Ramp(20, 0.8);
  run.Set(0, q);
  run.Set(1, w);
  run.Set(2, c);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 3; ++h) {
      for (size_t s = 0; s < 5; ++s) {
        const double* x = &q[b * 60 + s * 12 + h * 4];
        double sum = 0;
        for (size_t d = 0; d < 4; ++d) sum += x[d] * x[d] / 4;
        Values n;
        for (size_t d = 0; d < 4; ++d) n.push_back(x[d] / std::sqrt(sum + 1e-6) * w[d]);
        for (size_t d = 0; d < 4; ++d) {
          want.push_back(n[d] * c[s * 4 + d] + (d < 2 ? -n[d + 2] : n[d - 2]));
        }
      }
    }
  }
  ExpectNear(run.Get(), want);
}

TEST(Reduce, MeanOverAMiddleDimWithMaskIsMeanPooling) {
  FusedProgram run(R"(graph @f(%x: f32[2, s0, 4], %m: i64[2, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.unsqueeze(%m, -1) : i64[2, s0, 1]
  %1 = aten.to.dtype(%0, dtype f32, false, false, none) : f32[2, s0, 1]
  %2 = aten.mul.Tensor(%x, %1) : f32[2, s0, 4]
  %3 = aten.sum.dim_IntList(%2, [1], false, none) : f32[2, 4]
  %4 = aten.sum.dim_IntList(%1, [1], false, none) : f32[2, 1]
  %5 = aten.clamp(%4, 1e-9, none) : f32[2, 1]
  %6 = aten.div.Tensor(%3, %5) : f32[2, 4]
  return %6
})",
                   {5});
  EXPECT_LE(run.launches(), 2u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(40), m = {1, 1, 0, 1, 0, 1, 1, 1, 1, 0};
  run.Set(0, x);
  run.Set(1, m);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 4; ++h) {
      double sum = 0, count = 0;
      for (size_t s = 0; s < 5; ++s) {
        sum += x[b * 20 + s * 4 + h] * m[b * 5 + s];
        count += m[b * 5 + s];
      }
      want.push_back(sum / count);
    }
  }
  ExpectNear(run.Get(), want);
}

TEST(Reduce, NormalisingByTheEuclideanNormIsOneKernel) {
  FusedProgram run(R"(graph @f(%x: f32[3, 5]) {
  %0 = aten.linalg_vector_norm(%x, 2, [-1], true, none) : f32[3, 1]
  %1 = aten.clamp_min(%0, 1e-12) : f32[3, 1]
  %2 = aten.expand_as(%1, %x) : f32[3, 5] strides [1, 0]
  %3 = aten.div.Tensor(%x, %2) : f32[3, 5]
  return %3
})");
  ExpectOneKernel(run);
  Values x = Ramp(15), want;
  for (size_t j = 5; j < 10; ++j) x[j] = 0;
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  for (size_t i = 0; i < 15; i += 5) {
    double sum = 0;
    for (size_t j = 0; j < 5; ++j) sum += x[i + j] * x[i + j];
    for (size_t j = 0; j < 5; ++j) want.push_back(x[i + j] / std::max(std::sqrt(sum), 1e-12));
  }
  ExpectNear(run.Get(), want);
}

TEST(Reduce, OtherNormsStayWithAten) {
  const FusedProgram run(R"(graph @f(%x: f32[3, 5]) {
  %0 = aten.linalg_vector_norm(%x, 1, [-1], true, none) : f32[3, 1]
  return %0
})");
  EXPECT_EQ(run.launches(), 0u);
}

TEST(Reduce, ZeroSizesAndZeroDimResults) {
  FusedProgram run(R"(graph @f(%x: f32[s0, 3]) symbols(s0 = %x.dim(0)) {
  %0 = aten.relu(%x) : f32[s0, 3]
  %1 = aten.sum(%0, none) : f32[]
  %2 = aten.add.Tensor(%1, number 1, 1) : f32[]
  return %2, %0
})",
                   {0});
  EXPECT_EQ(run.aten_steps(), 0u);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  EXPECT_EQ(run.Get(), Values{1});
}

TEST(Reduce, LoopsOverNoPartStoreNotTheWhole) {
  FusedProgram run(R"(graph @f(%x: f32[1, 1]) {
  %0 = aten.relu(%x) : f32[1, 1]
  %1 = aten.slice.Tensor(%0, 0, 1, 1, 1) : f32[0, 1]
  %2 = aten.sum(%1, none) : f32[]
  return %2, %0
})");
  run.Set(0, {3});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  EXPECT_EQ(run.Get(0), Values{0});
  EXPECT_EQ(run.Get(1), Values{3}) << run.KernelText();
}

}  // namespace
}  // namespace ingot::compiler
