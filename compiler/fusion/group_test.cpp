// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Groups, AtenNodeBetweenKeepsItsPlaceAndCutsTheGroup) {
  FusedProgram run(R"(graph @f(%x: f32[4, 4], %w: f32[4, 4] weight "w") {
  %0 = aten.relu(%x) : f32[4, 4]
  %1 = aten.linalg_solve(%0, %w) : f32[4, 4]
  %2 = aten.add.Tensor(%0, %1, 1) : f32[4, 4]
  return %2
})");
  ASSERT_EQ(run.fused().steps.size(), 3u);
  EXPECT_TRUE(run.fused().steps[0].is_launch);
  EXPECT_FALSE(run.fused().steps[1].is_launch);
  EXPECT_TRUE(run.fused().steps[2].is_launch);
}

TEST(Groups, EffectsKeepTheirOrder) {
  FusedProgram run(R"(graph @f(%x: f32[4]) {
  %0 = aten.dropout(%x, 0.5, true) {random} : f32[4]
  %1 = aten.relu(%x) : f32[4]
  %2 = aten.dropout(%1, 0.5, true) {random} : f32[4]
  %3 = aten.add.Tensor(%2, %0, 1) : f32[4]
  return %3
})");
  std::vector<NodeId> nodes;
  for (const auto& step : run.fused().steps) {
    if (!step.is_launch) nodes.push_back(step.node);
  }
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_LT(nodes[0], nodes[1]);
}

// Layers of a model repeat: their kernels are shared.
TEST(Groups, EqualGroupsShareAKernel) {
  FusedProgram run(R"(graph @f(%x: f32[4, 8], %w: f32[8, 8] weight "w", %a: f32[8] weight "a", %b: f32[8] weight "b") {
  %0 = aten.linalg_solve(%x, %w) : f32[4, 8]
  %1 = aten.layer_norm(%0, [8], %a, %b, 1e-5, true) : f32[4, 8]
  %2 = aten.linalg_solve(%1, %w) : f32[4, 8]
  %3 = aten.layer_norm(%2, [8], %b, %a, 1e-5, true) : f32[4, 8]
  return %3
})");
  EXPECT_EQ(run.launches(), 2u);
  EXPECT_EQ(run.fused().kernels.size(), 1u);
}

TEST(Groups, LongChainsAreCutIntoBoundedKernels) {
  std::string text = "graph @f(%x: f32[64, 1024]) {\n";
  std::string last = "%x";
  for (int i = 0; i < 500; ++i) {
    text += fmt::format("  %{} = aten.mul.Tensor({}, number 1.5) : f32[64, 1024]\n", i, last);
    last = fmt::format("%{}", i);
  }
  FusedProgram run(text + "  return " + last + "\n}");
  EXPECT_GT(run.launches(), 1u);
  EXPECT_LT(run.launches(), 50u);
  for (const auto& kernel : run.fused().kernels) EXPECT_LE(kernel.insts.size(), 400u);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Fuse(run.graph()));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  RecordProperty("fuse_ms", std::to_string(spent.count()));
}

/// A random program over f32[2, 3, 4] and what broadcasts with it.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    types_ = {"f32[2, 3, 4]", "f32[2, 3, 4] strides [1, 8, 2]", "f32[4]", "f32[2, 3, 1]"};
    shapes_ = {kFull, kFull, kRow, kKeep};
    for (int i = 0; i < 14; ++i) AddNode();
  }

  std::string Text(size_t first, size_t count, const std::vector<size_t>& inputs,
                   const std::vector<size_t>& outputs) const {
    std::string text = "graph @f(";
    for (size_t i : inputs) {
      text += fmt::format("{}%v{}: {}", i == inputs[0] ? "" : ", ", i, types_[i]);
    }
    text += ") {\n";
    for (size_t n = first; n < first + count; ++n) {
      text += fmt::format("  %v{} = {} : {}\n", n, calls_[n - kInputs], types_[n]);
    }
    text += "  return ";
    for (size_t o : outputs) text += fmt::format("{}%v{}", o == outputs[0] ? "" : ", ", o);
    return text + "\n}";
  }
  size_t nodes() const { return calls_.size(); }
  const std::vector<size_t>& operands(size_t node) const { return operands_[node]; }
  static constexpr size_t kInputs = 4;

 private:
  enum Shape { kFull, kRow, kKeep, kSwapped };

  size_t Pick(std::initializer_list<Shape> allowed) {
    std::vector<size_t> from;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      if (std::find(allowed.begin(), allowed.end(), shapes_[i]) != allowed.end()) from.push_back(i);
    }
    return from[random_() % from.size()];
  }
  void Add(std::string call, std::vector<size_t> operands, Shape shape, std::string type) {
    calls_.push_back(std::move(call));
    operands_.push_back(std::move(operands));
    shapes_.push_back(shape);
    types_.push_back(std::move(type));
  }
  void AddNode() {
    const size_t a = Pick({kFull}), b = Pick({kFull, kRow, kKeep}), keep = Pick({kKeep});
    const std::string full = "f32[2, 3, 4]", swapped = "f32[2, 4, 3]";
    switch (random_() % 13) {
      case 0: return Add(fmt::format("aten.tanh(%v{})", a), {a}, kFull, full);
      case 1: return Add(fmt::format("aten.add.Tensor(%v{}, %v{}, 1)", a, b), {a, b}, kFull, full);
      case 2: return Add(fmt::format("aten.mul.Tensor(%v{}, %v{})", a, b), {a, b}, kFull, full);
      case 3: return Add(fmt::format("aten.mean.dim(%v{}, [-1], true, none)", a), {a}, kKeep, "f32[2, 3, 1]");
      case 4: return Add(fmt::format("aten.amax(%v{}, [2], true)", a), {a}, kKeep, "f32[2, 3, 1]");
      case 5: return Add(fmt::format("aten.sigmoid(%v{})", keep), {keep}, kKeep, "f32[2, 3, 1]");
      case 6: return Add(fmt::format("aten.softmax.int(%v{}, -1, none)", a), {a}, kFull, full);
      case 7: return Add(fmt::format("aten.softmax.int(%v{}, 1, none)", a), {a}, kFull, full);
      case 8: return Add(fmt::format("aten.layer_norm(%v{}, [4], %v2, none, 0.1, true)", a), {a, 2}, kFull, full);
      case 9: {
        const size_t c = Pick({kFull});
        return Add(fmt::format("aten.slice_scatter(%v{}, %v{}, 0, 0, 2, 1)", a, c), {a, c}, kFull, full);
      }
      case 10: return Add(fmt::format("aten.tril(%v{}, 0)", a), {a}, kFull, full);
      case 11:
        if (std::count(shapes_.begin(), shapes_.end(), kSwapped)) {
          const size_t s = Pick({kSwapped});
          return Add(fmt::format("aten.reshape(%v{}, [2, 3, 4])", s), {s}, kFull, full);
        }
        [[fallthrough]];
      default: return Add(fmt::format("aten.reshape(%v{}, [2, 4, 3])", a), {a}, kSwapped, swapped);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> types_, calls_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<size_t>> operands_;
};

// However nodes are grouped, every value is what the nodes give one at a time.
TEST(Groups, GroupingChangesNoValue) {
  size_t launches = 0, nodes = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomProgram random(seed);
    const std::vector<Values> given = {Ramp(24, 0.41), Ramp(24, 0.87), Ramp(4, 0.3), Ramp(6, 0.6)};
    std::vector<Values> expected = given;
    for (size_t n = 0; n < random.nodes(); ++n) {
      std::vector<size_t> inputs = random.operands(n);
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      const size_t value = RandomProgram::kInputs + n;
      const std::string alone = random.Text(value, 1, inputs, {value});
      const auto graph = Parse(alone);
      ASSERT_TRUE(graph) << alone << graph.error().ToText();
      if (alone.find("reshape") != std::string::npos) {
        expected.push_back(expected[inputs[0]]);
        continue;
      }
      FusedProgram one(alone);
      for (size_t i = 0; i < inputs.size(); ++i) one.Set(i, expected[inputs[i]]);
      const Status status = one.Go();
      ASSERT_TRUE(status) << status.error().ToText() << alone;
      expected.push_back(one.Get());
    }
    const size_t last = RandomProgram::kInputs + random.nodes() - 1;
    const std::vector<size_t> outputs = {last, last - 3, last - 6};
    const std::string text = random.Text(RandomProgram::kInputs, random.nodes(), {0, 1, 2, 3}, outputs);
    FusedProgram all(text);
    for (size_t i = 0; i < given.size(); ++i) all.Set(i, given[i]);
    const Status status = all.Go(true);
    ASSERT_TRUE(status) << status.error().ToText() << text << all.KernelText();
    for (size_t o = 0; o < outputs.size(); ++o) {
      SCOPED_TRACE(text);
      ExpectNear(all.Get(o), expected[outputs[o]], 1e-4);
      if (HasFailure()) FAIL() << all.KernelText();
    }
    launches += all.launches();
    nodes += random.nodes();
  }
  EXPECT_LT(launches * 2, nodes) << "hardly anything was fused";
}

}  // namespace
}  // namespace ingot::compiler
