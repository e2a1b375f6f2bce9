// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

// Weights of 8 bits are never written out as floats.
TEST(Quantized, DecodesWeightsAsItReadsThem) {
  FusedProgram run(R"(graph @f(%x: f32[3, 6], %w: i8[4, 6] weight "w", %s: f32[4, 1] weight "s") {
  %0 = aten.to.dtype(%w, dtype f32, false, false, none) : f32[4, 6]
  %1 = aten.mul.Tensor(%0, %s) : f32[4, 6]
  %2 = aten.linear(%x, %1, none) : f32[3, 4]
  return %2
})");
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  Values x, w;
  for (int i = 0; i < 18; ++i) x.push_back((i * 7 % 11) / 4.0 - 1);
  for (int i = 0; i < 24; ++i) w.push_back(i * 37 % 255 - 127);
  const Values s = {0.5, 0.25, 2, 1};
  run.Set(0, x), run.Set(1, w), run.Set(2, s);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      double want = 0;
      for (int k = 0; k < 6; ++k) want += x[6 * m + k] * w[6 * n + k] * s[n];
      EXPECT_NEAR(got[4 * m + n], want, 1e-3);
    }
  }
}

TEST(Quantized, DecodesThroughViews) {
  FusedProgram run(R"(graph @f(%x: f32[3, 6], %w: i8[4, 6] weight "w") {
  %0 = aten.to.dtype(%w, dtype f32, false, false, none) : f32[4, 6]
  %1 = aten.t(%0) : f32[6, 4] strides [1, 6]
  %2 = aten.mm(%x, %1) : f32[3, 4]
  return %2
})");
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u) << run.KernelText();
}

// Two weights to a byte, low ones first, in groups of four that share a scale: unpacked where the product reads them.
TEST(Quantized, DecodesNibblesInsideTheProduct) {
  FusedProgram run(R"(graph @f(%x: f32[3, 8], %w: u8[4, 2, 2] weight "w", %s: f32[4, 2, 1] weight "s") {
  %0 = aten.bitwise_and.Scalar(%w, 15) : u8[4, 2, 2]
  %1 = aten.bitwise_right_shift.Tensor(%w, number 4) : u8[4, 2, 2]
  %2 = aten.stack([%0, %1], -2) : u8[4, 2, 2, 2]
  %3 = aten.reshape(%2, [4, 2, 4]) : u8[4, 2, 4]
  %4 = aten.to.dtype(%3, dtype f32, false, false, none) : f32[4, 2, 4]
  %5 = aten.sub.Tensor(%4, number 8, 1) : f32[4, 2, 4]
  %6 = aten.mul.Tensor(%5, %s) : f32[4, 2, 4]
  %7 = aten.reshape(%6, [4, 8]) : f32[4, 8]
  %8 = aten.linear(%x, %7, none) : f32[3, 4]
  return %8
})");
  EXPECT_EQ(run.aten_steps(), 0u);
  EXPECT_EQ(run.KernelText(), R"(kernel k0_bitwise_and_bitwise_right_shift_stack_to_sub_mul_linear symbols 0 {
  param p0: in f32[24]
  param p1: in u8[16]
  param p2: in f32[8]
  param p3: out f32[12]
  buffer b0: f32[4]
  rows [3]
  contract [4, 2, 2, 2] into b0 {
    %0 = load p0 [8*i0 + 4*k0 + 2*k1 + k2] : f32
    %1 = index [k1] : i64
    %2 = const 0 : i64
    %3 = eq %1, %2 : bool
    %4 = load p1 [4*j + 2*k0 + k2] : u8
    %5 = const 15 : i64
    %6 = cast %5 : u8
    %7 = and %4, %6 : u8
    %8 = const 4 : i64
    %9 = cast %8 : u8
    %10 = shr %4, %9 : u8
    %11 = select %3, %7, %10 : u8
    %12 = cast %11 : f32
    %13 = const 8 : f32
    %14 = sub %12, %13 : f32
    %15 = load p2 [2*j + k0] : f32
    %16 = mul %14, %15 : f32
    %17 = reduce_dot %0, %16 : f32
  }
  loop [4] {
    %18 = load b0 [j] : f32
    store p3 [4*i0 + j] = %18
  }
}
)");
  const Values x = Ramp(24), s = {0.5, 0.25, 2, 1, -1, 0.125, 4, 3};
  Values w;
  for (int i = 0; i < 16; ++i) w.push_back(i * 37 % 256);
  run.Set(0, x), run.Set(1, w), run.Set(2, s);
  ASSERT_TRUE(run.Go());
  Values want;
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      double sum = 0;
      for (int k = 0; k < 8; ++k) {
        const int group = k / 4, byte = static_cast<int>(w[n * 4 + group * 2 + k % 2]);
        const int nibble = k % 4 < 2 ? byte & 15 : byte >> 4;
        sum += x[m * 8 + k] * (nibble - 8) * s[n * 2 + group];
      }
      want.push_back(sum);
    }
  }
  ExpectNear(run.Get(), want);
}

}  // namespace
}  // namespace ingot::compiler
