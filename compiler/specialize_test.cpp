// SPDX-License-Identifier: Apache-2.0
#include "compiler/specialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compile.h"
#include "compiler/ir/text.h"
#include "compiler/loop/text.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kSoftmaxOfRows = R"(graph @f(%x: f32[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %y = aten.softmax.int(%x, -1, none) : f32[s0, s1]
  return %y
})";

Graph GraphOf(std::string_view text) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return *graph;
}

std::unique_ptr<Target> HostTarget() {
  const auto spec = TargetSpec::Host();
  EXPECT_TRUE(spec) << spec.error().ToText();
  auto target = Target::Make(*spec);
  EXPECT_TRUE(target) << target.error().ToText();
  return std::move(*target);
}

/// The fused graph, with kernels for the gears.
Fused Specialized(std::string_view text, const std::vector<Gear>& gears) {
  const Graph graph = GraphOf(text);
  auto fused = Fuse(graph);
  EXPECT_TRUE(fused) << fused.error().ToText();
  const Status status = Specialize(graph, gears, *HostTarget(), *fused);
  EXPECT_TRUE(status) << status.error().ToText();
  return *fused;
}

TEST(Specialize, FixesWhatLiesAlongTheLanesAlone) {
  const Fused fused = Specialized(kSoftmaxOfRows, {{4, 24}, {8, 40}});
  ASSERT_EQ(fused.specials.size(), 2);
  EXPECT_EQ(fused.specials[0].kernel, 0);
  EXPECT_THAT(fused.specials[0].values, ElementsAre(24));
  const loop::Kernel& special = fused.kernels[fused.specials[0].special];
  EXPECT_EQ(special.rows.back().ToText(), fused.kernels[0].rows.back().ToText());
  EXPECT_EQ(special.row_buffers[0].extent, Dim(24));
}

TEST(Specialize, SharesWhatGearsHaveInCommon) {
  const Fused fused = Specialized(kSoftmaxOfRows, {{1, 24}, {4, 24}, {8, 24}, {4, 40}});
  EXPECT_EQ(fused.kernels.size(), 3);
  EXPECT_EQ(fused.specials.size(), 2);
}

TEST(Specialize, SharesKernelsThatBecomeEqual) {
  // One sum goes over the rows of %x, one over those of %y: the same code where both have 24 elements.
  const Fused fused = Specialized(R"(graph @f(%x: f32[8, s0], %y: f32[8, s1])
      symbols(s0 = %x.dim(1), s1 = %y.dim(1)) {
    %a = aten.softmax.int(%x, -1, none) : f32[8, s0]
    %b = aten.softmax.int(%y, -1, none) : f32[8, s1]
    return %a, %b
  })",
                                  {{24, 24}, {40, 24}});
  EXPECT_EQ(fused.launches.size(), 2);
  EXPECT_EQ(fused.kernels.size(), 3);
}

TEST(Specialize, LeavesLongLoopsToTheGeneralKernel) {
  EXPECT_EQ(Specialized(kSoftmaxOfRows, {{4, 256}, {4, 257}, {4, 4096}}).specials.size(), 1);
}

TEST(Specialize, LeavesKernelsWhoseLanesAreKnown) {
  const Fused fused = Specialized(R"(graph @f(%x: f32[s0, 64]) symbols(s0 = %x.dim(0)) {
    %y = aten.softmax.int(%x, -1, none) : f32[s0, 64]
    return %y
  })",
                                  {{4}, {8}});
  EXPECT_EQ(fused.specials.size(), 0);
  EXPECT_EQ(fused.kernels.size(), 1);
}

TEST(Specialize, LeavesKernelsThatHardlyMatter) {
  // The sum of two rows of 64 stands beside what 64 x 512 x 512 go into.
  const std::vector<Gear> gears = {{16}};
  const Fused fused = Specialized(R"(graph @f(%x: f32[s0, 512], %m: f32[2, s0], %w: f32[512, 512] weight "w")
      symbols(s0 = %x.dim(0)) {
    %a = aten.linalg_solve(%x, %w) : f32[s0, 512]
    %b = aten.softmax.int(%m, -1, none) : f32[2, s0]
    return %a, %b
  })",
                                  gears);
  EXPECT_EQ(fused.specials.size(), 0);
  EXPECT_THAT(fused.deciding, ElementsAre(std::vector<uint16_t>()));
}

TEST(Specialize, FixesNeighbouringRowsWhereTheyLieAlongTheLanes) {
  const Fused fused = Specialized(R"(graph @f(%x: f32[4, 100, s0]) symbols(s0 = %x.dim(2)) {
    %y = aten.sum.dim_IntList(%x, [1], false, none) : f32[4, s0]
    return %y
  })",
                                  {{5}, {2}, {400}});
  ASSERT_EQ(fused.specials.size(), 2);
  EXPECT_EQ(fused.kernels[fused.specials[0].special].symbol_count, 0);
}

TEST(Specialize, RefusesGearsThatAreNone) {
  const Graph graph = GraphOf(kSoftmaxOfRows);
  auto fused = Fuse(graph);
  ASSERT_TRUE(fused);
  const std::vector<Gear> short_one = {{4}};
  Status status = Specialize(graph, short_one, *HostTarget(), *fused);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalid);
  EXPECT_THAT(status.error().message(), HasSubstr("1 sizes for a graph of 2 symbols"));
  const std::vector<Gear> empty_one = {{4, 0}};
  status = Specialize(graph, empty_one, *HostTarget(), *fused);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalid);
  EXPECT_EQ(fused->specials.size(), 0);
}

/// The manifest of a compile, proved.
proto::ManifestT Manifest(const std::vector<Gear>& gears) {
  auto target = TargetSpec::Host();
  EXPECT_TRUE(target) << target.error().ToText();
  const auto artifact = Compile(GraphOf(kSoftmaxOfRows), {.target = *target, .gears = gears});
  EXPECT_TRUE(artifact) << artifact.error().ToText();
  const auto again = Compile(GraphOf(kSoftmaxOfRows), {.target = *target, .threads = 3, .gears = gears});
  EXPECT_EQ(again->digest, artifact->digest);
  const auto view = proto::OpenArtifact(artifact->bytes);
  EXPECT_TRUE(view) << view.error().ToText();
  proto::ManifestT manifest;
  proto::GetManifest(view->manifest.data())->UnPackTo(&manifest);
  return manifest;
}

TEST(Specialize, ReachesTheArtifact) {
  const proto::ManifestT general = Manifest({});
  ASSERT_EQ(general.kernels.size(), 1);
  EXPECT_EQ(general.kernels[0]->deciding.size(), 1);
  EXPECT_EQ(general.kernels[0]->specials.size(), 0);
  const proto::ManifestT special = Manifest({{4, 24}, {4, 40}});
  ASSERT_EQ(special.kernels.size(), 3);
  ASSERT_EQ(special.kernels[0]->specials.size(), 2);
  EXPECT_THAT(special.kernels[0]->specials[1]->values, ElementsAre(40));
  EXPECT_EQ(special.kernels[0]->specials[1]->kernel, 2);
  EXPECT_EQ(special.kernels[0]->digest_low, general.kernels[0]->digest_low);
  EXPECT_EQ(special.provenance->proof_kernels, 3);
}

}  // namespace
}  // namespace ingot::compiler
