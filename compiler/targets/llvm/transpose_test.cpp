// SPDX-License-Identifier: Apache-2.0
//
// Kernels that transpose: squares, their edges, both directions, all sizes of elements.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/loop/substitute.h"
#include "compiler/targets/llvm/transpose.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;

/// out[b, m, n] = in[b, n, m], and back[b, n, m] = in[b, n, m] + in[b, n, m]; b = 2, m = s0, n = s1.
std::string SquareText(DType dtype) {
  const std::string_view t = guards::NameOf(dtype);
  const std::string_view sum = dtype == DType::kBF16 || dtype == DType::kF16 ? "f32" : t;
  return fmt::format(R"(kernel turn symbols 2 {{
  param p0: in {0}[2*s0*s1]
  param p1: out {0}[2*s0*s1]
  param p2: out {0}[2*s0*s1]
  rows [2, s0]
  loop [s1] {{
    %0 = load p0 [(s0*s1)*i0 + i1 + (s0)*j] : {0}
    store p1 [(s0*s1)*i0 + (s1)*i1 + j] = %0
    %2 = cast %0 : {1}
    %3 = add %2, %2 : {1}
    %4 = cast %3 : {0}
    store p2 [(s0*s1)*i0 + i1 + (s0)*j] = %4
  }}
}}
)",
                     t, sum);
}

class Squares : public testing::TestWithParam<DType> {};

TEST_P(Squares, AgreeWithTheInterpreter) {
  const auto kernel = loop::Parse(SquareText(GetParam()));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  loop::Schedule schedule;
  x86::AddTransposes(*kernel, {64}, schedule);
  EXPECT_EQ(loop::Print(schedule), "tile i 64, j 64; transposed %0, %5");
  const TestKernel test(*kernel);
  for (const int64_t rows : {0, 1, 5, 16, 31, 64, 65, 150}) {
    for (const int64_t columns : {0, 1, 4, 17, 32, 64, 100, 129}) {
      ExpectSameAsInterpreter(test, {rows, columns}, 5 + rows);
      if (HasFailure()) return;
      const Dim sizes[] = {Dim(rows), Dim(columns)};
      if ((rows + columns) % 3 == 0) ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, sizes)), {}, 9);
      if (HasFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Squares,
                         testing::Values(DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64, DType::kI8,
                                         DType::kU8),
                         [](const auto& info) { return std::string(guards::NameOf(info.param)); });

std::string ScheduleOf(std::string_view load) {
  const auto kernel = loop::Parse(fmt::format(R"(kernel turn symbols 2 {{
  param p0: in f32[5*s0*s1]
  param p1: out f32[3*s0*s1]
  rows [3, s0]
  loop [s1] {{
    %0 = index [i1] : i64
    %1 = size (s0 - 1) : i64
    %2 = lt %0, %1 : bool
    %3 = load p0 [{}] : f32
    store p1 [(s0*s1)*i0 + (s1)*i1 + j] = %3
  }}
}}
)",
                                              load));
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  loop::Schedule schedule;
  x86::AddTransposes(*kernel, {64}, schedule);
  return loop::Print(schedule);
}

TEST(AddTransposes, TakesAccessesAlongRowsAlone) {
  EXPECT_EQ(ScheduleOf("(s0*s1)*i0 + i1 + (s0)*j"), "tile i 64, j 64; transposed %3");
  EXPECT_EQ(ScheduleOf("(s0*s1)*i0 + (s1)*i1 + j"), "") << "along j";
  EXPECT_EQ(ScheduleOf("(s0*s1)*i0 + i1"), "") << "the same for all j";
  EXPECT_EQ(ScheduleOf("(s0*s1)*i0 + 2*i1 + (s0)*j"), "") << "neighbouring rows lie apart";
}

constexpr std::string_view kConditional = R"(kernel turn symbols 2 {
  param p0: in f32[s0*s1]
  param p1: out f32[s0*s1]
  rows [s0]
  loop [s1] {
    %0 = index [i0] : i64
    %1 = size (s0 - 1) : i64
    %2 = lt %0, %1 : bool
    %3 = load p0 [i0 + (s0)*j + 1] if %2 : f32
    store p1 [(s1)*i0 + j] = %3
  }
}
)";

TEST(AddTransposes, LeavesWhatMayLieOutside) {
  const auto kernel = loop::Parse(kConditional);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  loop::Schedule schedule;
  x86::AddTransposes(*kernel, {64}, schedule);
  EXPECT_EQ(schedule, loop::Schedule());
  loop::Schedule wrong = schedule;
  wrong.loops = {{16, 1}};
  wrong.transposed = {3};
  wrong.row_tile = wrong.column_tile = 64;
  const Status status = loop::Check(*kernel, wrong);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().ToText(), testing::HasSubstr("neighbouring rows lie apart in memory"));
}

}  // namespace
}  // namespace ingot::compiler
