// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

// Queries and keys come from projections seen as heads; cos and sin are shared by both.
TEST(Views, RotaryEmbeddingIsOneKernelForBothOperands) {
  FusedProgram run(R"(graph @f(%p: f32[2, s0, 12], %k: f32[2, s0, 12], %cos: f32[1, s0, 4], %sin: f32[1, s0, 4])
      symbols(s0 = %p.dim(1)) {
  %0 = aten.view(%p, [2, s0, 3, 4]) : f32[2, s0, 3, 4]
  %1 = aten.transpose.int(%0, 1, 2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %20 = aten.view(%k, [2, s0, 3, 4]) : f32[2, s0, 3, 4]
  %21 = aten.transpose.int(%20, 1, 2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %2 = aten.unsqueeze(%cos, 1) : f32[1, 1, s0, 4]
  %3 = aten.unsqueeze(%sin, 1) : f32[1, 1, s0, 4]
  %4 = aten.mul.Tensor(%1, %2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %5 = aten.slice.Tensor(%1, 3, 0, 2, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %6 = aten.slice.Tensor(%1, 3, 2, 9223372036854775807, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %7 = aten.neg(%6) : f32[2, 3, s0, 2] strides [6*s0, 2, 6, 1]
  %8 = aten.cat([%7, %5], -1) : f32[2, 3, s0, 4]
  %9 = aten.mul.Tensor(%8, %3) : f32[2, 3, s0, 4]
  %10 = aten.add.Tensor(%4, %9, 1) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %24 = aten.mul.Tensor(%21, %2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %25 = aten.slice.Tensor(%21, 3, 0, 2, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %26 = aten.slice.Tensor(%21, 3, 2, 9223372036854775807, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %27 = aten.neg(%26) : f32[2, 3, s0, 2] strides [6*s0, 2, 6, 1]
  %28 = aten.cat([%27, %25], -1) : f32[2, 3, s0, 4]
  %29 = aten.mul.Tensor(%28, %3) : f32[2, 3, s0, 4]
  %30 = aten.add.Tensor(%24, %29, 1) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  return %10, %30
})",
                   {5});
  ExpectOneKernel(run);
  const Values p = Ramp(120), k = Ramp(120, 0.53), c = Ramp(20, 0.9), s = Ramp(20, 0.21);
  run.Set(0, p);
  run.Set(1, k);
  run.Set(2, c);
  run.Set(3, s);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  for (size_t which = 0; which < 2; ++which) {
    const Values& x = which ? k : p;
    Values want;
    for (size_t b = 0; b < 2; ++b) {
      for (size_t h = 0; h < 3; ++h) {
        for (size_t t = 0; t < 5; ++t) {
          for (size_t d = 0; d < 4; ++d) {
            const auto at = [&](size_t i) { return x[b * 60 + t * 12 + h * 4 + i]; };
            const double rotated = d < 2 ? -at(d + 2) : at(d - 2);
            want.push_back(at(d) * c[t * 4 + d] + rotated * s[t * 4 + d]);
          }
        }
      }
    }
    ExpectNear(run.Get(which), want);
  }
}

// What copies the heads back next to each other after attention.
TEST(Views, CopyingReshapeRunsOverTheFinerDims) {
  FusedProgram run(R"(graph @f(%x: f32[2, 3, s0, 4]) symbols(s0 = %x.dim(2)) {
  %0 = aten.transpose.int(%x, 1, 2) : f32[2, s0, 3, 4] strides [12*s0, 4, 4*s0, 1]
  %1 = aten.reshape(%0, [2, s0, 12]) : f32[2, s0, 12]
  %2 = aten.mul.Tensor(%1, number 2.0) : f32[2, s0, 12]
  return %1
})",
                   {5});
  ExpectOneKernel(run);
  const Values x = Ramp(120);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t s = 0; s < 5; ++s) {
      for (size_t i = 0; i < 12; ++i) want.push_back(x[b * 60 + i / 4 * 20 + s * 4 + i % 4]);
    }
  }
  ExpectNear(run.Get(), want);
}

TEST(Views, ReshapesOfNothingDivideByNoSize) {
  FusedProgram run(R"(graph @f(%x: f32[5, 0]) {
  %0 = aten.view(%x, [0]) : f32[0]
  %1 = aten.add.Tensor(%0, 1, 1) : f32[0]
  %2 = aten.view(%x, [0, 5]) : f32[0, 5]
  %3 = aten.add.Tensor(%2, 1, 1) : f32[0, 5]
  return %1, %3
})");
  EXPECT_EQ(run.launches(), 2u);
}

TEST(Views, StridedExpandedAndZeroDimInputs) {
  FusedProgram run(R"(graph @f(%x: f32[3, 4] strides [1, 6], %y: f32[3, 4] strides [0, 1], %z: f32[]) {
  %0 = aten.add.Tensor(%x, %y, 2) : f32[3, 4] strides [1, 3]
  %1 = aten.mul.Tensor(%0, %z) : f32[3, 4] strides [1, 3]
  return %1
})");
  ExpectOneKernel(run);
  Values x = Ramp(12), row = Ramp(4, 0.6), y, want;
  for (size_t i = 0; i < 12; ++i) y.push_back(row[i % 4]);
  run.Set(0, x);
  run.Set(1, y);
  run.Set(2, {3});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  for (size_t i = 0; i < 12; ++i) want.push_back((x[i] + 2 * y[i]) * 3);
  ExpectNear(run.Get(), want);
}

TEST(Views, ViewsThatAtenNeedsStayAsSteps) {
  FusedProgram run(R"(graph @f(%x: f32[4, 6]) {
  %0 = aten.relu(%x) : f32[4, 6]
  %1 = aten.t(%0) : f32[6, 4] strides [1, 6]
  %2 = aten.linalg_solve(%0, %1) : f32[4, 4]
  return %2
})");
  ASSERT_EQ(run.fused().steps.size(), 3u);
  EXPECT_EQ(run.graph().node(run.fused().steps[1].node).op, "aten.t");
}

}  // namespace
}  // namespace ingot::compiler
