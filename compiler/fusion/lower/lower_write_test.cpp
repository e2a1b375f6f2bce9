// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Writes, ReadersOfOldMemoryRunBeforeTheWrite) {
  FusedProgram run(R"(graph @f(%x: f32[4], %i: i64[1], %v: f32[1]) {
  %0 = aten.exp(%x) : f32[4]
  %1 = aten.index_copy(%x, 0, %i, %v) {inplace = 0} : f32[4]
  %2 = aten.exp(%1) : f32[4]
  %3 = aten.add.Tensor(%0, %2, 1) : f32[4]
  write %x = %1
  return %3
})");
  EXPECT_EQ(run.launches(), 3u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  run.Set(0, {1, 2, 3, 4}), run.Set(1, {2}), run.Set(2, {-1});
  ASSERT_TRUE(run.Go());
  ExpectNear(run.Get(), {2 * std::exp(1), 2 * std::exp(2), std::exp(3) + std::exp(-1), 2 * std::exp(4)});
}

// A layer's keys and values go into their caches in one kernel, turned by their position on the way.
TEST(Writes, WritesRowsOfCachesInPlace) {
  FusedProgram run(
      R"(graph @f(%k: f32[1, 2, 3, 4], %v: f32[1, 2, 3, 4], %c: f32[3, 4], %at: i64[3], %keys: f32[1, 2, 5, 4],
      %values: f32[1, 2, 5, 4]) {
  %0 = aten.mul.Tensor(%k, %c) : f32[1, 2, 3, 4]
  %1 = aten.index_copy(%keys, 2, %at, %0) {inplace = 0} : f32[1, 2, 5, 4]
  %2 = aten.index_put(%values, [none, none, %at], %v, false) {inplace = 0} : f32[1, 2, 5, 4]
  write %keys = %1
  write %values = %2
  return %1, %2
})");
  ExpectOneKernel(run);
  const Values k = Ramp(24), v = Ramp(24, 0.2), c = Ramp(12, 0.5), keys = Ramp(40, 0.1), values = Ramp(40, 0.3);
  const Values at = {4, 0, 2};
  run.Set(0, k), run.Set(1, v), run.Set(2, c), run.Set(3, at), run.Set(4, keys), run.Set(5, values);
  ASSERT_TRUE(run.Go());
  Values new_keys = keys, new_values = values;
  for (size_t h = 0; h < 2; ++h) {
    for (size_t t = 0; t < 3; ++t) {
      for (size_t d = 0; d < 4; ++d) {
        const size_t to = (h * 5 + static_cast<size_t>(at[t])) * 4 + d, from = (h * 3 + t) * 4 + d;
        new_keys[to] = k[from] * c[t * 4 + d];
        new_values[to] = v[from];
      }
    }
  }
  ExpectNear(run.Get(0), new_keys);
  ExpectNear(run.Get(1), new_values);
  for (const double outside : {5.0, -6.0}) {
    run.Set(3, {0, 1, outside});
    EXPECT_FALSE(run.Go()) << outside;
  }
  // index_put counts from the end, index_copy does not.
  run.Set(3, {0, 1, -1});
  EXPECT_FALSE(run.Go());
}

TEST(Writes, WritesPartsInPlace) {
  FusedProgram run(R"(graph @f(%x: f32[3, 5], %a: f32[3, 2], %b: f32[5], %y: f32[2, 3], %z: f32[3], %b3: f32[3]) {
  %0 = aten.slice_scatter(%x, %a, 1, 1, 5, 2) {inplace = 0} : f32[3, 5]
  %1 = aten.select_scatter(%0, %b, 0, 2) {inplace = 0} : f32[3, 5]
  %2 = aten.copy(%y, %b3) {inplace = 0} : f32[2, 3]
  %3 = aten.mul.Tensor(%z, 2) {inplace = 0} : f32[3]
  write %x = %1
  write %y = %2
  write %z = %3
  return %1, %2, %3
})");
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(15), a = Ramp(6, 0.2), b = Ramp(5, 0.9), z = {1, 2, 3}, c = {7, 8, 9};
  run.Set(0, x), run.Set(1, a), run.Set(2, b), run.Set(3, Ramp(6)), run.Set(4, z), run.Set(5, c);
  ASSERT_TRUE(run.Go());
  Values want = x;
  for (size_t r = 0; r < 3; ++r) {
    for (size_t k = 0; k < 2; ++k) want[r * 5 + 1 + 2 * k] = a[r * 2 + k];
  }
  std::ranges::copy(b, want.begin() + 10);
  ExpectNear(run.Get(0), want);
  ExpectNear(run.Get(1), {7, 8, 9, 7, 8, 9});
  ExpectNear(run.Get(2), {2, 4, 6});
}

// x[1, :, i] = y: what lies between the views is no memory.
TEST(Writes, WritesIntoViewsOfViewsAtOnce) {
  FusedProgram run(R"(graph @f(%x: f32[3, 2, 5], %i: i64[2], %y: f32[2, 2], %z: f32[2, 1]) {
  %0 = aten.select.int(%x, 0, 1) : f32[2, 5]
  %1 = aten.index_put(%0, [none, %i], %y, false) : f32[2, 5]
  %2 = aten.select_scatter(%x, %1, 0, 1) {inplace = 0} : f32[3, 2, 5]
  %3 = aten.slice.Tensor(%2, 0, 1, 3, 1) : f32[2, 2, 5]
  %4 = aten.select.int(%3, 0, 1) : f32[2, 5]
  %5 = aten.slice_scatter(%4, %z, 1, 3, 4, 1) : f32[2, 5]
  %6 = aten.select_scatter(%3, %5, 0, 1) : f32[2, 2, 5]
  %7 = aten.slice_scatter(%2, %6, 0, 1, 3, 1) {inplace = 0} : f32[3, 2, 5]
  write %x = %7
  return %7
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(30);
  run.Set(0, x), run.Set(1, {-1, 2}), run.Set(2, {1, 2, 3, 4}), run.Set(3, {7, 8});
  ASSERT_TRUE(run.Go());
  Values want = x;
  want[14] = 1, want[12] = 2, want[19] = 3, want[17] = 4, want[23] = 7, want[28] = 8;
  ExpectNear(run.Get(), want);
  run.Set(1, {5, 0});
  EXPECT_FALSE(run.Go());
}

// An index into a part counts in the part: that is not the same in the whole.
TEST(Writes, KeepsIndicesWithinTheirView) {
  FusedProgram run(R"(graph @f(%x: f32[6, 2], %i: i64[1], %y: f32[1, 2]) {
  %0 = aten.slice.Tensor(%x, 0, 0, 3, 1) : f32[3, 2]
  %1 = aten.index_copy(%0, 0, %i, %y) : f32[3, 2]
  %2 = aten.slice_scatter(%x, %1, 0, 0, 3, 1) {inplace = 0} : f32[6, 2]
  write %x = %2
  return %2
})");
  EXPECT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 2u) << "a view, and a copy of the part, whose index PyTorch checks";
}

// What is stored may not be computed beside the store from what lay there before.
TEST(Writes, ReadsOldMemoryElsewhereBeforeItWrites) {
  FusedProgram run(R"(graph @f(%x: f32[4, 3], %i: i64[1]) {
  %0 = aten.flip(%x, [0]) : f32[4, 3]
  %1 = aten.slice.Tensor(%x, 0, 1, 2, 1) : f32[1, 3] strides [3, 1]
  %2 = aten.mul.Tensor(%1, 2) : f32[1, 3]
  %3 = aten.index_copy(%x, 0, %i, %2) {inplace = 0} : f32[4, 3]
  write %x = %3
  return %3
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
  const Values x = Ramp(12);
  run.Set(0, x), run.Set(1, {3});
  ASSERT_TRUE(run.Go());
  Values want = x;
  for (size_t d = 0; d < 3; ++d) want[9 + d] = 2 * x[3 + d];
  ExpectNear(run.Get(), want);
}

}  // namespace
}  // namespace ingot::compiler
