// SPDX-License-Identifier: Apache-2.0
#include "compiler/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/choices.h"
#include "compiler/ir/text.h"
#include "compiler/loop/text.h"
#include "compiler/lowered_graph.h"
#include "proto/artifact_file.h"

namespace ingot::compiler {
namespace {

using testing::ElementsAre;

/// Two products with what follows them, the second of any number of rows, and views between.
constexpr std::string_view kTwo =
    R"(graph @f(%x: f32[s0, 32], %w: f32[384, 32], %v: f32[16, 384]) symbols(s0 = %x.dim(0)) {
  %0 = aten.linear(%x, %w, none) : f32[s0, 384]
  %1 = aten.relu(%0) : f32[s0, 384]
  %2 = aten.linear(%1, %v, none) : f32[s0, 16]
  %3 = aten.sigmoid(%2) : f32[s0, 16]
  return %3
})";

CompileOptions Options() {
  CompileOptions options;
  options.target = *TargetSpec::Host();
  options.prove = false;
  return options;
}

std::shared_ptr<proto::RecipeT> ByLibrary(const Digest& kernel) {
  auto recipe = std::make_shared<proto::RecipeT>();
  auto& choice = *recipe->choices.emplace_back(std::make_unique<proto::KernelChoiceT>());
  choice.kernel_low = kernel.low;
  choice.kernel_high = kernel.high;
  choice.schedule = kByLibrary;
  return recipe;
}

std::unique_ptr<proto::ManifestT> PlanOf(const Artifact& artifact) {
  const auto view = proto::OpenArtifact(artifact.bytes);
  return std::unique_ptr<proto::ManifestT>(proto::GetManifest(view->manifest.data())->UnPack());
}

size_t StepsOf(const proto::ManifestT& plan, proto::StepKind kind) {
  return static_cast<size_t>(std::ranges::count_if(plan.steps, [&](const auto& step) { return step->kind == kind; }));
}

Graph ParseOrFail(std::string_view text) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return std::move(graph).value();
}

TEST(FindContests, MakesAGraphOfEachKernelThatTheLibraryCouldCompute) {
  const Graph graph = ParseOrFail(kTwo);
  const auto found = FindContests(graph, Options(), {{64}, {128}}, {});
  ASSERT_TRUE(found) << found.error().ToText();
  ASSERT_EQ(found->contests.size(), 2u);
  for (const auto& contest : found->contests) {
    const Digest kernel{contest->kernel_low, contest->kernel_high};
    const Graph part = ParseOrFail(contest->graph);
    const auto ours = Compile(part, Options());
    ASSERT_TRUE(ours) << ours.error().ToText();
    const auto plan = PlanOf(*ours);
    ASSERT_EQ(plan->kernels.size(), 1u);
    EXPECT_EQ(GraphDigest(part), kernel);
    EXPECT_EQ(StepsOf(*plan, proto::StepKind::Aten), 0u);
    CompileOptions other = Options();
    other.recipe = ByLibrary(kernel);
    const auto library = Compile(part, other);
    ASSERT_TRUE(library) << library.error().ToText();
    EXPECT_EQ(StepsOf(*PlanOf(*library), proto::StepKind::Aten), 1u);
    ASSERT_EQ(contest->sizes.size(), 2u);
    EXPECT_EQ(contest->sizes[0]->inputs.size(), part.inputs.size());
  }
  EXPECT_EQ(found->contests[0]->sizes[1]->inputs[0]->dtype, "f32");
  EXPECT_THAT(found->contests[0]->sizes[1]->inputs[0]->sizes, ElementsAre(128, 32));
  EXPECT_THAT(found->contests[0]->sizes[1]->inputs[0]->strides, ElementsAre(32, 1));
}

/// Between callers who lay images out as PyTorch does: both its image and its weight are copied for our kernel.
constexpr std::string_view kAlone = R"(graph @f(%x: f32[2, 16, 12, 12], %w: f32[16, 8, 4, 4]) {
  %0 = aten.conv_transpose2d.input(%x, %w, none, [2, 2], [1, 1], [0, 0], 1, [1, 1]) : f32[2, 8, 24, 24]
  %1 = aten.relu(%0) : f32[2, 8, 24, 24]
  return %1
})";

TEST(FindContests, CountsTheCopiesThatAKernelAsksForAndTheLibraryDoesNot) {
  const Graph graph = ParseOrFail(kAlone);
  const auto found = FindContests(graph, Options(), {{}}, {});
  ASSERT_TRUE(found) << found.error().ToText();
  ASSERT_EQ(found->contests.size(), 1u);
  const Graph part = ParseOrFail(found->contests[0]->graph);
  EXPECT_THAT(found->contests[0]->graph, testing::Not(testing::HasSubstr("clone")));
  const auto ours = Compile(part, Options());
  EXPECT_GT(StepsOf(*PlanOf(*ours), proto::StepKind::Kernel), 1u);
  CompileOptions options = Options();
  options.recipe = ByLibrary(GraphDigest(part));
  const auto alone = Compile(part, options), whole = Compile(graph, options);
  ASSERT_TRUE(alone) << alone.error().ToText();
  ASSERT_TRUE(whole) << whole.error().ToText();
  EXPECT_EQ(PlanOf(*alone)->steps.size(), 1u);
  EXPECT_EQ(StepsOf(*PlanOf(*whole), proto::StepKind::Aten), 1u);
  EXPECT_EQ(StepsOf(*PlanOf(*whole), proto::StepKind::Kernel), 1u) << "what follows it";
}

TEST(FindContests, LeavesOutWhatIsKnownOrTooLargeOrHasNoLibrary) {
  const Graph graph = ParseOrFail(kTwo);
  const auto all = FindContests(graph, Options(), {{64}}, {});
  const Digest first{all->contests.at(0)->kernel_low, all->contests.at(0)->kernel_high};
  const auto rest = FindContests(graph, Options(), {{64}}, {first});
  ASSERT_EQ(rest->contests.size(), 1u);
  EXPECT_EQ(rest->contests[0]->graph, all->contests[1]->graph);
  EXPECT_TRUE(FindContests(graph, Options(), {}, {})->contests.empty());
  EXPECT_TRUE(FindContests(graph, Options(), {{int64_t{1} << 40}}, {})->contests.empty());
  const Graph sum = ParseOrFail("graph @f(%x: f32[64]) {\n  %0 = aten.relu(%x) : f32[64]\n  return %0\n}");
  EXPECT_TRUE(FindContests(sum, Options(), {{}}, {})->contests.empty());
}

TEST(Compile, LeavesAProductToTheLibraryWhereThatIsChosen) {
  const Graph graph = ParseOrFail(kTwo);
  const auto found = FindContests(graph, Options(), {{64}}, {});
  const Digest second{found->contests.at(1)->kernel_low, found->contests.at(1)->kernel_high};
  CompileOptions options = Options();
  const auto ours = Compile(graph, options);
  options.recipe = ByLibrary(second);
  options.recipe = [&] {  // What is said of others, or twice, changes nothing.
    auto recipe = std::make_shared<proto::RecipeT>(*options.recipe);
    for (const Digest& kernel : {Digest{1, 2}, second}) {
      recipe->choices.push_back(std::move(ByLibrary(kernel)->choices[0]));
    }
    return recipe;
  }();
  const auto library = Compile(graph, options);
  ASSERT_TRUE(library) << library.error().ToText();
  const auto plan = PlanOf(*library);
  EXPECT_EQ(StepsOf(*plan, proto::StepKind::Aten), 1u);
  EXPECT_EQ(StepsOf(*plan, proto::StepKind::Kernel), 2u) << "the first product, and the sigmoid";
  ASSERT_TRUE(plan->recipe);
  ASSERT_EQ(plan->recipe->choices.size(), 1u);
  EXPECT_EQ(plan->recipe->choices[0]->schedule, kByLibrary);
  // By its own recipe it is the same again; by none it is the kernel.
  options.recipe = std::make_shared<const proto::RecipeT>(*plan->recipe);
  EXPECT_EQ(Compile(graph, options)->bytes, library->bytes);
  EXPECT_NE(ours->bytes, library->bytes);
}

}  // namespace
}  // namespace ingot::compiler
