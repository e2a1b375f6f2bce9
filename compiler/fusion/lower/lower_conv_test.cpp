// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/fusion/coords.h"
#include "compiler/ir/text.h"
#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Convolutions, GroupsAreRowsOfTheirOwnAndWhatFollowsIsInTheKernel) {
  constexpr int kGroups = 2, kIn = 8, kOut = 9, kPixels = 5;
  FusedProgram run(R"(graph @f(%x: f32[1, 16, 5] strides [80, 1, 16], %w: f32[18, 8, 1] weight "w") {
  %0 = aten.conv1d(%x, %w, none, [1], [0], [1], 2) : f32[1, 18, 5] strides [90, 1, 18]
  %1 = aten.relu(%0) : f32[1, 18, 5] strides [90, 1, 18]
  return %1
})");
  ExpectOneKernel(run);
  const Values x = Ramp(kGroups * kIn * kPixels), w = Ramp(kGroups * kOut * kIn, 0.21, -0.4);
  run.Set(0, x), run.Set(1, w);
  ASSERT_TRUE(run.Go());
  Values want;
  for (int channel = 0; channel < kGroups * kOut; ++channel) {
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      double sum = 0;
      for (int k = 0; k < kIn; ++k) {
        sum += x[size_t((channel / kOut * kIn + k) * kPixels + pixel)] * w[size_t(channel * kIn + k)];
      }
      want.push_back(std::max(0.0, sum));
    }
  }
  ExpectNear(run.Get(), want);
}

/// A transposed convolution of a sequence, as its definition says.
Values Transposed(const Values& x, const Values& w, int in, int out, int length, int window, int stride, int padding) {
  const int results = (length - 1) * stride - 2 * padding + window;
  Values y(size_t(out * results));
  for (int c = 0; c < in; ++c) {
    for (int o = 0; o < out; ++o) {
      for (int i = 0; i < length; ++i) {
        for (int t = 0; t < window; ++t) {
          const int at = i * stride + t - padding;
          if (at < 0 || at >= results) continue;
          y[size_t(o * results + at)] += x[size_t(c * length + i)] * w[size_t((c * out + o) * window + t)];
        }
      }
    }
  }
  return y;
}

TEST(Convolutions, TransposedOnesSumTheTapsOfEachPhase) {
  constexpr int kIn = 3, kOut = 4, kLength = 5;
  struct Case {
    int window, stride, padding;
  };
  for (const auto& [window, stride, padding] :
       {Case{2, 2, 0}, Case{4, 2, 1}, Case{6, 2, 1}, Case{8, 4, 2}, Case{4, 2, 2}, Case{3, 1, 1}, Case{6, 3, 3}}) {
    const int results = (kLength - 1) * stride - 2 * padding + window;
    FusedProgram run(
        fmt::format(R"(graph @f(%x: f32[1, 3, 5] strides [15, 1, 3], %w: f32[3, 4, {0}] strides [1, {1}, 3]) {{
  %0 = aten.conv_transpose1d(%x, %w, none, [{2}], [{3}], [0], 1, [1]) : f32[1, 4, {4}] strides [{5}, 1, 4]
  %1 = aten.neg(%0) : f32[1, 4, {4}] strides [{5}, 1, 4]
  return %1
}})",
                    window, 3 * window, stride, padding, results, 4 * results));
    ExpectOneKernel(run);
    const Values x = Ramp(kIn * kLength), w = Ramp(size_t(kIn * kOut * window), 0.21, -0.4);
    run.Set(0, x), run.Set(1, w);
    ASSERT_TRUE(run.Go());
    Values want = Transposed(x, w, kIn, kOut, kLength, window, stride, padding);
    for (double& value : want) value = -value;
    SCOPED_TRACE(fmt::format("window {}, stride {}, padding {}", window, stride, padding));
    ExpectNear(run.Get(), want);
  }
}

// Each element would be written by itself; a copy of the whole costs less.
TEST(Convolutions, PhasesAreNotWrittenWhereChannelsLieApart) {
  FusedProgram run(R"(graph @f(%x: f32[1, 3, 5] strides [15, 1, 3], %w: f32[3, 4, 4] strides [1, 12, 3]) {
  %0 = aten.conv_transpose1d(%x, %w, none, [2], [1], [0], 1, [1]) : f32[1, 4, 10] strides [40, 1, 4]
  %1 = aten.neg(%0) : f32[1, 4, 10] strides [40, 1, 4]
  %2 = aten.clone(%1, none) : f32[1, 4, 10]
  return %2
})");
  EXPECT_EQ(run.aten_steps(), 0u) << run.KernelText();
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
  const Values x = Ramp(15), w = Ramp(48, 0.21, -0.4);
  run.Set(0, x), run.Set(1, w);
  ASSERT_TRUE(run.Go());
  Values want = Transposed(x, w, 3, 4, 5, 4, 2, 1);
  for (double& value : want) value = -value;
  ExpectNear(run.Get(), want);
  // Where the window steps by one, neighbours are of one phase.
  FusedProgram plain(R"(graph @f(%x: f32[1, 3, 5] strides [15, 1, 3], %w: f32[4, 3, 3]) {
  %0 = aten.conv1d(%x, %w, none, [1], [1], [1], 1) : f32[1, 4, 5] strides [20, 1, 4]
  %1 = aten.clone(%0, none) : f32[1, 4, 5]
  return %1
})");
  EXPECT_EQ(plain.launches(), 1u) << plain.KernelText();
}

TEST(Convolutions, WhatIsLeftToPytorchHasItsReason) {
  const auto reason_of = [](std::string_view inputs, std::string_view call) {
    auto graph = Parse(fmt::format("graph @f({}) {{\n  %0 = {}\n  return %0\n}}", inputs, call));
    std::map<NodeId, std::string> reasons;
    EXPECT_TRUE(graph && Fuse(*graph, &reasons)) << call;
    return reasons.empty() ? std::string() : reasons.begin()->second;
  };
  EXPECT_EQ(reason_of("%x: f32[1, 3, 5] strides [15, 1, 3], %w: f32[3, 4, 3] strides [1, 9, 3]",
                      "aten.conv_transpose1d(%x, %w, none, [2], [1], [1], 1, [1]) : f32[1, 4, 10] strides [40, 1, 4]"),
            "phases of the stride that differ in their taps");
  EXPECT_EQ(reason_of("%x: f32[1, 4, 5] strides [20, 1, 4], %w: f32[8, 2, 1]",
                      "aten.conv1d(%x, %w, none, [1], [0], [1], 2) : f32[1, 8, 5] strides [40, 1, 8]"),
            "few channels in a group");
  EXPECT_EQ(reason_of("%x: bf16[1, 4, 5] strides [20, 1, 4], %w: bf16[8, 4, 1]",
                      "aten.conv1d(%x, %w, none, [1], [0], [1], 1) : bf16[1, 8, 5] strides [40, 1, 8]"),
            "PyTorch's library convolves other types than f32 faster");
  EXPECT_EQ(
      reason_of("%x: f32[1, 4, 5], %w: f32[8, 4, 1]", "aten.conv1d(%x, %w, none, [1], [0], [1], 1) : f32[1, 8, 5]"),
      "channels lie apart");
}

using fusion::Affine;
using fusion::Coords;
using fusion::IterationSpace;

TEST(Domains, AVariableBecomesTwoAndOneAgain) {
  IterationSpace space({Dim(2), Dim(12)});
  const IterationSpace::Shape before = space.shape();
  const Coords whole = space.at(space.identity());
  ASSERT_FALSE(space.Cut(1, Dim(5)));
  ASSERT_TRUE(space.Cut(1, Dim(4)));
  EXPECT_EQ(space.shape().extents, (guards::Dims{Dim(2), Dim(3), Dim(4)}));
  Affine cut;
  cut.AddScaled(Affine::Var(1), Dim(4));
  cut.AddScaled(Affine::Var(2), Dim(1));
  EXPECT_EQ(space.at(space.identity())[1], cut);
  // A value of the old sizes is still the group's own; one that leaves a part out, or takes the parts in another order,
  // is not.
  EXPECT_TRUE(space.IsOwn(space.identity(), {Dim(2), Dim(12)}));
  EXPECT_FALSE(space.IsOwn(space.Intern({Affine::Var(0), Affine::Var(1)}), {Dim(2), Dim(12)}));
  Affine turned;
  turned.AddScaled(Affine::Var(1), Dim(1));
  turned.AddScaled(Affine::Var(2), Dim(4));
  EXPECT_FALSE(space.IsOwn(space.Intern({Affine::Var(0), turned}), {Dim(2), Dim(12)}));
  const IterationSpace::Shape once = space.shape();
  ASSERT_TRUE(space.Cut(2, Dim(2)));
  space.Restore(once);
  EXPECT_EQ(space.at(space.identity())[1], cut);
  space.Restore(before);
  EXPECT_EQ(space.shape().extents, (guards::Dims{Dim(2), Dim(12)}));
  EXPECT_EQ(space.at(space.identity()), whole);
}

}  // namespace
}  // namespace ingot::compiler
