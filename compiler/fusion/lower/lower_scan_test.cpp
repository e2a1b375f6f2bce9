// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Scan, FusesWithWhatComesBeforeAndAfter) {
  FusedProgram run(R"(graph @f(%x: f32[3, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.softmax.int(%x, -1, none) : f32[3, s0]
  %1 = aten.cumsum(%0, -1, none) : f32[3, s0]
  %2 = aten.sub.Tensor(%1, %0, 1) : f32[3, s0]
  %3 = aten.gt.Scalar(%2, 0.5) : bool[3, s0]
  %4 = aten.masked_fill.Scalar(%x, %3, -inf) : f32[3, s0]
  return %4
})",
                   {5});
  ExpectOneKernel(run);
  const Values x = Ramp(15);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  const Values soft = SoftmaxOf(x, 5);
  Values want;
  for (size_t i = 0; i < x.size(); ++i) {
    double before = 0;
    for (size_t j = i / 5 * 5; j < i; ++j) before += soft[j];
    want.push_back(before > 0.5 ? -kInf : x[i]);
  }
  ExpectNear(run.Get(), want);
}

TEST(Scan, OfAnExtremeGivesTheLastPositionOfEqualOnes) {
  FusedProgram run(R"(graph @f(%x: f32[6]) {
  %0, %1 = aten.cummax(%x, 0) : f32[6], i64[6]
  %2, %3 = aten.cummin(%x, 0) : f32[6], i64[6]
  return %0, %1, %2, %3
})");
  ExpectOneKernel(run);
  const double nan = std::nan("");
  run.Set(0, {2, 2, 5, 1, nan, 7});
  ASSERT_TRUE(run.Go());
  ExpectNear(run.Get(0), {2, 2, 5, 5, nan, nan});
  EXPECT_EQ(run.Get(1), (Values{0, 1, 2, 2, 4, 4}));
  ExpectNear(run.Get(2), {2, 2, 2, 1, nan, nan});
  EXPECT_EQ(run.Get(3), (Values{0, 1, 1, 3, 4, 4}));
}

// The places before a part count as well, and what is folded along another dim goes another way.
TEST(Scan, StandsAloneWhereOthersWalkAnotherWay) {
  const std::vector<std::pair<std::string, Values>> cases = {
      {"aten.slice.Tensor(%0, 1, 1, 3, 1) : f32[2, 2] strides [3, 1]\n  %2 = aten.neg(%1) : f32[2, 2]",
       {-1, -3, -7, -12}},
      {"aten.sum.dim_IntList(%0, [0], false, none) : f32[3]\n  %2 = aten.neg(%1) : f32[3]", {-3, -8, -15}},
      {"aten.cumsum(%0, 0, none) : f32[2, 3]\n  %2 = aten.neg(%1) : f32[2, 3]", {0, -1, -3, -3, -8, -15}},
      {"aten.amax(%0, [1], false) : f32[2]\n  %2 = aten.neg(%1) : f32[2]", {-3, -12}},
      {"aten.cat([%0, %x], 1) : f32[2, 6]\n  %2 = aten.neg(%1) : f32[2, 6]",
       {0, -1, -3, 0, -1, -2, -3, -7, -12, -3, -4, -5}},
      {"aten.cat([%0, %x], 0) : f32[4, 3]\n  %2 = aten.neg(%1) : f32[4, 3]",
       {0, -1, -3, -3, -7, -12, 0, -1, -2, -3, -4, -5}},
      {"aten.flip(%0, [1]) : f32[2, 3]\n  %2 = aten.neg(%1) : f32[2, 3]", {-3, -1, 0, -12, -7, -3}},
  };
  for (const auto& [rest, want] : cases) {
    FusedProgram run("graph @f(%x: f32[2, 3]) {\n  %0 = aten.cumsum(%x, 1, none) : f32[2, 3]\n  %1 = " + rest +
                     "\n  return %2\n}");
    SCOPED_TRACE(rest);
    run.Set(0, {0, 1, 2, 3, 4, 5});
    const Status status = run.Go();
    if (!status) {
      EXPECT_NE(status.error().message().find("flip"), std::string::npos) << status.error().ToText();
      continue;
    }
    EXPECT_EQ(run.Get(), want) << run.KernelText();
  }
}

}  // namespace
}  // namespace ingot::compiler
