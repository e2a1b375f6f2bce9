// SPDX-License-Identifier: Apache-2.0
#include "compiler/prove_meaning.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/plan.h"
#include "compiler/proof/prove_graph.h"
#include "compiler/proof/sizes.h"
#include "proto/artifact_file.h"

namespace ingot::compiler {
namespace {

Graph ReadGraph(const std::string& text) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return *graph;
}

/// What the artifact of a graph says of the comparison with its plan.
std::unique_ptr<proto::GraphProofT> ProofOf(const std::string& text) {
  CompileOptions options;
  options.target = *TargetSpec::Host();
  const auto artifact = Compile(ReadGraph(text), options);
  EXPECT_TRUE(artifact) << artifact.error().ToText() << "\n" << text;
  if (!artifact) return std::make_unique<proto::GraphProofT>();
  const auto file = proto::OpenArtifact(artifact->bytes);
  return std::unique_ptr<proto::GraphProofT>(
      proto::GetManifest(file->manifest.data())->provenance()->graph_proof()->UnPack());
}

TEST(ProveMeaning, CodeOfAnotherMachineSaysThatItWasNotRun) {
  CompileOptions options;
  options.target = *TargetSpec::Host();
  if (std::ranges::binary_search(options.target.features, "amx_bf16")) GTEST_SKIP() << "this machine runs it";
  options.prove_all = true;
  options.target.level = "x86-64-v4";
  for (const char* feature : {"amx_bf16", "amx_int8", "amx_tile"}) options.target.features.emplace_back(feature);
  std::ranges::sort(options.target.features);
  const auto artifact = Compile(ReadGraph(R"(graph @f(%x: bf16[16, 64], %w: bf16[64, 64]) {
  %0 = aten.linear(%x, %w) : bf16[16, 64]
  %1 = aten.relu(%0) : bf16[16, 64]
  return %1
})"),
                                options);
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  const auto file = proto::OpenArtifact(artifact->bytes);
  const std::unique_ptr<proto::ProvenanceT> made(proto::GetManifest(file->manifest.data())->provenance()->UnPack());
  ASSERT_EQ(made->proofs.size(), 1U);
  EXPECT_THAT(made->proofs[0]->skipped, testing::HasSubstr("this machine"));
  EXPECT_EQ(made->proof_kernels, 0U);
  EXPECT_EQ(made->graph_proof->skipped, "");
  EXPECT_GT(made->graph_proof->sizes, 0U);  // What the interpreter makes of it was compared all the same.
}

/// An index beyond the one row that there is lies in some rows and not in others, of which the interpreter samples.
TEST(ProveMeaning, HoldsForRowsOfATableOfOne) {
  CompileOptions options;
  options.target = *TargetSpec::Host();
  for (const int width : {8, 16, 24, 32, 64, 256}) {
    for (const int depth : {1, 2, 8, 16, 48}) {
      const std::string text =
          fmt::format(R"(graph @f(%x: f32[1, {0}], %i: i64[s0], %e: f32[s0, {1}], %w: f32[{0}, {1}])
    symbols(s0 = %i.dim(0)) {{
  %0 = aten.embedding(%x, %i, -1, false, false) : f32[s0, {0}]
  %1 = aten.linear(%e, %w) : f32[s0, {0}]
  %2 = aten.add.Tensor(%0, %1, 1) : f32[s0, {0}]
  %3 = aten.relu(%2) : f32[s0, {0}]
  return %3
}})",
                      width, depth);
      const auto artifact = Compile(ReadGraph(text), options);
      ASSERT_TRUE(artifact) << artifact.error().ToText() << "\n" << text;
      const auto file = proto::OpenArtifact(artifact->bytes);
      const std::unique_ptr<proto::ProvenanceT> made(proto::GetManifest(file->manifest.data())->provenance()->UnPack());
      for (const auto& proof : made->proofs) EXPECT_EQ(proof->skipped, "") << text;
    }
  }
}

struct WholeGraph {
  const char* name;
  const char* text;
};

class ProveWhole : public testing::TestWithParam<WholeGraph> {};

TEST_P(ProveWhole, Holds) {
  const auto proof = ProofOf(GetParam().text);
  EXPECT_GT(proof->sizes, 0U);
  EXPECT_EQ(proof->skipped, "");
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, ProveWhole,
    testing::Values(WholeGraph{"ElementsThatShareMemory", R"(graph @f(%x: f32[4], %k: f32[5] strides [0]) {
  %0 = aten.mul.Tensor(%x, number 3) : f32[4]
  return %0
})"},
                    WholeGraph{"FactorsOfAPlannedProduct", R"(graph @f(%c: f32[5, 5], %a: f32[5, 5], %b: f32[5, 5]) {
  %0 = aten.addmm(%c, %a, %b, number 0.5, number 0) : f32[5, 5]
  return %0
})"},
                    WholeGraph{"AnIndexThatNotAllSizesHave", R"(graph @f(%x: f32[s0, 3]) symbols(s0 = %x.dim(0)) {
  %0 = aten.select.int(%x, 0, 1) : f32[3]
  %1 = aten.exp(%0) : f32[3]
  return %1
})"},
                    WholeGraph{"AWriteThatBecomesAKernel", R"(graph @f(%x: f32[6]) {
  %0 = aten.slice.Tensor(%x, 0, 0, 6, 2) : f32[3] strides [2]
  %1 = aten.mul.Tensor(%0, number -1) : f32[3]
  %2 = aten.slice_scatter(%x, %1, 0, 0, 6, 2) : f32[6]
  %3 = aten.flip(%2, [0]) : f32[6]
  write %x = %2
  return %3})"},
                    WholeGraph{"SumsOfNarrowTypesThatCancel",
                               R"(graph @f(%x: bf16[7, 192], %w: bf16[64, 192], %s: bf16[64, 1], %v: bf16[64, 64]) {
  %0 = aten.mul.Tensor(%w, %s) : bf16[64, 192]
  %1 = aten.linear(%x, %0, none) : bf16[7, 64]
  %2 = aten.sigmoid(%1) : bf16[7, 64]
  %3 = aten.mul.Tensor(%1, %2) : bf16[7, 64]
  %4 = aten.linear(%3, %v, none) : bf16[7, 64]
  return %4
})"}),
    [](const auto& info) { return info.param.name; });

TEST(ProvePads, AreKnownByWhatTheyGive) {
  const auto proof = ProofOf(R"(graph @f(%x: f32[s0]) symbols(s0 = %x.dim(0)) {
  %0 = aten.pad(%x, [0, 0], "constant", none) : f32[s0]
  %1 = aten.pad(%x, [2, 1], "constant", 3.0) : f32[s0 + 3]
  %2 = aten.sum.dim_IntList(%0, [0], false, none) : f32[]
  %3 = aten.mul.Tensor(%1, %2) : f32[s0 + 3]
  return %0, %3
})");
  EXPECT_GT(proof->sizes, 0U);
  EXPECT_THAT(proof->unknown, testing::IsEmpty());
}

// A program that asks for a multiple of 4 is no reason to refuse what it became; sizes of idle time hold it.
TEST(ProveReshapes, SkipSizesThatAreNoneOfTheGraph) {
  const auto proof = ProofOf(R"(graph @f(%x: f32[s0]) symbols(s0 = %x.dim(0)) {
  %0 = aten.pad(%x, [0, 0], "constant", none) : f32[s0]
  %1 = aten.view(%0, [-1, 4]) : f32[floordiv(s0 + 3, 4), 4]
  %2 = aten.sum.dim_IntList(%1, [1], false, none) : f32[floordiv(s0 + 3, 4)]
  return %0, %2
})");
  EXPECT_EQ(proof->sizes, 0U);
  EXPECT_THAT(proof->skipped, testing::HasSubstr("another number of elements"));
}

class DoneWithoutUnknown : public testing::TestWithParam<WholeGraph> {};

/// What a plan rightly does without is missed by the operands of whatever comes after it, and is no fault of the plan.
TEST_P(DoneWithoutUnknown, IsNotRefused) {
  const auto proof = ProofOf(GetParam().text);
  EXPECT_EQ(proof->sizes, 0U);
  EXPECT_THAT(proof->skipped, testing::HasSubstr("the plan does without aten."));
}

INSTANTIATE_TEST_SUITE_P(Graphs, DoneWithoutUnknown,
                         testing::Values(WholeGraph{"APadOfNothing", R"(graph @f(%x: f32[6, 4]) {
  %0 = aten.pad(%x, [0, 0], "reflect", none) : f32[6, 4]
  %1 = aten.flip(%0, [0]) : f32[6, 4]
  return %1
})"},
                                         WholeGraph{"APadOfNothingTwice", R"(graph @f(%x: f32[6, 4]) {
  %0 = aten.pad(%x, [0, 0], "reflect", none) : f32[6, 4]
  %1 = aten.pad(%x, [0, 0], "reflect", none) : f32[6, 4]
  %2 = aten.exp(%1) : f32[6, 4]
  %3 = aten.flip(%2, [0]) : f32[6, 4]
  return %0, %3
})"}),
                         [](const auto& info) { return info.param.name; });

/// A graph whose values share the arena, beside one that is written.
constexpr const char* kPlanned = R"(graph @f(%x: f32[s0, 8], %w: f32[8, 8], %held: f32[8, 8]) symbols(s0 = %x.dim(0)) {
  %0 = aten.mm(%x, %w) : f32[s0, 8]
  %1 = aten.cumsum(%0, 1, none) : f32[s0, 8]
  %2 = aten.mm(%1, %w) : f32[s0, 8]
  %3 = aten.cumsum(%2, 0, none) : f32[s0, 8]
  %4 = aten.mm(%3, %w) : f32[s0, 8]
  %5 = aten.add.Tensor(%4, %0, number 1) : f32[s0, 8]
  %6 = aten.mm(%w, %held) : f32[8, 8]
  write %held = %6
  return %5, %3
})";

class PlanFaults : public testing::Test {
 protected:
  PlanFaults() : graph_(ReadGraph(kPlanned)), fused_(*Fuse(graph_)), objects_(fused_.kernels.size()) {}

  proto::ManifestT Plan() {
    auto plan = BuildPlan(graph_, fused_, objects_, &nodes_);
    EXPECT_TRUE(plan) << plan.error().ToText();
    return std::move(*plan);
  }
  Result<GraphProof> Prove(const proto::ManifestT& plan) {
    const CompiledGraph compiled{.captured = graph_, .lowered = graph_, .fused = fused_, .plan = plan, .nodes = nodes_};
    return ProveGraph(compiled, SizesToTry(graph_, {}).small, 64 << 20, 10'000'000);
  }
  /// Changes the plan in one place after the other; `change`: false where there is no such place.
  void Expect(const std::function<bool(proto::ManifestT&, size_t)>& change, double found_min) {
    size_t planted = 0, found = 0;
    std::string missed;
    for (size_t i = 0; i < 200; ++i) {
      proto::ManifestT plan = Plan();
      if (!change(plan, i)) continue;
      ++planted;
      const auto proof = Prove(plan);
      found += !proof && proof.error().code() == Code::kInternal;
      if (proof) missed += std::to_string(i) + " ";
    }
    EXPECT_GT(planted, 1U);
    EXPECT_GE(static_cast<double>(found), found_min * static_cast<double>(planted))
        << planted << " planted, missed: " << missed;
  }

  const Graph graph_;
  const Fused fused_;
  const std::vector<Object> objects_;
  std::vector<NodeId> nodes_;
};

TEST_F(PlanFaults, ThePlanHolds) {
  const auto proof = Prove(Plan());
  ASSERT_TRUE(proof) << proof.error().ToText();
  EXPECT_GT(proof->sizes, 1U);
}

TEST_F(PlanFaults, AStepThatIsLeftOutIsFound) {
  Expect(
      [](proto::ManifestT& plan, size_t i) {
        if (i >= plan.steps.size()) return false;
        plan.steps[i]->kind = proto::StepKind::Guard;
        return true;
      },
      1);
}

TEST_F(PlanFaults, StepsInAnotherOrderAreFound) {
  Expect(
      [this](proto::ManifestT& plan, size_t i) {
        if (i + 1 >= plan.steps.size()) return false;
        const auto& first = *plan.steps[i];
        const auto& second = *plan.steps[i + 1];
        // Others may come in any order.
        const auto reads = [&](const proto::PlanStepT& step, uint32_t value) {
          return std::ranges::any_of(step.args,
                                     [&](const auto& arg) {
                                       return arg->kind == proto::ArgKind::Value &&
                                              static_cast<uint32_t>(arg->ints[0]) == value;
                                     }) ||
                 std::ranges::find(step.buffers, value) != step.buffers.end();
        };
        if (first.results.empty() || !reads(second, first.results[0])) return false;
        std::swap(plan.steps[i], plan.steps[i + 1]);
        std::swap(nodes_[i], nodes_[i + 1]);
        return true;
      },
      1);
}

TEST_F(PlanFaults, AResultInMemoryThatIsStillReadIsFound) {
  // Of all pairs of storages some are of values that do not live at the same time.
  Expect(
      [](proto::ManifestT& plan, size_t i) {
        const size_t count = plan.storages.size();
        const size_t from = i / count, to = i % count;
        if (from >= count || from == to || plan.storages[from]->kind != proto::StorageKind::Arena) return false;
        if (plan.storages[to]->bytes_dim != plan.storages[from]->bytes_dim) return false;
        bool is_changed = false;
        for (const auto& value : plan.values) {
          if (value->storage != from) continue;
          value->storage = static_cast<uint32_t>(to);
          is_changed = true;
        }
        return is_changed;
      },
      0.5);
}

TEST_F(PlanFaults, AnotherOutputIsFound) {
  Expect(
      [](proto::ManifestT& plan, size_t i) {
        if (i >= plan.values.size() || plan.values[i]->sizes != plan.values[plan.outputs[0]]->sizes) return false;
        if (plan.values[i]->storage == plan.values[plan.outputs[0]]->storage) return false;
        plan.outputs[0] = static_cast<uint32_t>(i);
        return true;
      },
      1);
}

}  // namespace
}  // namespace ingot::compiler
