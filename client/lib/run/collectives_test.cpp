// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "client/lib/run/program.h"
#include "tests/support/client/test_artifacts.h"

namespace ingot::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using Log = std::vector<std::string>;

/// Does its work only when it is waited for, which is when a real one must have done it.
class LateWork : public c10d::Work {
 public:
  explicit LateWork(std::function<void()> finish) : finish_(std::move(finish)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    finish_();
    return true;
  }

 private:
  std::function<void()> finish_;
};

/// Two ranks that hold the same tensors. Reads its operands late.
class LateBackend : public c10d::Backend {
 public:
  LateBackend(std::string name, Log& log) : c10d::Backend(0, 2), name_(std::move(name)), log_(log) {}

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return Start("all_reduce", [tensor = tensors.at(0)] { tensor.mul_(2); });
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::AllgatherOptions& /*options*/) override {
    return Start("all_gather",
                 [output = outputs.at(0), input = inputs.at(0)] { output.copy_(at::cat({input, input})); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> Start(const std::string& what, std::function<void()> finish) {
    log_.push_back(name_ + " " + what);
    return c10::make_intrusive<LateWork>([this, what, finish = std::move(finish)] {
      log_.push_back(name_ + " waited " + what);
      finish();
    });
  }

  std::string name_;
  Log& log_;
};

class Collectives : public ::testing::TestWithParam<bool> {
 protected:
  ~Collectives() override { c10d::unregister_all_process_groups(); }

  void Register(const std::string& name, const std::string& group) {
    auto made = c10::make_intrusive<c10d::ProcessGroup>(0, 2);
    made->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                     c10::make_intrusive<LateBackend>(group, log_));
    c10d::register_process_group(name, made);
    groups_.push_back(std::move(made));
  }
  Result<std::shared_ptr<Program>> Bind(std::string_view text, std::vector<std::string> names) {
    const Buffer bytes = GetParam() ? CompiledArtifact(text) : AtenArtifact(text);
    TRY_ASSIGN(auto artifact, LoadedArtifact::Open(Bytes(bytes)));
    TRY_ASSIGN(ProcessGroups groups, ProcessGroups::Find(std::move(names)));
    return Program::Bind(std::move(artifact), {}, std::move(groups));
  }
  RunOutcome Run(Program& program, const Tensors& inputs) {
    std::vector<const at::Tensor*> pointers;
    for (const at::Tensor& input : inputs) pointers.push_back(&input);
    return program.Run(pointers.data(), pointers.size(), outputs_, failure_);
  }

  Log log_;
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups_;
  Tensors outputs_;
  RunFailure failure_;
};
INSTANTIATE_TEST_SUITE_P(, Collectives, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "compiled" : "aten"; });

constexpr std::string_view kOverlap = R"(graph @f(%x: f32[64]) {
  %h = aten.tanh(%x) : f32[64]
  %g = _c10d_functional.all_gather_into_tensor(%h, 2, "group 0") {opaque} : f32[128]
  %r = _c10d_functional.all_reduce(%h, "sum", "group 1") {opaque} : f32[64]
  %a = aten.sigmoid(%h) : f32[64]
  %b = aten.cumsum(%a, 0, none) : f32[64]
  %c = aten.cumsum(%b, 0, none) : f32[64]
  %d = aten.cumsum(%c, 0, none) : f32[64]
  %s = _c10d_functional.wait_tensor(%r, [%h]) {opaque} : f32[64]
  %e = aten.exp(%s) : f32[64]
  %w = _c10d_functional.wait_tensor(%g, [%h]) {opaque} : f32[128]
  %v = aten.mul.Tensor(%w, number 3) : f32[128]
  return %v, %e, %d
}
)";

TEST_P(Collectives, KeepTheirOrderAndWhatTheyStillRead) {
  Register("3", "first");
  Register("8", "second");
  auto program = Bind(kOverlap, {"3", "8"});
  ASSERT_TRUE(program) << program.error().ToText();
  for (int i = 0; i < 3; ++i) {
    log_.clear();
    const at::Tensor x = at::randn({64});
    ASSERT_EQ(Run(**program, {x}), RunOutcome::kServed) << failure_.why;
    EXPECT_THAT(log_, ElementsAre("first all_gather", "second all_reduce", "second waited all_reduce",
                                  "first waited all_gather"));
    const at::Tensor h = at::tanh(x);
    EXPECT_TRUE(at::allclose(outputs_[0], at::cat({h, h}) * 3, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(outputs_[1], at::exp(h * 2), 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(outputs_[2], h.sigmoid().cumsum(0).cumsum(0).cumsum(0), 1e-4, 1e-4));
  }
}

constexpr std::string_view kSum = R"(graph @f(%x: f32[4], %i: i64[1]) {
  %r = _c10d_functional.all_reduce(%x, "sum", "group 0") {opaque} : f32[4]
  %s = _c10d_functional.wait_tensor(%r, [%x]) {opaque} : f32[4]
  %p = aten.index_select(%s, 0, %i) : f32[1]
  return %p
}
)";

TEST_P(Collectives, BindToGroupsThatExist) {
  Register("1", "pair");
  const auto missing = Bind(kSum, {"2"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("no process group is called '2'"));
  const auto none = Bind(kSum, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kIncompatible);
  EXPECT_THAT(none.error().message(), HasSubstr("0 process groups are bound, the artifact needs 1"));
}

TEST_P(Collectives, EndWithTheGroupTheyWereBoundTo) {
  Register("1", "pair");
  auto program = Bind(kSum, {"1"});
  ASSERT_TRUE(program) << program.error().ToText();
  const Tensors inputs = {at::ones({4}), at::ones({1}, at::kLong)};
  EXPECT_EQ(Run(**program, inputs), RunOutcome::kServed) << failure_.why;
  EXPECT_TRUE((*program)->GroupsHold());
  c10d::unregister_process_group("1");
  log_.clear();
  EXPECT_FALSE((*program)->GroupsHold());
  EXPECT_EQ(Run(**program, inputs), RunOutcome::kWeightChanged);
  Register("1", "another");
  EXPECT_EQ(Run(**program, inputs), RunOutcome::kWeightChanged);
  EXPECT_TRUE(log_.empty());
}

// Eager would take part in the collective a second time.
TEST_P(Collectives, AreNotRepeatedWhenALaterStepFails) {
  Register("1", "pair");
  auto program = Bind(kSum, {"1"});
  ASSERT_TRUE(program) << program.error().ToText();
  EXPECT_EQ(Run(**program, {at::ones({4}), at::full({1}, 9, at::kLong)}), RunOutcome::kFailedAfterWrite);
  EXPECT_FALSE(failure_.why.empty());
}

// The memory of both belongs to the next call.
TEST_P(Collectives, EndWithACallThatFails) {
  Register("1", "pair");
  auto program = Bind(R"(graph @f(%x: f32[4]) {
    %h = aten.tanh(%x) : f32[4]
    %r = _c10d_functional.all_reduce(%h, "sum", "group 0") {opaque} : f32[4]
    %p = aten.narrow_copy(%x, 0, 0, 9) : f32[9]
    %s = _c10d_functional.wait_tensor(%r, [%h]) {opaque} : f32[4]
    return %s, %p
  })",
                      {"1"});
  ASSERT_TRUE(program) << program.error().ToText();
  EXPECT_EQ(Run(**program, {at::ones({4})}), RunOutcome::kFailedAfterWrite);
  EXPECT_THAT(log_, ElementsAre("pair all_reduce", "pair waited all_reduce"));
}

TEST(CollectivePlan, RefusesAGuardBehindACollective) {
  auto graph = compiler::Parse(R"(graph @f(%x: f32[4]) {
    %r = _c10d_functional.all_reduce(%x, "sum", "group 0") {opaque} : f32[4]
    %s = _c10d_functional.wait_tensor(%r, [%x]) {opaque} : f32[4]
    %t = aten.sum(%s, none) : f32[]
    guard.equal(%t, number 4)
    return %s
  })");
  ASSERT_TRUE(graph) << graph.error().ToText();
  auto target = compiler::TargetSpec::Host();
  ASSERT_TRUE(target);
  const auto artifact = compiler::Compile(*graph, {.target = *target});
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), Code::kUnsupported);
  EXPECT_THAT(artifact.error().message(), HasSubstr("could part the ranks"));
}

TEST(CollectivePlan, RefusesASlotThatTheManifestDoesNotCount) {
  auto graph = compiler::Parse(kSum);
  ASSERT_TRUE(graph) << graph.error().ToText();
  compiler::Fused fused;
  for (const compiler::NodeId id : graph->order()) fused.steps.push_back({false, 0, id});
  auto plan = compiler::BuildPlan(*graph, fused, {});
  ASSERT_TRUE(plan) << plan.error().ToText();
  plan->groups = 0;
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &*plan));
  const Buffer bytes = proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, {}, {}});
  auto artifact = LoadedArtifact::Open(Bytes(bytes));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  const auto program = Program::Bind(*artifact, {});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code(), Code::kCorrupt);
  EXPECT_THAT(program.error().message(), HasSubstr("'group 0' is no process group of the artifact"));
}

}  // namespace
}  // namespace ingot::client
