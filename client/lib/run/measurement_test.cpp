// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/measurement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "client/lib/run/program.h"
#include "client/lib/run/roofs.h"
#include "tests/support/client/test_artifacts.h"

namespace ingot::client {
namespace {

constexpr std::string_view kTemplate = R"(graph @f(%x: f32[s0, 16]) symbols(s0 = %x.dim(0)) {
  %0 = aten.exp(%x) : f32[s0, 16]
  %1, %2 = aten.sort(%0, -1, false) : f32[s0, 16], i64[s0, 16]
  return %1
}
)";

std::shared_ptr<Program> Bound(const Buffer& bytes) {
  auto artifact = LoadedArtifact::Open(Bytes(bytes));
  EXPECT_TRUE(artifact) << artifact.error().ToText();
  auto program = Program::Bind(*artifact, {});
  EXPECT_TRUE(program) << program.error().ToText();
  return *program;
}

RunOutcome RunOnce(Program& program, const at::Tensor& input) {
  const at::Tensor* const inputs[] = {&input};
  std::vector<at::Tensor> outputs;
  RunFailure failure;
  return program.Run(inputs, 1, outputs, failure);
}

TEST(Measurement, SeesEachStepOfServedCallsAndNoOthers) {
  const auto program = Bound(CompiledArtifact(kTemplate)), other = Bound(CompiledArtifact(kTemplate));
  EXPECT_NE(program->number(), other->number());
  ASSERT_EQ(RunOnce(*program, at::randn({4, 16})), RunOutcome::kServed);
  EXPECT_FALSE(Measurement::IsUnderWay());
  const auto all = Measurement::Begin(100), two = Measurement::Begin(2);
  EXPECT_TRUE(Measurement::IsUnderWay());
  for (const int64_t rows : {4, 9, 9}) EXPECT_EQ(RunOnce(*program, at::randn({rows, 16})), RunOutcome::kServed);
  EXPECT_EQ(RunOnce(*program, at::randn({4, 15})), RunOutcome::kGuardFailed);
  two->End();
  EXPECT_EQ(RunOnce(*other, at::randn({1, 16})), RunOutcome::kServed);
  all->End();
  EXPECT_EQ(RunOnce(*other, at::randn({1, 16})), RunOutcome::kServed);
  EXPECT_FALSE(Measurement::IsUnderWay());

  const auto seen = all->Seen();
  ASSERT_EQ(seen.size(), 2u);
  const MeasuredProgram& of = seen.at(program->number());
  ASSERT_EQ(of.calls.size(), 3u);
  EXPECT_EQ(seen.at(other->number()).calls.size(), 1u);
  EXPECT_EQ(of.calls[0].symbols, (std::vector<int64_t>{4}));
  EXPECT_EQ(of.calls[2].symbols, (std::vector<int64_t>{9}));
  for (const MeasuredCall& call : of.calls) {
    EXPECT_EQ(call.thread, gettid());
    ASSERT_EQ(call.marks.size(), of.image->step_count() + 1);
    EXPECT_TRUE(std::ranges::is_sorted(call.marks));
    EXPECT_LE(call.begin_ns, call.marks.front());
    EXPECT_LE(call.marks.back(), call.end_ns);
  }
  const auto kept = two->Seen();
  EXPECT_EQ(kept.at(program->number()).calls.size(), 2u);
  EXPECT_EQ(kept.at(program->number()).left_out, 1u);
}

TEST(Measurement, DescribesStepsAtEachSize) {
  const auto program = Bound(CompiledArtifact(kTemplate));
  const auto measurement = Measurement::Begin(1);
  ASSERT_EQ(RunOnce(*program, at::randn({4, 16})), RunOutcome::kServed);
  const auto image = measurement->Seen().begin()->second.image;
  for (const int64_t rows : {1, 4, 1000}) {
    const std::vector<int64_t> symbols = {rows};
    const auto steps = DescribeSteps(*image, symbols);
    ASSERT_EQ(steps.size(), image->step_count());
    EXPECT_EQ(steps[0].kind, "kernel");
    EXPECT_EQ(steps[0].name, "k0_exp");
    EXPECT_TRUE(steps[0].symbol.starts_with("ingot_k_"));
    EXPECT_EQ(steps[0].flops, rows * 16);
    EXPECT_EQ(steps[0].read_bytes, rows * 64);
    EXPECT_EQ(steps[0].written_bytes, rows * 64);
    EXPECT_EQ(steps[0].dtype, "f32");
    EXPECT_EQ(steps[1].name, "aten::sort");
    EXPECT_EQ(steps[1].flops, -1);
    EXPECT_EQ(steps[1].written_bytes, rows * 16 * 12);
  }
}

// Code of a gear is another symbol that does the same.
TEST(Measurement, NamesTheKernelThatRunsAtASize) {
  const auto program = Bound(CompiledArtifact(R"(graph @f(%x: f32[64, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.softmax.int(%x, 1, none) : f32[64, s0]
  return %0
}
)",
                                              {{8}}));
  const auto measurement = Measurement::Begin(1);
  ASSERT_EQ(RunOnce(*program, at::randn({64, 8})), RunOutcome::kServed);
  const auto image = measurement->Seen().begin()->second.image;
  const auto at = [&](int64_t columns) { return DescribeSteps(*image, std::vector<int64_t>{columns})[0]; };
  ASSERT_EQ(program->artifact().manifest().kernels()->size(), 2u) << "no code of its own for the gear";
  EXPECT_NE(at(8).symbol, at(9).symbol);
  EXPECT_EQ(at(8).name, at(9).name);
  EXPECT_EQ(at(8).flops, 64 * (5 * 8 + 1));
}

TEST(Roofs, AreThereForAnyNumberOfThreads) {
  for (const int threads : {-1, 1, 2}) {
    const Roofs roofs = MeasureRoofs(threads);
    EXPECT_GT(roofs.read_bytes, 0);
    EXPECT_GT(roofs.copy_bytes, 0);
    EXPECT_GT(roofs.f32_flops, 0);
    EXPECT_GE(roofs.bf16_flops, 0);
  }
}

}  // namespace
}  // namespace ingot::client
