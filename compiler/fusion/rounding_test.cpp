// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

// 1 + 2^-9 is 1 in bf16.
constexpr double kLost = 0x1p-9;

TEST(Rounding, ReachesWhatIsCompared) {
  FusedProgram run(R"(graph @f(%x: bf16[1], %y: bf16[1]) {
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.eq.Tensor(%0, %x) : bool[1]
  return %1
})");
  run.Set(0, {1});
  run.Set(1, {kLost});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), Values({1}));
}

TEST(Rounding, ReachesBackThroughOtherOperations) {
  for (const char* discrete : {"aten.sign(%2) : bf16[1, 1]", "aten.ceil(%2) : bf16[1, 1]",
                               "aten.to.dtype(%2, dtype bool, false, false, none) : bool[1, 1]",
                               "aten.to.dtype(%2, dtype i32, false, false, none) : i32[1, 1]",
                               "aten.logical_not(%2) : bool[1, 1]", "aten.gt.Scalar(%2, number 0) : bool[1, 1]"}) {
    FusedProgram run(fmt::format(R"(graph @f(%x: bf16[1], %y: bf16[1]) {{
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.view(%0, [1, 1]) : bf16[1, 1]
  %s = aten.sub.Tensor(%1, %x, number 1) : bf16[1, 1]
  %2 = aten.mul.Tensor(%s, number 4096.0) : bf16[1, 1]
  %3 = {}
  return %3
}})",
                                 discrete));
    run.Set(0, {1});
    run.Set(1, {kLost});
    ASSERT_TRUE(run.Go());
    const bool is_not = std::string_view(discrete).starts_with("aten.logical_not");
    EXPECT_EQ(run.Get(), Values({is_not ? 1.0 : 0.0})) << discrete;
  }
}

// 1.0625 lies between the float8 1 and 1.125, and 2^-9 decides; it is gone in bf16.
TEST(Rounding, ReachesWhatIsCutToFloat8) {
  FusedProgram run(R"(graph @f(%x: bf16[1], %y: bf16[1]) {
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.to.dtype(%0, dtype f8e4m3, false, false, none) : f8e4m3[1]
  %2 = aten.to.dtype(%1, dtype f32, false, false, none) : f32[1]
  return %2
})");
  ExpectOneKernel(run);
  run.Set(0, {1.0625});
  run.Set(1, {kLost});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), Values({1}));
}

TEST(Rounding, ReachesPositions) {
  FusedProgram run(R"(graph @f(%x: bf16[2], %y: bf16[2]) {
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[2]
  %1 = aten.argmax(%0, none, false) : i64[]
  return %1
})");
  run.Set(0, {1, 1});
  run.Set(1, {0, kLost});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), Values({0}));
}

TEST(Rounding, LeavesOtherValuesWide) {
  const std::string text = R"({
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.sub.Tensor(%0, %x, number 1) : bf16[1]
  return %1
})";
  for (const bool eager : {false, true}) {
    FusedProgram run("graph @f(%x: bf16[1], %y: bf16[1])" + std::string(eager ? " eager_numerics " : " ") + text);
    run.Set(0, {1});
    run.Set(1, {kLost});
    ASSERT_TRUE(run.Go());
    EXPECT_EQ(run.Get(), Values({eager ? 0 : kLost}));
  }
}

}  // namespace
}  // namespace ingot::compiler
