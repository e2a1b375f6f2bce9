// SPDX-License-Identifier: Apache-2.0
#include "compiler/prove.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/loop/exactness.h"
#include "compiler/loop/substitute.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using testing::HasSubstr;

constexpr uint64_t kWork = 10'000'000;

loop::Kernel KernelOf(const std::string& text) {
  auto kernel = loop::Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  return *kernel;
}

/// The proof of what is claimed by the code of `made`, a kernel each.
Result<ProofReport> Prove(const Fused& claimed, std::span<const loop::Kernel> made, uint64_t work = kWork) {
  TRY_ASSIGN(const TargetSpec spec, TargetSpec::Host());
  TRY_ASSIGN(const std::unique_ptr<Target> target, Target::Make(spec));
  std::vector<Object> objects;
  for (const loop::Kernel& kernel : made) {
    TRY_ASSIGN(Object object, target->Emit(kernel, target->Schedules(kernel).front()));
    objects.push_back(std::move(object));
  }
  TRY_ASSIGN(const std::unique_ptr<Runner> runner, target->Load(objects));
  return ProveKernels(*runner, claimed, objects, work);
}

Result<ProofReport> Prove(const loop::Kernel& claimed, const loop::Kernel& made, uint64_t work = kWork) {
  Fused fused;
  fused.kernels.push_back(claimed);
  return Prove(fused, {&made, 1}, work);
}

/// out = x > bound, over f32[64, 256].
loop::Kernel Above(double bound) {
  return KernelOf(fmt::format(R"(kernel above symbols 0 {{
  param p0: in f32[16384]
  param p1: out bool[16384]
  rows [64]
  loop [256] {{
    %0 = load p0 [256*i0 + j] : f32
    %1 = const {} : f32
    %2 = gt %0, %1 : bool
    store p1 [256*i0 + j] = %2
  }}
}}
)",
                              bound));
}

/// A copy of f32[8, 8, 256] whose outer rows are written `stride` elements apart.
loop::Kernel Rows(int64_t stride) {
  return KernelOf(fmt::format(R"(kernel rows symbols 0 {{
  param p0: in f32[16384]
  param p1: out f32[16384]
  rows [8, 8]
  loop [256] {{
    %0 = load p0 [2048*i0 + 256*i1 + j] : f32
    store p1 [{}*i0 + 256*i1 + j] = %0
  }}
}}
)",
                              stride));
}

// Of random inputs one in a hundred tells the two apart: a share that may differ would let it through.
TEST(Prove, RefusesADecisionThatIsSeldomWrong) {
  ASSERT_TRUE(Prove(Above(0.96), Above(0.96)));
  const auto report = Prove(Above(0.96), Above(0.98));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message(), HasSubstr("parameter 1 differs"));
}

// The first rows look alike, the last do not.
TEST(Prove, RunsTheLastRowsToo) {
  ASSERT_TRUE(Prove(Rows(2048), Rows(2048)));
  EXPECT_FALSE(Prove(Rows(2048), Rows(1792)));
}

/// out[i] = table[index[i]], where an index is one of `count`.
loop::Kernel Gather(int count) {
  return KernelOf(fmt::format(R"(kernel gather symbols 0 {{
  param p0: in f32[2]
  param p1: in i32[64]
  param p2: out f32[64]
  rows [64]
  row {{
    %0 = load p1 [i0] : i32
    %1 = cast %0 within ({}) : i64
    %2 = load p0 [%1] : f32
    store p2 [i0] = %2
  }}
}}
)",
                              count));
}

TEST(Prove, FindsCodeThatRefusesAnIndexThatThereIs) {
  ASSERT_TRUE(Prove(Gather(2), Gather(2)));
  const auto report = Prove(Gather(2), Gather(1));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kInternal);
}

TEST(Prove, TriesTheFirstRowOfATableThatHasNoOther) {
  const auto report = Prove(Gather(1), Gather(1));
  ASSERT_TRUE(report) << report.error().ToText();
  EXPECT_GT(report->kernels[0].rows_run, 0);
  EXPECT_EQ(report->kernels[0].skipped, "");
}

// Neither tolerance nor a nudge of the inputs excuses a copy.
TEST(Prove, ComparesExactResultsBitForBit) {
  const auto scaled = [](double factor) {
    return KernelOf(fmt::format(R"(kernel scaled symbols 1 {{
  param p0: in f32[s0]
  param p1: out f32[s0]
  rows []
  loop [s0] {{
    %0 = load p0 [j] : f32
    %1 = const {} : f32
    %2 = mul %0, %1 : f32
    store p1 [j] = %2
  }}
}}
)",
                                factor));
  };
  ASSERT_TRUE(Prove(scaled(1.0), scaled(1.0)));
  EXPECT_FALSE(Prove(scaled(1.0), scaled(1.0000001192092896)));
}

// By its own loops it would be right at any size that it is said to be of.
TEST(Prove, HoldsCodeForSomeSizesAgainstTheGeneralKernel) {
  const loop::Kernel general = KernelOf(R"(kernel twice symbols 1 {
  param p0: in f32[s0]
  param p1: out f32[s0]
  rows []
  loop [s0] {
    %0 = load p0 [j] : f32
    %1 = add %0, %0 : f32
    store p1 [j] = %1
  }
}
)");
  Fused fused;
  fused.kernels = {general, loop::Substitute(general, Dims{Dim(24)})};
  fused.deciding = {{0}};
  fused.specials = {{0, {24}, 1}};
  const auto right = Prove(fused, fused.kernels);
  ASSERT_TRUE(right) << right.error().ToText();
  EXPECT_EQ(right->proved, 2);
  fused.specials[0].values = {40};
  const auto wrong = Prove(fused, fused.kernels);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("proof of kernel twice"));
}

TEST(Prove, SaysWhatItRanAndWhatNot) {
  const auto ran = Prove(Above(0.5), Above(0.5));
  ASSERT_TRUE(ran) << ran.error().ToText();
  ASSERT_EQ(ran->kernels.size(), 1);
  EXPECT_EQ(ran->proved, 1);
  EXPECT_EQ(ran->kernels[0].rows, 64);
  EXPECT_EQ(ran->kernels[0].rows_run, 4);
  EXPECT_EQ(ran->kernels[0].skipped, "");
  const auto skipped = Prove(Above(0.5), Above(0.5), 100);
  ASSERT_TRUE(skipped) << skipped.error().ToText();
  EXPECT_EQ(skipped->proved, 0);
  EXPECT_EQ(skipped->kernels[0].rows_run, 0);
  EXPECT_THAT(skipped->kernels[0].skipped, HasSubstr("100 were left"));
}

TEST(Exactness, FollowsValuesToResults) {
  const auto of = [](const std::string& body, const std::string& dtype) {
    return loop::FindExactness(KernelOf(fmt::format(R"(kernel k symbols 0 {{
  param p0: in f32[16]
  param p1: out {}[16]
  buffer b0: f32[16]
  rows []
  loop [16] {{
    %0 = load p0 [j] : f32
{}
  }}
}}
)",
                                                    dtype, body)))[1];
  };
  const loop::Exactness copied = of("    %1 = add %0, %0 : f32\n    store p1 [j] = %1", "f32");
  EXPECT_TRUE(copied.is_exact);
  const loop::Exactness rounded = of("    %1 = exp %0 : f32\n    %2 = add %1, %0 : f32\n    store p1 [j] = %2", "f32");
  EXPECT_FALSE(rounded.is_exact);
  EXPECT_FALSE(rounded.has_steps);
  const loop::Exactness decided = of("    %1 = exp %0 : f32\n    %2 = gt %1, %0 : bool\n    store p1 [j] = %2", "bool");
  EXPECT_FALSE(decided.is_exact);
  EXPECT_TRUE(decided.has_steps);
  const loop::Exactness kept =
      of("    %1 = exp %0 : f32\n    store b0 [j] = %1\n    %3 = load b0 [j] : f32\n    store p1 [j] = %3", "f32");
  EXPECT_FALSE(kept.is_exact);
}

}  // namespace
}  // namespace ingot::compiler
