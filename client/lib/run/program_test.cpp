// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/program.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include <torch/library.h>
#include "tests/support/client/test_artifacts.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;

using Tensors = std::vector<at::Tensor>;

/// Whether every node stays an ATen call, or the compiler makes what it can of the graph.
class Programs : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Program> Make(std::string_view text, Tensors weights = {}) {
    const Buffer bytes = GetParam() ? CompiledArtifact(text) : AtenArtifact(text);
    auto artifact = LoadedArtifact::Open(Bytes(bytes));
    EXPECT_TRUE(artifact) << artifact.error().ToText();
    if (!artifact) return nullptr;
    auto program = Program::Bind(*artifact, std::move(weights));
    EXPECT_TRUE(program) << program.error().ToText();
    return program ? *program : nullptr;
  }

  static RunOutcome Run(Program& program, const Tensors& inputs, Tensors& outputs, RunFailure& failure) {
    std::vector<const at::Tensor*> pointers;
    for (const at::Tensor& input : inputs) pointers.push_back(&input);
    return program.Run(pointers.data(), pointers.size(), outputs, failure);
  }
  static Tensors Serve(Program& program, const Tensors& inputs) {
    Tensors outputs;
    RunFailure failure;
    const RunOutcome outcome = Run(program, inputs, outputs, failure);
    EXPECT_EQ(outcome, RunOutcome::kServed) << failure.why << Explain(program, inputs);
    return outputs;
  }
  static std::string Explain(const Program& program, const Tensors& inputs) {
    std::vector<const at::Tensor*> pointers;
    for (const at::Tensor& input : inputs) pointers.push_back(&input);
    return program.Explain(pointers.data(), pointers.size());
  }
  static void ExpectClose(const at::Tensor& found, const at::Tensor& expected) {
    EXPECT_EQ(found.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-6)) << found << "\nexpected\n" << expected;
  }
};
INSTANTIATE_TEST_SUITE_P(, Programs, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "compiled" : "aten"; });

/// What a user's library registers: writes its argument, and raises where that has become too large.
void DoubleBelow(at::Tensor x, double limit) {
  x.mul_(2);
  TORCH_CHECK(x.max().item<double>() < limit, "not below ", limit);
}

constexpr std::string_view kPointwise = R"(graph @f(%x: f32[4, 16], %y: f32[4, 16], %w: f32[16] weight "w") {
  %0 = aten.silu(%x) : f32[4, 16]
  %1 = aten.mul.Tensor(%0, %y) : f32[4, 16]
  %2 = aten.add.Tensor(%1, %w, number 1) : f32[4, 16]
  return %2
}
)";

TEST_P(Programs, ComputePointwise) {
  const at::Tensor w = at::randn({16});
  auto program = Make(kPointwise, {w});
  ASSERT_TRUE(program);
  const RunCounts before = TotalCounts();
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({4, 16}), y = at::randn({4, 16});
    const Tensors outputs = Serve(*program, {x, y});
    ASSERT_EQ(outputs.size(), 1u);
    ExpectClose(outputs[0], at::silu(x) * y + w);
    EXPECT_FALSE(outputs[0].is_inference());
    EXPECT_FALSE(outputs[0].requires_grad());
  }
  EXPECT_EQ(program->counts().calls, 3u);
  EXPECT_EQ(program->counts().native_steps, GetParam() ? 3u : 0u);
  program.reset();  // What it did still counts.
  EXPECT_EQ(TotalCounts().calls - before.calls, 3u);
}

TEST_P(Programs, RunLinearOnThreeDimensions) {
  const at::Tensor w = at::randn({8, 16}), b = at::randn({8});
  auto program = Make(R"(graph @f(%x: f32[2, 3, 16], %w: f32[8, 16] weight "w", %b: f32[8] weight "b") {
    %0 = aten.linear(%x, %w, %b) : f32[2, 3, 8]
    %1 = aten.relu(%0) : f32[2, 3, 8]
    %2 = aten.linear(%x, %w, none) : f32[2, 3, 8]
    return %1, %2
  })",
                      {w, b});
  ASSERT_TRUE(program);
  const at::Tensor x = at::randn({2, 3, 16});
  const Tensors outputs = Serve(*program, {x});
  ASSERT_EQ(outputs.size(), 2u);
  ExpectClose(outputs[0], at::relu(at::linear(x, w, b)));
  ExpectClose(outputs[1], at::linear(x, w));
}

TEST_P(Programs, FollowViewsAndSeveralResults) {
  auto program = Make(R"(graph @f(%x: f32[4, 6]) {
    %a, %b = aten.split.Tensor(%x, 3, 1) : f32[4, 3] strides [6, 1], f32[4, 3] strides [6, 1]
    %t = aten.transpose.int(%b, 0, 1) : f32[3, 4] strides [1, 6]
    %m = aten.mm(%a, %t) : f32[4, 4]
    %s = aten.select.int(%m, 0, 3) : f32[4]
    %v, %i = aten.topk(%m, 2, -1, true, true) : f32[4, 2], i64[4, 2]
    return %m, %s, %v, %i
  })");
  ASSERT_TRUE(program);
  const at::Tensor x = at::randn({4, 6});
  const Tensors outputs = Serve(*program, {x});
  ASSERT_EQ(outputs.size(), 4u);
  const at::Tensor m = at::mm(x.slice(1, 0, 3), x.slice(1, 3, 6).t());
  ExpectClose(outputs[0], m);
  ExpectClose(outputs[1], m.select(0, -1));
  EXPECT_TRUE(outputs[1].storage().is_alias_of(outputs[0].storage()));
  ExpectClose(outputs[2], std::get<0>(m.topk(2)));
  EXPECT_TRUE(at::equal(outputs[3], std::get<1>(m.topk(2))));
}

TEST_P(Programs, ServeEverySizeOfATemplate) {
  const at::Tensor w = at::randn({8, 8});
  auto program = Make(R"(graph @f(%x: f32[s0, 8], %y: f32[s0, 8], %w: f32[8, 8] weight "w") symbols(s0 = %x.dim(0)) {
    %0 = aten.add.Tensor(%x, %y, number 1) : f32[s0, 8]
    %1 = aten.mm(%0, %w) : f32[s0, 8]
    %2 = aten.sigmoid(%1) : f32[s0, 8]
    return %2
  })",
                      {w});
  ASSERT_TRUE(program);
  for (const int64_t rows : {3, 500, 3, 1, 4000, 0, 7}) {
    const at::Tensor x = at::randn({rows, 8}), y = at::randn({rows, 8});
    const Tensors outputs = Serve(*program, {x, y});
    ExpectClose(outputs[0], at::sigmoid(at::mm(x + y, w)));
  }
  EXPECT_THAT(Explain(*program, {at::randn({3, 8}), at::randn({4, 8})}),
              HasSubstr("input 'y': size 4 at dim 0, this variant needs 3"));
}

TEST_P(Programs, KeepAnInstanceOfEverySizeWhileTheArenaGrows) {
  auto program = Make(R"(graph @f(%x: f32[s0, 8], %w: f32[8, 8] weight "w") symbols(s0 = %x.dim(0)) {
    %0 = aten.sigmoid(%x) : f32[s0, 8]
    %1 = aten.mm(%0, %w) : f32[s0, 8]
    %2 = aten.mm(%1, %w) : f32[s0, 8]
    return %2
  })",
                      {at::eye(8)});
  ASSERT_TRUE(program);
  // More sizes than are kept, there and back: some are made again.
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t rows = i < 200 ? i : 400 - i;
    const at::Tensor x = at::randn({rows, 8});
    ExpectClose(Serve(*program, {x})[0], at::sigmoid(x));
  }
}

// Large enough that rows are handed to several threads, each with its own scratch.
TEST_P(Programs, SplitRowsOverThreads) {
  auto program = Make(R"(graph @f(%x: f32[3000, 65]) {
    %0 = aten.silu(%x) : f32[3000, 65]
    %1 = aten.softmax.int(%0, -1, none) : f32[3000, 65]
    return %1
  })");
  ASSERT_TRUE(program);
  const at::Tensor x = at::randn({3000, 65});
  ExpectClose(Serve(*program, {x})[0], at::softmax(at::silu(x), -1));
}

TEST_P(Programs, CheckGuards) {
  auto program = Make(kPointwise, {at::randn({16})});
  ASSERT_TRUE(program);
  const at::Tensor good = at::randn({4, 16});
  const std::pair<at::Tensor, const char*> kBad[] = {
      {at::randn({5, 16}), "input 'x': size 5 at dim 0, this variant needs 4"},
      {at::randn({4, 16, 1}), "input 'x': 3 dimensions, this variant needs 2"},
      {at::randn({16, 4}).t(), "input 'x': stride 1 at dim 0, this variant needs 16"},
      {at::randn({4, 16}).to(at::kDouble), "input 'x': dtype double, this variant needs float"},
      {at::Tensor(), "input 'x': no tensor"},
      {at::randn({4, 16}, at::kComplexFloat).conj(), "input 'x': dtype"},
      {at::zeros({4, 16}).to_sparse(), "input 'x'"},
  };
  for (const auto& [bad, text] : kBad) {
    Tensors outputs;
    RunFailure failure;
    EXPECT_EQ(Run(*program, {bad, good}, outputs, failure), RunOutcome::kGuardFailed) << text;
    EXPECT_THAT(Explain(*program, {bad, good}), HasSubstr(text));
  }
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {good}, outputs, failure), RunOutcome::kGuardFailed);
  EXPECT_EQ(Explain(*program, {good}), "1 inputs, this variant needs 2");
  EXPECT_EQ(Explain(*program, {good, good}), "");
  // Offsets are free, and a window of a larger tensor with the same strides is as good.
  const at::Tensor window = at::randn({9, 16}).slice(0, 3, 7);
  Serve(*program, {window, good});
  EXPECT_EQ(program->counts().guard_failures, 8u);
}

// Nobody reads by it, but a program may ask for it, and eager lays results out by it.
TEST_P(Programs, AreForTheStrideOfADimensionOfSizeOneToo) {
  auto program = Make("graph @f(%x: f32[1, 16]) { %0 = aten.exp(%x) : f32[1, 16] return %0 }");
  ASSERT_TRUE(program);
  Tensors outputs;
  RunFailure failure;
  const at::Tensor x = at::randn({1, 32}).as_strided({1, 16}, {77, 1});
  EXPECT_EQ(Run(*program, {x}, outputs, failure), RunOutcome::kGuardFailed);
}

// Read once for each row: where the row has no elements, there may be no memory either.
TEST_P(Programs, ReadNothingOfEmptyTensors) {
  const at::Tensor empty = at::empty({0}).as_strided({3, 0}, {1, 0});
  auto exact = Make(R"(graph @f(%x: f32[3, 0] strides [1, 0], %y: f32[3, 1]) {
    %0 = aten.sin(%x) : f32[3, 0] strides [1, 3]
    %1 = aten.add.Tensor(%x, %y, number 1) : f32[3, 0]
    return %0, %1
  })");
  ASSERT_TRUE(exact);
  EXPECT_EQ(Serve(*exact, {empty, at::ones({3, 1})})[1].sizes(), (at::IntArrayRef{3, 0}));
  auto symbolic =
      Make(R"(graph @f(%x: f32[s0, s1] strides [1, 0], %y: f32[s0, 1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
    %0 = aten.add.Tensor(%x, %y, number 1) : f32[s0, s1]
    %1 = aten.sum.dim_IntList(%0, [1], false, none) : f32[s0]
    return %1
  })");
  ASSERT_TRUE(symbolic);
  EXPECT_TRUE(at::equal(Serve(*symbolic, {empty, at::ones({3, 1})})[0], at::zeros({3})));
  const at::Tensor some = at::arange(3, at::kFloat).view({3, 1}).expand({3, 4});
  EXPECT_TRUE(at::equal(Serve(*symbolic, {some, at::ones({3, 1})})[0], (some + 1).sum(1)));
}

constexpr std::string_view kCache = R"(graph @f(%i: i64[2], %new: f32[2, 4], %cache: f32[8, 4] weight "cache") {
  %0 = aten.index_copy(%cache, 0, %i, %new) {inplace = 0} : f32[8, 4]
  %1 = aten.sum.dim_IntList(%0, [0], false, none) : f32[4]
  write %cache = %0
  return %1
}
)";

TEST_P(Programs, WriteACacheInPlace) {
  at::Tensor cache = at::zeros({8, 4});
  auto program = Make(kCache, {cache});
  ASSERT_TRUE(program);
  const auto version = cache._version();
  const at::Tensor indices = at::tensor({1, 5}, at::kLong), rows = at::randn({2, 4});
  const void* memory = cache.data_ptr();
  const Tensors outputs = Serve(*program, {indices, rows});
  ExpectClose(cache, at::zeros({8, 4}).index_copy(0, indices, rows));
  ExpectClose(outputs[0], cache.sum(0));
  EXPECT_EQ(cache.data_ptr(), memory);
  EXPECT_GT(cache._version(), version);
  EXPECT_EQ(Explain(*program, {indices, cache.slice(0, 0, 2)}),
            "input 'new' shares memory with weight 'cache', which this variant writes");
}

TEST_P(Programs, WriteAnInputAtTheEnd) {
  auto program = Make(R"(graph @f(%x: f32[4], %y: f32[4]) {
    %0 = aten.add.Tensor(%x, number 1.0, number 1) : f32[4]
    %1 = aten.mul.Tensor(%x, %y) : f32[4]
    %2 = ingot.shares(%0, 0) : f32[4]
    %3 = aten.slice.Tensor(%0, 0, 1, 3, 1) : f32[2]
    %4 = ingot.shares(%3, 0) : f32[2]
    write %x = %0
    write %y = %x
    return %2, %1, %4, %0
  })");
  ASSERT_TRUE(program);
  at::Tensor x = at::randn({4}), y = at::randn({4});
  const at::Tensor old_x = x.clone(), old_y = y.clone();
  const Tensors outputs = Serve(*program, {x, y});
  ExpectClose(x, old_x + 1);
  ExpectClose(y, old_x);
  ExpectClose(outputs[0], old_x + 1);
  ExpectClose(outputs[1], old_x * old_y);
  ExpectClose(outputs[2], (old_x + 1).slice(0, 1, 3));
  ExpectClose(outputs[3], old_x + 1);
  EXPECT_TRUE(outputs[0].is_alias_of(x) && outputs[2].is_alias_of(x));
  EXPECT_EQ(outputs[2].data_ptr(), x.slice(0, 1, 3).data_ptr());
  EXPECT_FALSE(outputs[0].is_same(x));
  EXPECT_FALSE(outputs[3].is_alias_of(x));
  Tensors unused;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {x, x}, unused, failure), RunOutcome::kGuardFailed);
}

TEST_P(Programs, CompareValuesBeforeAnythingIsWritten) {
  auto program = Make(R"(graph @f(%x: f32[4], %y: f32[4]) {
    %0 = aten.add.Tensor(%x, number 1.0, number 1) {inplace = 0} : f32[4]
    %1 = aten.gt.Scalar(%y, number 0.0) : bool[4]
    %2 = aten.all(%1) : bool[]
    guard.equal(%2, number true)
    write %x = %0
    return %0
  })");
  ASSERT_TRUE(program);
  at::Tensor x = at::zeros({4});
  Serve(*program, {x, at::ones({4})});
  ExpectClose(x, at::ones({4}));
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {x, at::zeros({4})}, outputs, failure), RunOutcome::kValueGuardFailed);
  EXPECT_EQ(failure.why, "value guard: False, the recording saw True");
  ExpectClose(x, at::ones({4}));
  EXPECT_EQ(program->counts().value_guard_failures, 1u);
}

TEST_P(Programs, GuardSizesThatDependOnData) {
  auto program = Make(R"(graph @f(%x: f32[4]) {
    %0 = aten.nonzero(%x) : i64[2, 1] strides [1, 2]
    guard.shape(%0, [2, 1])
    return %0
  })");
  ASSERT_TRUE(program);
  EXPECT_TRUE(
      at::equal(Serve(*program, {at::tensor({0.f, 1.f, 0.f, 2.f})})[0], at::tensor({1, 3}, at::kLong).unsqueeze(1)));
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {at::ones({4})}, outputs, failure), RunOutcome::kValueGuardFailed);
  EXPECT_THAT(failure.why, HasSubstr("sizes [4, 1], the recording had [2, 1]"));
}

TEST_P(Programs, ReportWhatAnOperatorThrows) {
  const at::Tensor table = at::randn({10, 4});
  auto program = Make(R"(graph @f(%i: i64[2], %w: f32[10, 4] weight "w") {
    %0 = aten.embedding(%w, %i, -1, false, false) : f32[2, 4]
    return %0
  })",
                      {table});
  ASSERT_TRUE(program);
  const at::Tensor good = at::tensor({0, 9}, at::kLong);
  ExpectClose(Serve(*program, {good})[0], at::embedding(table, good));
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {at::tensor({0, 10}, at::kLong)}, outputs, failure), RunOutcome::kFailed);
  EXPECT_THAT(failure.why,
              ::testing::AnyOf(HasSubstr("index out of range"), HasSubstr("outside the indexed dimension")));
  ExpectClose(Serve(*program, {good})[0], at::embedding(table, good));
}

TEST_P(Programs, NoticeWeightsThatMoveOrChange) {
  at::Tensor w = at::randn({16});
  auto program = Make(kPointwise, {w});
  ASSERT_TRUE(program);
  const at::Tensor x = at::randn({4, 16}), y = at::randn({4, 16});
  ExpectClose(Serve(*program, {x, y})[0], at::silu(x) * y + w);
  w.add_(1);
  ExpectClose(Serve(*program, {x, y})[0], at::silu(x) * y + w);
  w.set_data(at::randn({16}));
  ExpectClose(Serve(*program, {x, y})[0], at::silu(x) * y + w);
  const at::Tensor other = at::randn({16});
  ASSERT_TRUE(program->SetWeight(0, other));
  ExpectClose(Serve(*program, {x, y})[0], at::silu(x) * y + other);
  const Status refused = program->SetWeight(0, at::randn({17}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("weight 'w': size 17 at dim 0"));
  at::Tensor same = other;
  same.set_data(at::randn({3}));
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {x, y}, outputs, failure), RunOutcome::kWeightChanged);
}

TEST_P(Programs, ServeSeveralThreads) {
  const at::Tensor w = at::randn({32, 32});
  auto program = Make(R"(graph @f(%x: f32[16, 32], %w: f32[32, 32] weight "w") {
    %0 = aten.mm(%x, %w) : f32[16, 32]
    %1 = aten.tanh(%0) : f32[16, 32]
    %2 = aten.mm(%1, %w) : f32[16, 32]
    %3 = aten.tanh(%2) : f32[16, 32]
    return %3
  })",
                      {w});
  ASSERT_TRUE(program);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor x = at::randn({16, 32});
        Tensors outputs;
        RunFailure failure;
        const bool served = Run(*program, {x}, outputs, failure) == RunOutcome::kServed;
        if (!served || !at::allclose(outputs[0], at::tanh(at::mm(at::tanh(at::mm(x, w)), w)), 1e-4, 1e-5)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(program->counts().calls, 150u);
}

TEST_P(Programs, ReturnConstantsAsCopies) {
  auto program = Make(R"(graph @f(%x: f32[2], %c: f32[2] constant "0000803f00000040") {
    %0 = aten.add.Tensor(%x, %c, number 1) : f32[2]
    return %0, %c
  })");
  ASSERT_TRUE(program);
  Tensors outputs = Serve(*program, {at::zeros({2})});
  ExpectClose(outputs[0], at::tensor({1.f, 2.f}));
  outputs[1].add_(1);
  ExpectClose(Serve(*program, {at::zeros({2})})[1], at::tensor({1.f, 2.f}));
}

TEST_P(Programs, KeepInferenceModeOfTheCaller) {
  auto program = Make(kPointwise, {at::randn({16})});
  ASSERT_TRUE(program);
  const c10::InferenceMode mode;
  EXPECT_TRUE(Serve(*program, {at::randn({4, 16}), at::randn({4, 16})})[0].is_inference());
}

TEST(Bind, NamesTheWeightThatDoesNotFit) {
  const Buffer bytes = AtenArtifact(kPointwise);
  auto artifact = LoadedArtifact::Open(Bytes(bytes));
  ASSERT_TRUE(artifact);
  auto program = Program::Bind(*artifact, {at::randn({15})});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code(), Code::kIncompatible);
  EXPECT_THAT(program.error().message(), HasSubstr("weight 'w': size 15 at dim 0, this variant needs 16"));
  EXPECT_FALSE(Program::Bind(*artifact, {}));
}

TEST(Bind, NamesTheOperatorThatIsMissing) {
  const Buffer bytes = AtenArtifact("graph @f(%x: f32[2]) { %0 = my_ops.nothing(%x) {opaque} : f32[2] return %0 }");
  auto artifact = LoadedArtifact::Open(Bytes(bytes));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  auto program = Program::Bind(*artifact, {});
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message(), HasSubstr("my_ops::nothing is not registered"));
}

constexpr std::string_view kTwoKernels = R"(graph @f(%x: f32[4, s0]) symbols(s0 = %x.dim(1)) {
  %a = aten.softmax.int(%x, -1, none) : f32[4, s0]
  %b = aten.relu(%x) : f32[4, s0]
  return %a, %b
})";

/// An artifact with its manifest changed.
Result<std::shared_ptr<const LoadedArtifact>> OpenChanged(const Buffer& bytes,
                                                          const std::function<void(proto::ManifestT&)>& change) {
  const auto view = proto::OpenArtifact(bytes);
  EXPECT_TRUE(view) << view.error().ToText();
  proto::ManifestT manifest;
  proto::GetManifest(view->manifest.data())->UnPackTo(&manifest);
  change(manifest);
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &manifest));
  const Buffer changed =
      proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, view->code, view->constants});
  return LoadedArtifact::Open(Bytes(changed));
}

// A recording's operators are those of whoever sent it (admitted_operator.h).
TEST(Bind, LooksAtWhatEachOperatorCanReach) {
  const auto said = [](const std::string& op, const std::string& word = "") {
    const auto artifact = OpenChanged(AtenArtifact("graph @f(%x: f32[2]) { %0 = aten.relu(%x) : f32[2] return %0 }"),
                                      [&](proto::ManifestT& manifest) {
                                        manifest.steps[0]->op = op;
                                        if (word.empty()) return;
                                        manifest.steps[0]->args.push_back(std::make_unique<proto::PlanArgT>());
                                        manifest.steps[0]->args.back()->kind = proto::ArgKind::String;
                                        manifest.steps[0]->args.back()->text = word;
                                      });
    if (!artifact) return artifact.error().message();
    const auto program = Program::Bind(*artifact, {});
    return program ? "bound" : program.error().message();
  };
  EXPECT_EQ(said("aten::neg"), "bound");
  EXPECT_EQ(said("aten::gelu", "tanh"), "bound");
  EXPECT_THAT(said("aten::gelu", "/tmp"), HasSubstr("operator aten::gelu: argument 'approximate' may not be '/tmp'"));
  EXPECT_THAT(said("aten::from_file"), HasSubstr("operator aten::from_file takes text ('filename')"));
  EXPECT_THAT(said("aten::resize_"), HasSubstr("operator aten::resize_ changes the sizes or the memory"));
  EXPECT_THAT(said("aten::_reshape_alias"), HasSubstr("operator aten::_reshape_alias checks no bounds"));
  EXPECT_THAT(said("inductor::_reinterpret_tensor"), HasSubstr("'inductor::_reinterpret_tensor' is none that a plan"));
  EXPECT_THAT(said("ingot_client::own_rows"), HasSubstr("'ingot_client::own_rows' is none that a plan"));
}

/// That of kTwoKernels for gears 24 and 40.
Result<std::shared_ptr<const LoadedArtifact>> OpenChanged(const std::function<void(proto::ManifestT&)>& change) {
  return OpenChanged(CompiledArtifact(kTwoKernels, {{24}, {40}}), change);
}

Tensors ServeOne(const std::shared_ptr<const LoadedArtifact>& artifact, const at::Tensor& x) {
  const auto program = Program::Bind(artifact, {});
  EXPECT_TRUE(program) << program.error().ToText();
  const at::Tensor* input = &x;
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ((*program)->Run(&input, 1, outputs, failure), RunOutcome::kServed) << failure.why;
  return outputs;
}

TEST(SpecialKernels, RunInTheirGearAndNowhereElse) {
  const auto artifact = OpenChanged([](proto::ManifestT& manifest) {
    ASSERT_EQ(manifest.kernels.size(), 6);
    ASSERT_EQ(manifest.kernels[0]->specials.size(), 2);
    // The other kernel's code in place of its own shows which one runs.
    const uint32_t first = manifest.steps[0]->kernel;
    const uint32_t second = manifest.steps[1]->kernel;
    manifest.kernels[first]->specials[1]->kernel = manifest.kernels[second]->specials[1]->kernel;
  });
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  for (const int64_t size : {24, 25, 40, 41}) {
    const at::Tensor x = at::randn({4, size});
    const Tensors outputs = ServeOne(*artifact, x);
    const bool is_swapped = size == 40;
    const bool is_right = at::allclose(outputs[0], at::softmax(x, -1)) && at::allclose(outputs[1], at::relu(x));
    EXPECT_NE(is_right, is_swapped) << size;
    EXPECT_EQ(at::equal(outputs[0], outputs[1]), is_swapped) << size;
  }
}

TEST(SpecialKernels, AreRefusedWhereTheyNameNothing) {
  const auto expect = [](const char* why, const std::function<void(proto::ManifestT&)>& change) {
    const auto artifact = OpenChanged(change);
    ASSERT_FALSE(artifact) << why;
    EXPECT_EQ(artifact.error().code(), Code::kCorrupt);
    EXPECT_THAT(artifact.error().message(), HasSubstr(why));
  };
  expect("special kernel 6", [](proto::ManifestT& m) { m.kernels[0]->specials[0]->kernel = 6; });
  expect("value of special kernel 1", [](proto::ManifestT& m) { m.kernels[1]->specials[1]->values.clear(); });
  expect("value of special kernel 0", [](proto::ManifestT& m) {
    m.kernels[0]->deciding.clear();
    for (const auto& special : m.kernels[0]->specials) special->values.clear();
  });
  expect("deciding symbol 1", [](proto::ManifestT& m) { m.kernels[0]->deciding[0] = 1; });
}

/// Two buffers of which the second is made of the first.
constexpr std::string_view kProducts = R"(graph @f(%x: f32[s0, 16], %w: f32[16, 16]) symbols(s0 = %x.dim(0)) {
  %a = aten.mm(%x, %w) : f32[s0, 16]
  %b = aten.mm(%a, %w) : f32[s0, 16]
  %c = aten.mm(%b, %w) : f32[s0, 16]
  return %c
})";

/// The artifact of kProducts, with places of its two buffers for five rows (640 bytes for both).
Result<std::shared_ptr<const LoadedArtifact>> OpenPlaced(uint64_t bytes, const std::vector<uint64_t>& offsets,
                                                         const std::vector<int64_t>& values = {5}) {
  return OpenChanged(CompiledArtifact(kProducts), [&](proto::ManifestT& manifest) {
    manifest.recipe = std::make_unique<proto::RecipeT>();
    auto& layout = *manifest.recipe->arenas.emplace_back(std::make_unique<proto::ArenaLayoutT>());
    layout.values = values;
    layout.bytes = bytes;
    layout.offsets = offsets;
  });
}

RunOutcome RunProducts(Program& program, const at::Tensor& x, const at::Tensor& w, RunFailure& failure) {
  const at::Tensor* const inputs[] = {&x, &w};
  Tensors outputs;
  const RunOutcome outcome = program.Run(inputs, 2, outputs, failure);
  if (outcome == RunOutcome::kServed) {
    EXPECT_TRUE(at::allclose(outputs[0], x.mm(w).mm(w).mm(w), 1e-4, 1e-5));
  }
  return outcome;
}

TEST(Layouts, OfARecipeAreUsedAtTheirSizes) {
  const auto artifact = OpenPlaced(1024, {704, 0});
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  const auto program = Program::Bind(*artifact, {});
  ASSERT_TRUE(program) << program.error().ToText();
  const int64_t placed = 5, other = 6;
  EXPECT_EQ((*program)->ArenaBytes(&placed), (std::pair<int64_t, int64_t>(1024, 640)));
  EXPECT_EQ((*program)->ArenaBytes(&other).first, 768);
  const at::Tensor w = at::randn({16, 16}) / 4;
  RunFailure failure;
  for (const int64_t rows : {placed, other}) {
    EXPECT_EQ(RunProducts(**program, at::randn({rows, 16}), w, failure), RunOutcome::kServed) << failure.why;
  }
}

TEST(Layouts, ThatWouldHaveBuffersMeetAreNeverRun) {
  const at::Tensor w = at::randn({16, 16}) / 4;
  const std::vector<std::pair<uint64_t, std::vector<uint64_t>>> kWrong = {
      {1024, {0, 0}}, {1024, {0, 256}}, {1024, {0, 768}}, {1024, {8, 512}}, {1024, {0, ~uint64_t{63}}}, {64, {0, 320}}};
  for (const auto& [bytes, offsets] : kWrong) {
    const auto artifact = OpenPlaced(bytes, offsets);
    ASSERT_TRUE(artifact) << artifact.error().ToText();
    const auto program = Program::Bind(*artifact, {});
    ASSERT_TRUE(program);
    RunFailure failure;
    EXPECT_NE(RunProducts(**program, at::randn({5, 16}), w, failure), RunOutcome::kServed)
        << offsets[0] << " " << offsets[1];
    EXPECT_EQ(RunProducts(**program, at::randn({6, 16}), w, failure), RunOutcome::kServed) << failure.why;
  }
  EXPECT_FALSE(OpenPlaced(1024, {0}));
  EXPECT_FALSE(OpenPlaced(1024, {0, 512, 768}));
  EXPECT_FALSE(OpenPlaced(1024, {0, 512}, {}));
  EXPECT_FALSE(OpenPlaced(1024, {0, 512}, {5, 5}));
}

/// exp(x[:, s0 - 3:])
constexpr std::string_view kTail = R"(graph @tail(%x: f32[4, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.slice.Tensor(%x, 1, s0 - 3, s0, 1) : f32[4, 3] strides [s0, 1]
  %1 = aten.exp(%0) : f32[4, 3]
  return %1
})";

TEST(Conditions, KeepSizesOutForWhichKernelsWereNotProved) {
  const auto artifact = LoadedArtifact::Open(Bytes(CompiledArtifact(kTail)));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  for (const int64_t size : {3, 4, 19}) {
    const at::Tensor x = at::randn({4, size});
    EXPECT_TRUE(at::allclose(ServeOne(*artifact, x)[0], x.slice(1, size - 3).exp()));
  }
  const auto program = Program::Bind(*artifact, {});
  ASSERT_TRUE(program);
  for (const int64_t size : {0, 1, 2}) {
    const at::Tensor x = at::randn({4, size});
    const at::Tensor* input = &x;
    Tensors outputs;
    RunFailure failure;
    EXPECT_EQ((*program)->Run(&input, 1, outputs, failure), RunOutcome::kGuardFailed) << size;
    EXPECT_THAT((*program)->Explain(&input, 1), HasSubstr("s0 >= 3")) << size;
  }
}

TEST(Conditions, ThatAreNoneAreRefused) {
  for (const std::string text : {"s1 >= 3", "s0 >=", "x.rank == 2", "flag == True"}) {
    const auto artifact = OpenChanged([&](proto::ManifestT& manifest) { manifest.conditions = text; });
    ASSERT_FALSE(artifact) << text;
    EXPECT_EQ(artifact.error().code(), Code::kCorrupt);
    EXPECT_THAT(artifact.error().message(), HasSubstr("conditions"));
  }
  EXPECT_TRUE(OpenChanged([](proto::ManifestT& manifest) { manifest.conditions = "s0 >= 3"; }));
}

TEST(Compile, GivesEqualBytesTwice) { EXPECT_EQ(CompiledArtifact(kPointwise), CompiledArtifact(kPointwise)); }

constexpr std::string_view kWriter = R"(graph @f(%x: f32[4], %b: f32[4] weight "b", %c: f32[4] weight "c") {
  %0 = aten.add.Tensor(%b, %x, number 1) : f32[4]
  %1 = aten.mul.Tensor(%c, %x) : f32[4]
  %2 = ingot.memory(%0) {opaque} : f32[4]
  %3, %4 = ingot_program_test.double_below(%2, 100.0, [1, 2], [%2, %1]) {opaque, writes} : f32[4], f32[4]
  %5 = aten.add.Tensor(%3, %4, number 1) : f32[4]
  %6 = aten.mul.Tensor(%4, %x) : f32[4]
  write %b = %3
  write %c = %6
  return %5
}
)";

TEST_P(Programs, RunOperatorsThatWriteInTheirPlace) {
  at::Tensor b = at::ones({4}), c = at::ones({4});
  auto program = Make(kWriter, {b, c});
  ASSERT_TRUE(program);
  const at::Tensor x = at::full({4}, 2.0);
  const Tensors outputs = Serve(*program, {x});
  ASSERT_EQ(outputs.size(), 1u);
  ExpectClose(b, at::full({4}, 6.0));   // (1 + 2) * 2
  ExpectClose(outputs[0], at::full({4}, 8.0));
  ExpectClose(c, at::full({4}, 4.0));
}

// What was written before is kept, what comes after it has not happened, and it has run once.
TEST_P(Programs, RaiseWhatOperatorsThatWriteRaise) {
  at::Tensor b = at::ones({4}), c = at::ones({4});
  auto program = Make(kWriter, {b, c});
  ASSERT_TRUE(program);
  const at::Tensor x = at::full({4}, 99.0);
  Tensors outputs;
  RunFailure failure;
  EXPECT_EQ(Run(*program, {x}, outputs, failure), RunOutcome::kRaised);
  EXPECT_THAT(failure.why, HasSubstr("not below 100"));
  EXPECT_THROW(std::rethrow_exception(failure.raised), c10::Error);
  EXPECT_TRUE(outputs.empty());
  ExpectClose(b, at::full({4}, 200.0));
  ExpectClose(c, at::full({4}, 99.0));
}

}  // namespace
}  // namespace ingot::client

TORCH_LIBRARY(ingot_program_test, m) {
  m.def("double_below(Tensor(a!) x, float limit) -> ()", ingot::client::DoubleBelow);
}
