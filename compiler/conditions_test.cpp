// SPDX-License-Identifier: Apache-2.0
#include "compiler/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compiler/compile.h"
#include "compiler/ir/text.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

Graph Read(std::string_view text) {
  Result<Graph> graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return graph ? *std::move(graph) : Graph();
}

/// exp(x[:, s0 - 3:]) * 2
constexpr std::string_view kTail = R"(graph @tail(%x: f32[4, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.slice.Tensor(%x, 1, s0 - 3, s0, 1) : f32[4, 3] strides [s0, 1]
  %1 = aten.exp(%0) : f32[4, 3]
  return %1
}
)";

std::string ConditionsText(const Graph& graph, const Result<Fused>& fused) {
  if (!fused) return fused.error().ToText();
  const auto conditions = ConditionsOf(graph, *fused);
  return conditions ? conditions->ToText() : conditions.error().ToText();
}

TEST(Conditions, SayWhichSizesKernelsAreFor) {
  const Graph graph = Read(kTail);
  const Result<Fused> fused = Fuse(graph);
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->launches.size(), 1u);
  EXPECT_EQ(ConditionsText(graph, fused), "s0 >= 3");
}

// No kernel reads them: windows of the caller's memory, and one that is written.
TEST(Conditions, KeepViewsWithinTheirOperands) {
  const auto of = [](const std::string& view) {
    const Graph graph = Read("graph @f(%x: f32[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {\n" + view);
    return ConditionsText(graph, Fuse(graph));
  };
  EXPECT_EQ(of("  %0 = aten.select.int(%x, 0, s0 - 3) : f32[s1]\n  return %0\n}\n"), "s0 >= 3");
  EXPECT_EQ(of("  %0 = aten.select.int(%x, 0, 4) : f32[s1]\n  return %0\n}\n"), "s0 >= 5");
  EXPECT_EQ(of("  %0 = aten.slice.Tensor(%x, 0, s0 - 3, s0 - 1, 1) : f32[2, s1]\n  return %0\n}\n"), "s0 >= 3");
  EXPECT_EQ(of("  %0 = aten.slice.Tensor(%x, 0, 1, s0, 1) : f32[s0 - 1, s1]\n  return %0\n}\n"), "");
  EXPECT_EQ(of("  %0 = aten.permute(%x, [1, 0]) : f32[s1, s0] strides [1, s1]\n  return %0\n}\n"), "");
}

/// A reader of the first version would take a quotient for 0, also where no size of the plan has one.
TEST(Conditions, WithAtomsAreOfTheSecondVersion) {
  const auto target = TargetSpec::Host();
  ASSERT_TRUE(target) << target.error().ToText();
  const auto compiled = Compile(Read(R"(graph @f(%x: f32[4, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.slice.Tensor(%x, 1, floordiv(s0, 2), floordiv(s0, 2) + 3, 1) : f32[4, 3] strides [s0, 1]
  %1 = aten.exp(%0) : f32[4, 3]
  return %1
}
)"),
                                {.target = *target});
  ASSERT_TRUE(compiled) << compiled.error().ToText();
  const auto view = proto::OpenArtifact(Bytes(compiled->bytes));
  ASSERT_TRUE(view) << view.error().ToText();
  const proto::Manifest& manifest = *proto::GetManifest(view->manifest.data());
  ASSERT_THAT(manifest.conditions()->str(), HasSubstr("floordiv(s0, 2)"));
  for (const proto::Dim* dim : *manifest.dims()) EXPECT_TRUE(dim->atoms() == nullptr || dim->atoms()->size() == 0);
  EXPECT_EQ(view->version, 2u);
}

TEST(Conditions, AreNoneWhereEverySizeDoes) {
  const Graph graph = Read(R"(graph @f(%x: f32[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.exp(%x) : f32[s0, s1]
  %1 = aten.cat([%0, %x], 1) : f32[s0, 2*s1]
  %2 = aten.slice.Tensor(%1, 1, s1, 2*s1, 1) : f32[s0, s1] strides [2*s1, 1]
  %3 = aten.neg(%2) : f32[s0, s1]
  return %3
}
)");
  EXPECT_EQ(ConditionsText(graph, Fuse(graph)), "");
}

// A graph whose offsets nobody counted from the front: the step stays with ATen, which counts itself.
TEST(Conditions, NoKernelIsMadeWhereNoSizeWouldDo) {
  const Graph graph = Read(R"(graph @f(%x: f32[4, s0], %y: f32[s1]) symbols(s0 = %x.dim(1), s1 = %y.dim(0)) {
  %0 = aten.slice.Tensor(%x, 1, -s1, 9223372036854775807, 1) : f32[4, s1] strides [s0, 1]
  %1 = aten.exp(%0) : f32[4, s1]
  return %1
}
)");
  std::map<NodeId, std::string> reasons;
  const Result<Fused> fused = Fuse(graph, &reasons);
  ASSERT_TRUE(fused);
  EXPECT_TRUE(fused->launches.empty());
  EXPECT_EQ(fused->steps.size(), 2u);
  EXPECT_THAT(reasons[1], HasSubstr("kernel exp: load 0 of p0: may lie before 4*s1 elements"));
}

// x[:, :s0] of a caller's [4, 8]: at s0 = 0 its strides reach over 24 elements that are not there.
TEST(Conditions, AskForMemoryWhereGapsWouldSeemToBeSome) {
  const Graph graph = Read(R"(graph @f(%x: f32[4, s0] strides [8, 1]) symbols(s0 = %x.dim(1)) {
  %0 = aten.exp(%x) : f32[4, s0]
  return %0
}
)");
  EXPECT_EQ(ConditionsText(graph, Fuse(graph)), "") << "its loop does not run then";
  const Graph first = Read(R"(graph @f(%x: f32[4, s0] strides [8, 1]) symbols(s0 = %x.dim(1)) {
  %0 = aten.select.int(%x, 1, 0) : f32[4] strides [8]
  %1 = aten.exp(%0) : f32[4]
  return %1
}
)");
  EXPECT_EQ(ConditionsText(first, Fuse(first)), "s0 >= 1");
}

TEST(Conditions, SayWhyAStepStaysWithAten) {
  const Graph graph = Read(R"(graph @f(%x: f32[4, 6]) {
  %0 = aten.slice.Tensor(%x, 1, 0, 6, 2) : f32[4, 3] strides [6, 2]
  %1 = aten.cat([%0, %0, %0, %0, %0, %0, %0, %0, %0], 1) : f32[4, 27]
  %2, %3 = aten.sort(%1, 1, false) : f32[4, 27], i64[4, 27]
  return %1, %2
}
)");
  std::map<NodeId, std::string> reasons;
  ASSERT_TRUE(Fuse(graph, &reasons));
  EXPECT_EQ(reasons[0], "a view of memory");
  EXPECT_EQ(reasons[1], "a cat of more than 8 parts, or of none");
  EXPECT_EQ(reasons[2], "no rule for this operator");
}

TEST(Conditions, RefuseWhatFusionMustNotMake) {
  const Graph graph = Read(kTail);
  const Result<Fused> fused = Fuse(graph);
  ASSERT_TRUE(fused);
  const auto expect = [&](const char* why, auto change) {
    Fused changed = *fused;
    change(changed.kernels[0]);
    const auto conditions = ConditionsOf(graph, changed);
    ASSERT_FALSE(conditions);
    EXPECT_EQ(conditions.error().code(), Code::kInternal);
    EXPECT_THAT(conditions.error().message(), HasSubstr(why));
  };
  expect("may lie before", [](loop::Kernel& kernel) {
    for (loop::Inst& inst : kernel.insts) {
      if (inst.op == loop::ScalarOp::kLoad) inst.index.offset = Dim(-3);
    }
  });
  expect("may lie behind", [](loop::Kernel& kernel) {
    for (loop::Inst& inst : kernel.insts) {
      if (inst.op == loop::ScalarOp::kStore) inst.index.offset = Dim(1);
    }
  });
  expect("stands for", [](loop::Kernel& kernel) { kernel.params[0].elements = kernel.params[0].elements + Dim(9); });
  expect("another number of symbols", [](loop::Kernel& kernel) { kernel.symbol_count = 2; });
}

}  // namespace
}  // namespace ingot::compiler
