// SPDX-License-Identifier: Apache-2.0
//
// Contractions over windows: what lies outside an image, pieces of channels, and rows counted over several dims.
#include <fmt/format.h>

#include <vector>

#include "compiler/loop/schedule.h"
#include "compiler/loop/substitute.h"
#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/llvm/schedules.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

/// result[b, h, w, n] = sum over c, r, s of x[b, c, h * stride + r - pad, w * stride + s - pad] * weight[n, c, r, s],
/// of b = s0 images of c = s1 channels with s2 rows and s3 columns, for n = s4, windows of 3 by 2.
struct Convolution {
  std::string name;
  bool is_padded = true;
  bool has_channels_last = true;  ///< of the images
  bool weight_has_channels_last = false;
  bool checks_channels = false;  ///< a condition on what is cut in pieces, too
  int64_t stride = 1;
};

std::string TextOf(const Convolution& c) {
  const int64_t pad = c.is_padded ? 1 : 0, s = c.stride;
  const Dim h = Dim(s) * Dim::Symbol(2) + Dim(3 - s - 2 * pad), w = Dim(s) * Dim::Symbol(3) + Dim(2 - s - 2 * pad);
  const Dim channels = Dim::Symbol(1);
  const Dim step_c = c.has_channels_last ? Dim(1) : h * w, step_w = c.has_channels_last ? channels : Dim(1);
  const Dim step_h = step_w * w, step_b = h * w * channels;
  const Dim weight_c = c.weight_has_channels_last ? Dim(1) : Dim(6);
  const Dim weight_s = c.weight_has_channels_last ? channels : Dim(1), weight_r = Dim(2) * weight_s;
  const auto text = [](const Dim& d) { return "(" + d.ToText() + ")"; };
  std::string out = fmt::format(
      "kernel conv symbols 5 {{\n  param p0: in f32[{}]\n  param p1: in f32[6*s1*s4]\n  param p2: out "
      "f32[s0*s2*s3*s4]\n"
      "  buffer b0: f32[s4]\n  rows [s0, s2, s3]\n  contract [s4, 3, 2, s1] into b0 {{\n",
      (Dim::Symbol(0) * step_b).ToText());
  out += fmt::format(
      "    %0 = index [{}*i1 + k0 + ({})] : i64\n    %1 = const 0 : i64\n    %2 = ge %0, %1 : bool\n"
      "    %3 = size ({}) : i64\n    %4 = lt %0, %3 : bool\n    %5 = and %2, %4 : bool\n"
      "    %6 = index [{}*i2 + k1 + ({})] : i64\n    %7 = ge %6, %1 : bool\n    %8 = size ({}) : i64\n"
      "    %9 = lt %6, %8 : bool\n    %10 = and %7, %9 : bool\n    %11 = and %5, %10 : bool\n",
      s, -pad, h.ToText(), s, -pad, w.ToText());
  out += fmt::format(
      "    %12 = index [k2] : i64\n    %13 = const 1 : i64\n    %14 = ge %12, %13 : bool\n    %15 = and %11, %14 : "
      "bool\n"
      "    %16 = load p0 [{}*i0 + {}*i1 + {}*i2 + {}*k0 + {}*k1 + {}*k2 + {}]{} : f32\n",
      text(step_b), text(Dim(s) * step_h), text(Dim(s) * step_w), text(step_h), text(step_w), text(step_c),
      text(Dim(-pad) * (step_h + step_w)),
      c.checks_channels ? " if %15"
      : c.is_padded     ? " if %11"
                        : "");
  out += fmt::format(
      "    %17 = load p1 [(6*s1)*j + {}*k0 + {}*k1 + {}*k2] : f32\n    %18 = reduce_dot %16, %17 : f32\n  }}\n"
      "  loop [s4] {{\n    %19 = load b0 [j] : f32\n    store p2 [(s2*s3*s4)*i0 + (s3*s4)*i1 + (s4)*i2 + j] = %19\n  "
      "}}\n}}\n",
      text(weight_r), text(weight_s), text(weight_c));
  return out;
}

class Windows : public testing::TestWithParam<Convolution> {};

TEST_P(Windows, AgreeWithTheInterpreter) {
  const auto kernel = loop::Parse(TextOf(GetParam()));
  ASSERT_TRUE(kernel) << kernel.error().ToText() << TextOf(GetParam());
  const TestKernel test(*kernel);
  constexpr int64_t kSizes[][5] = {{1, 3, 5, 4, 8},   {2, 17, 3, 6, 33}, {1, 64, 7, 7, 20}, {1, 1, 4, 9, 5},
                                   {1, 200, 2, 3, 7}, {1, 5, 30, 9, 70}, {0, 3, 4, 4, 4},   {1, 2, 6, 5, 0}};
  for (const auto& [b, c, h, w, n] : kSizes) {
    ExpectSameAsInterpreter(test, {b, c, h, w, n}, 7 + n, c < 64, 1e-5 * static_cast<double>(6 * c));
    if (HasFailure()) return;
    const Dim sizes[] = {Dim(b), Dim(c), Dim(h), Dim(w), Dim(n)};
    ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, sizes)), {}, 3 + n, false,
                            1e-5 * static_cast<double>(6 * c));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Windows,
                         testing::Values(Convolution{"Padded"}, Convolution{"Plain", false},
                                         Convolution{"ChannelsApart", true, false},
                                         Convolution{"WeightWithChannelsLast", true, true, true},
                                         Convolution{"ConditionOnPieces", true, true, false, true},
                                         Convolution{"Steps", true, true, false, false, 2},
                                         Convolution{"StepsChannelsApart", false, false, true, false, 3}),
                         [](const auto& info) { return info.param.name; });

// Rows of an image are few where it is small: tiles count over all of them, and images.
TEST(Window, TilesCountOverAllRowsThatShareWeights) {
  const auto kernel = loop::Parse(TextOf({"Padded"}));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  x86::VectorUnit unit;
  unit.bytes = 64;
  const Dim sizes[] = {Dim(4), Dim(512), Dim(7), Dim(7), Dim(512)};
  const loop::Kernel at = loop::Substitute(*kernel, sizes);
  const loop::Schedule schedule = x86::ScheduleOf(at, unit);
  EXPECT_EQ(schedule.row_dims, 3U);
  EXPECT_TRUE(loop::Check(at, schedule));
  EXPECT_NE(loop::Print(schedule).find("over 3 dims"), std::string::npos) << loop::Print(schedule);
  // All tasks together compute each row once.
  int64_t rows = 0;
  for (int64_t task = 0; rows < 4 * 49; ++task) {
    const loop::Window window = loop::WindowOf(at, schedule, {}, task);
    EXPECT_EQ(window.row_begin, rows);
    ASSERT_GT(window.row_end, rows);
    rows = window.row_end;
  }
  EXPECT_EQ(rows, 4 * 49);
  loop::Schedule wrong = schedule;
  wrong.row_dims = 4;
  EXPECT_FALSE(loop::Check(at, wrong));
  wrong = schedule;
  wrong.contractions[0].packing.from = 0;
  EXPECT_FALSE(loop::Check(at, wrong)) << "no other way reads under a condition";
}

TEST(Window, RowsThatReadFewNeighboursAreGathered) {
  const auto schedule_of = [](const Convolution& c, int64_t channels) {
    const auto kernel = loop::Parse(TextOf(c));
    EXPECT_TRUE(kernel) << kernel.error().ToText();
    x86::VectorUnit unit;
    unit.bytes = 64;
    const Dim sizes[] = {Dim::Symbol(0), Dim(channels), Dim::Symbol(1), Dim::Symbol(2), Dim(64)};
    return loop::Print(x86::ScheduleOf(loop::Substitute(*kernel, sizes), unit));
  };
  constexpr std::string_view kGathered = "rows gathered";
  EXPECT_NE(schedule_of({"ChannelsApart", true, false}, 3).find(kGathered), std::string::npos);
  EXPECT_NE(schedule_of({"WeightWithChannelsLast", true, true, true}, 3).find(kGathered), std::string::npos);
  EXPECT_NE(schedule_of({"Plain", false, false}, 3).find(kGathered), std::string::npos);
  EXPECT_EQ(schedule_of({"Padded"}, 64).find(kGathered), std::string::npos) << "neighbours are many";
  EXPECT_EQ(schedule_of({"Padded"}, 5).find(kGathered), std::string::npos) << "neighbours lie too far apart";
}

}  // namespace
}  // namespace ingot::compiler
