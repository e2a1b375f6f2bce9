// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rewrites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

Graph MustParse(std::string_view text) {
  Result<Graph> graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return graph ? *std::move(graph) : Graph();
}

/// exp(x) * exp(y) => exp(x + y), where nobody else needs the factors.
const RewriteSet& SumsOfExponents() {
  using namespace pattern;  // NOLINT: words of patterns
  static const auto* const set = new RewriteSet({
      {"exp(x) * exp(y)",
       Op("aten.mul.Tensor", {Op("aten.exp", {Tensor("x")}).UsedOnce(), Op("aten.exp", {Tensor("y")}).UsedOnce()}),
       [](Rewriter& rewriter, const Match& match) -> Refusal {
         const auto sum = rewriter.builder().Op("aten.add.Tensor", {Ref{match.value("x")}, Ref{match.value("y")}});
         if (!sum) return "the sum has no known type";
         return rewriter.Redefine("aten.exp", {*sum});
       }},
  });
  return *set;
}

TEST(RewriteSet, AddsNodesBeforeTheRoot) {
  Graph graph = MustParse(
      "graph @f(%x: f32[4], %y: f32[4]) { %0 = aten.exp(%x) : f32[4] %1 = aten.exp(%y) : f32[4] "
      "%2 = aten.mul.Tensor(%0, %1) : f32[4] return %2 }");
  const Result<bool> changed = SumsOfExponents().Run(graph);
  ASSERT_TRUE(changed && *changed);
  ASSERT_TRUE(Verify(graph)) << Verify(graph).error().ToText();
  ASSERT_TRUE(FindPass("dce").value()(graph));
  EXPECT_EQ(Print(graph), R"(graph @f(%x: f32[4], %y: f32[4]) {
  %0 = aten.add.Tensor(%x, %y, 1) : f32[4]
  %1 = aten.exp(%0) : f32[4]
  return %1
}
)");
  EXPECT_FALSE(SumsOfExponents().Run(graph).value());
}

TEST(RewriteSet, SaysWhatItLeavesAlone) {
  Graph graph = MustParse(
      "graph @f(%x: f32[4]) { %0 = aten.exp(%x) : f32[4] %1 = aten.mul.Tensor(%0, %0) : f32[4] "
      "%2 = aten.mul.Tensor(%1, number 2) : f32[4] return %2 }");
  const std::string before = Print(graph);
  std::vector<MissedRewrite> missed_rewrites;
  ASSERT_FALSE(SumsOfExponents().Run(graph, &missed_rewrites).value());
  EXPECT_EQ(Print(graph), before);
  ASSERT_EQ(missed_rewrites.size(), 2u);
  EXPECT_EQ(missed_rewrites[0].node, 1u);
  EXPECT_EQ(missed_rewrites[0].rewrite, "exp(x) * exp(y)");
  EXPECT_EQ(missed_rewrites[0].why,
            "operand 0 'self' of aten.mul.Tensor is aten.exp f32[4] of several uses, expected one");
  EXPECT_TRUE(missed_rewrites[0].is_near);
  EXPECT_THAT(missed_rewrites[1].why, HasSubstr("is aten.mul.Tensor f32[4], expected aten.exp"));
  EXPECT_FALSE(missed_rewrites[1].is_near);
}

TEST(RewriteSet, EndsWhatGoesRoundInCircles) {
  using namespace pattern;  // NOLINT: words of patterns
  const RewriteSet set(
      {{"x * y", Op("aten.mul.Tensor", {Tensor("x"), Tensor("y")}), [](Rewriter& rewriter, const Match& match) {
          return rewriter.Redefine("aten.mul.Tensor", {Ref{match.value("y")}, Ref{match.value("x")}});
        }}});
  Graph graph = MustParse("graph @f(%x: f32[4]) { %0 = aten.mul.Tensor(%x, %x) : f32[4] return %0 }");
  const Result<bool> changed = set.Run(graph);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), Code::kInternal);
  EXPECT_THAT(changed.error().message(), HasSubstr("aten.mul.Tensor"));
}

TEST(FindMissedRewrites, NamesRewritesThatACallerPrevents) {
  const Graph graph = MustParse("graph @f(%x: f32[4]) { %0 = aten.mul.Tensor(%x, number 1) : f32[4] return %0 }");
  const auto missed_rewrites = FindMissedRewrites(graph);
  ASSERT_TRUE(missed_rewrites);
  ASSERT_EQ(missed_rewrites->size(), 1u);
  EXPECT_EQ(missed_rewrites->front().rewrite, "x * 1");
  EXPECT_TRUE(missed_rewrites->front().is_near);
  EXPECT_THAT(missed_rewrites->front().why, HasSubstr("a caller gets the result"));
}

// Every node of the chain is rewritten: quadratic, this would take minutes.
TEST(RewriteSet, TakesLongChainsInLinearTime) {
  constexpr size_t kNodes = 200'000;
  Graph graph;
  const Type type = Type::Contiguous(DType::kF32, {4});
  ValueId value = graph.AddInput(InputKind::kInput, "x", type);
  GraphBuilder builder(graph);
  for (size_t i = 0; i < kNodes; ++i) value = builder.Typed("aten.neg", {Ref{value}}, type).id;
  value = builder.Typed("aten.exp", {Ref{value}}, type).id;
  graph.SetOutputs({value});
  ASSERT_TRUE(AlgebraRewrites().Run(graph).value());
  EXPECT_EQ(graph.node(graph.value(value).def).args[0], Arg(Ref{graph.inputs[0].value}));
  ASSERT_TRUE(Verify(graph));
}

}  // namespace
}  // namespace ingot::compiler
