// SPDX-License-Identifier: Apache-2.0
#include "compiler/improve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/text.h"
#include "compiler/loop/text.h"
#include "compiler/lowered_graph.h"
#include "compiler/plan/arena.h"
#include "proto/artifact_file.h"

namespace ingot::compiler {
namespace {

using testing::HasSubstr;

/// Products of matrices of several widths, each of an earlier one: buffers that live for different times, which an
/// arena holds in more bytes than are alive at once until somebody looks for better. `rows`: "16", or a symbol.
std::string ProductsText(unsigned seed, const std::string& rows) {
  constexpr int64_t kWidths[] = {16, 32, 64, 112, 208};
  constexpr size_t kProducts = 40, kReach = 20;
  std::mt19937 random(seed);
  std::vector<int64_t> widths = {kWidths[0]};
  std::string weights, body;
  for (size_t i = 1; i <= kProducts; ++i) {
    const size_t from = i <= kReach ? random() % i : i - 1 - random() % kReach;
    widths.push_back(kWidths[random() % std::size(kWidths)]);
    weights += fmt::format(", %w{}: f32[{}, {}]", i, widths[from], widths[i]);
    body += fmt::format("  %t{} = aten.mm(%{}, %w{}) : f32[{}, {}]\n", i, from == 0 ? "x" : fmt::format("t{}", from), i,
                        rows, widths[i]);
  }
  const std::string symbols = rows == "s0" ? " symbols(s0 = %x.dim(0))" : "";
  std::string text =
      fmt::format("graph @f(%x: f32[{}, {}]{}){} {{\n{}  return ", rows, widths[0], weights, symbols, body);
  for (size_t i = kProducts - 3; i <= kProducts; ++i) text += fmt::format("%t{}{}", i, i == kProducts ? "\n}" : ", ");
  return text;
}

CompileOptions HostOptions() {
  CompileOptions options;
  options.target = *TargetSpec::Host();
  options.prove = false;
  return options;
}

constexpr uint64_t kSteps = 200'000;

/// The first graph of those above whose arena a search makes smaller.
struct Loose {
  Graph graph;
  proto::FindingsT found;
};
std::optional<Loose> FindLoose(const std::string& rows, const std::vector<std::vector<int64_t>>& sizes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto graph = Parse(ProductsText(seed, rows));
    EXPECT_TRUE(graph) << graph.error().ToText();
    if (!graph) return std::nullopt;
    auto found = Improve(*graph, HostOptions(), {.sizes = sizes, .arena_steps = kSteps});
    EXPECT_TRUE(found) << found.error().ToText();
    if (found && !found->recipe->arenas.empty()) return Loose{*graph, std::move(*found)};
  }
  return std::nullopt;
}

std::unique_ptr<proto::ManifestT> ManifestOf(const Artifact& artifact) {
  const auto view = proto::OpenArtifact(artifact.bytes);
  EXPECT_TRUE(view);
  return std::unique_ptr<proto::ManifestT>(proto::GetManifest(view->manifest.data())->UnPack());
}

TEST(Improve, FindsASmallerArenaThatCompilingByItsRecipeGives) {
  const std::optional<Loose> loose = FindLoose("16", {{}});
  ASSERT_TRUE(loose);
  ASSERT_EQ(loose->found.recipe->arenas.size(), 1u);
  CompileOptions options = HostOptions();
  const auto before = Compile(loose->graph, options);
  ASSERT_TRUE(before) << before.error().ToText();
  options.recipe = std::make_shared<proto::RecipeT>(*loose->found.recipe);
  const auto after = Compile(loose->graph, options), again = Compile(loose->graph, options);
  ASSERT_TRUE(after) << after.error().ToText();
  EXPECT_EQ(after->bytes, again->bytes);
  EXPECT_NE(after->digest, before->digest);
  const auto old_plan = ManifestOf(*before), new_plan = ManifestOf(*after);
  EXPECT_FALSE(old_plan->recipe);
  ASSERT_TRUE(new_plan->recipe);
  EXPECT_EQ(new_plan->provenance->arena_bytes + loose->found.arena_bytes_saved, old_plan->provenance->arena_bytes);
  EXPECT_GE(new_plan->provenance->arena_bytes, new_plan->provenance->arena_bytes_min);
  EXPECT_EQ(new_plan->recipe->arenas[0]->bytes, new_plan->provenance->arena_bytes);
  // What is inside is what it was made by.
  options.recipe = std::make_shared<proto::RecipeT>(*new_plan->recipe);
  EXPECT_EQ(Compile(loose->graph, options)->bytes, after->bytes);
  // And it is all that there is to find.
  const auto more = Improve(loose->graph, options, {.sizes = {{}}, .arena_steps = kSteps});
  ASSERT_TRUE(more);
  EXPECT_EQ(more->arena_bytes_saved, 0u);
  EXPECT_EQ(more->recipe->arenas.size(), 1u);
}

TEST(Improve, LooksAtEachSizeOfATemplate) {
  const std::optional<Loose> loose = FindLoose("s0", {{32}, {48}});
  ASSERT_TRUE(loose);
  CompileOptions options = HostOptions();
  options.recipe = std::make_shared<proto::RecipeT>(*loose->found.recipe);
  const auto artifact = Compile(loose->graph, options);
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  const auto plan = ManifestOf(*artifact);
  for (const auto& layout : plan->recipe->arenas) {
    const auto lifetimes = ArenaLifetimes(*plan, layout->values);
    EXPECT_LT(static_cast<int64_t>(layout->bytes), kernels::SolveArena(lifetimes).bytes);
    EXPECT_TRUE(kernels::IsArenaLayout(lifetimes, layout->offsets, layout->bytes));
  }
  // More sizes, later: what is known stays as it is.
  const auto more = Improve(loose->graph, options, {.sizes = {{32}, {48}, {64}}, .arena_steps = kSteps});
  ASSERT_TRUE(more);
  EXPECT_EQ(more->recipe->arenas[0]->offsets, loose->found.recipe->arenas[0]->offsets);
}

TEST(Improve, RefusesSizesOfAnotherGraph) {
  const auto graph = Parse(ProductsText(0, "16"));
  const auto found = Improve(*graph, HostOptions(), {.sizes = {{4}}, .arena_steps = 1});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Code::kInvalid);
  EXPECT_THAT(found.error().message(), HasSubstr("1 values for 0 symbols"));
}

TEST(Compile, RefusesARecipeThatWouldMakeBuffersMeet) {
  const std::optional<Loose> loose = FindLoose("16", {{}});
  ASSERT_TRUE(loose);
  CompileOptions options = HostOptions();
  const auto refused = [&](const auto& change) {
    auto recipe = std::make_shared<proto::RecipeT>(*loose->found.recipe);
    change(*recipe);
    options.recipe = recipe;
    const auto artifact = Compile(loose->graph, options);
    EXPECT_FALSE(artifact);
    return artifact ? "" : artifact.error().ToText();
  };
  EXPECT_THAT(refused([](proto::RecipeT& recipe) {
                for (uint64_t& offset : recipe.arenas[0]->offsets) offset = 0;
              }),
              HasSubstr("none of the plan's arena"));
  EXPECT_THAT(refused([](proto::RecipeT& recipe) { recipe.arenas[0]->offsets.pop_back(); }),
              HasSubstr("none of the plan's arena"));
  EXPECT_THAT(refused([](proto::RecipeT& recipe) { recipe.arenas[0]->bytes -= 64; }),
              HasSubstr("none of the plan's arena"));
  EXPECT_THAT(refused([](proto::RecipeT& recipe) { recipe.arenas[0]->values = {3}; }), HasSubstr("1 values for 0"));
  EXPECT_THAT(refused([](proto::RecipeT& recipe) {
                recipe.arenas.push_back(std::make_unique<proto::ArenaLayoutT>(*recipe.arenas[0]));
              }),
              HasSubstr("none of the plan's arena"));
}

/// One product of many rows, of which the target offers several schedules.
constexpr std::string_view kProduct = R"(graph @f(%x: f32[512, 32], %w: f32[32, 1536]) {
  %y = aten.mm(%x, %w) : f32[512, 1536]
  return %y
})";

/// The kernel of that graph, and the schedules it has beside its first.
struct Product {
  Graph graph;
  Digest kernel;
  std::vector<loop::Schedule> schedules;
};
Product ProductOf() {
  Product product{*Parse(kProduct), {}, {}};
  const auto lowered = LowerGraph(product.graph, HostOptions());
  EXPECT_TRUE(lowered) << lowered.error().ToText();
  EXPECT_EQ(lowered->fused.kernels.size(), 1u);
  product.kernel = loop::KernelDigest(lowered->fused.kernels.at(0));
  product.schedules = lowered->target->Schedules(lowered->fused.kernels.at(0));
  EXPECT_GT(product.schedules.size(), 1u);
  return product;
}

std::shared_ptr<proto::RecipeT> Choosing(const Digest& kernel, const std::string& schedule) {
  auto recipe = std::make_shared<proto::RecipeT>();
  recipe->choices.push_back(std::make_unique<proto::KernelChoiceT>());
  recipe->choices[0]->kernel_low = kernel.low;
  recipe->choices[0]->kernel_high = kernel.high;
  recipe->choices[0]->schedule = schedule;
  return recipe;
}

TEST(Compile, TakesTheScheduleThatIsChosenWhereItsTargetOffersIt) {
  const Product product = ProductOf();
  CompileOptions options = HostOptions();
  options.prove = true;
  const auto first = Compile(product.graph, options);
  ASSERT_TRUE(first) << first.error().ToText();
  for (size_t i = 1; i < product.schedules.size(); ++i) {
    options.recipe = Choosing(product.kernel, loop::Print(product.schedules[i]));
    const auto chosen = Compile(product.graph, options);
    ASSERT_TRUE(chosen) << chosen.error().ToText();
    EXPECT_NE(chosen->digest, first->digest);
    const auto plan = ManifestOf(*chosen);
    ASSERT_TRUE(plan->recipe);
    ASSERT_EQ(plan->recipe->choices.size(), 1u);
    EXPECT_EQ(plan->recipe->choices[0]->schedule, loop::Print(product.schedules[i]));
    EXPECT_GT(plan->provenance->proof_kernels, 0u);
  }
  // What is said of other kernels, or is not offered, or is the first anyhow, changes nothing.
  for (const auto& [kernel, schedule] :
       {std::pair(Digest{1, 2}, loop::Print(product.schedules[1])), std::pair(product.kernel, std::string("tile i 1")),
        std::pair(product.kernel, loop::Print(product.schedules[0])), std::pair(product.kernel, std::string())}) {
    options.recipe = Choosing(kernel, schedule);
    EXPECT_EQ(Compile(product.graph, options)->bytes, first->bytes) << schedule;
  }
}

TEST(Improve, MeasuresEachKernelOnceAndChoosesAmongItsSchedules) {
  const Product product = ProductOf();
  ImproveOptions improve{.sizes = {{}}, .measure_ms = 2000};
  const auto found = Improve(product.graph, HostOptions(), improve);
  ASSERT_TRUE(found) << found.error().ToText();
  ASSERT_EQ(found->measured.size(), 1u);
  const proto::MeasuredT& measured = *found->measured[0];
  EXPECT_EQ((Digest{measured.kernel_low, measured.kernel_high}), product.kernel);
  EXPECT_GT(measured.candidates, 1u);
  EXPECT_GT(measured.first_ns, 0u);
  EXPECT_EQ(found->recipe->choices.size(), measured.schedule.empty() ? 0u : 1u);
  if (!measured.schedule.empty()) {
    EXPECT_TRUE(
        std::ranges::any_of(product.schedules, [&](const auto& one) { return loop::Print(one) == measured.schedule; }));
    EXPECT_LT(measured.best_ns, measured.first_ns);
  }
  improve.known = {product.kernel};
  EXPECT_TRUE(Improve(product.graph, HostOptions(), improve)->measured.empty());
  improve.known.clear();
  improve.measure_ms = 0;
  EXPECT_TRUE(Improve(product.graph, HostOptions(), improve)->measured.empty());
  // What would leave some of so many processors idle is none of the candidates.
  improve.measure_ms = 2000;
  improve.processors = 64;
  const auto many = Improve(product.graph, HostOptions(), improve);
  for (const auto& one : many->measured) EXPECT_LT(one->candidates, measured.candidates);
}

TEST(Improve, KeepsTheChoicesThatAreKnownForItsKernels) {
  const Product product = ProductOf();
  CompileOptions options = HostOptions();
  options.recipe = Choosing(product.kernel, loop::Print(product.schedules[1]));
  const auto found = Improve(product.graph, options, {.sizes = {{}}});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->recipe->choices.size(), 1u);
  options.recipe = Choosing({1, 2}, loop::Print(product.schedules[1]));
  EXPECT_TRUE(Improve(product.graph, options, {.sizes = {{}}})->recipe->choices.empty());
}

}  // namespace
}  // namespace ingot::compiler
