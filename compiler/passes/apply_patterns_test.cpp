// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/apply_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

/// A pattern of one vector and, where there are four bodies, of any number.
std::string PatternText(const std::vector<std::string>& bodies) {
  std::string text = "pattern \"p\" {\n";
  for (const std::string& body : bodies) {
    text += "graph @g(%x: f32[s0]) symbols(s0 = %x.dim(0)) { " + body + " return %r }\n";
  }
  return text + "}\n";
}

struct Applied {
  std::string text;  ///< Of the graph, patterns left out.
  PatternUse use;
};

Applied Apply(const std::string& body, const std::vector<std::string>& bodies) {
  Result<Graph> graph = Parse("graph @f(%x: f32[4], %y: f32[4]) { " + body + " return %r }\n" + PatternText(bodies));
  EXPECT_TRUE(graph) << graph.error().ToText();
  if (!graph) return {};
  const auto uses = std::make_shared<std::vector<PatternUse>>();
  Pipeline pipeline;
  pipeline.AddGroup({{"apply-patterns", ApplyPatterns(uses)}, {"nothing", [](Graph&) { return false; }}});
  const auto runs = pipeline.Run(*graph, {});
  EXPECT_TRUE(runs) << runs.error().ToText();
  graph->patterns.clear();
  return {Print(*graph), uses->at(0)};
}

const std::vector<std::string> kExpOfSin = {"%0 = aten.sin(%x) : f32[s0] %r = aten.exp(%0) : f32[s0]",
                                            "%0 = aten.cos(%x) : f32[s0] %r = aten.exp(%0) : f32[s0]"};

TEST(ApplyPatterns, SaysWhereAndWhyNot) {
  const Applied applied = Apply(
      "%0 = aten.sin(%x) : f32[4] %1 = aten.exp(%0) : f32[4] %2 = aten.sin(%1) : f32[4] %3 = aten.exp(%2) : f32[4] "
      "%4 = aten.add.Tensor(%3, %2, 1) : f32[4] %r = aten.exp(%4) : f32[4]",
      kExpOfSin);
  EXPECT_EQ(applied.use.replaced, 1u);
  EXPECT_EQ(applied.use.why, "what aten.sin gives is also used by aten.add.Tensor");
  EXPECT_THAT(applied.text, HasSubstr("aten.cos(%x)"));
  EXPECT_EQ(Apply("%r = aten.neg(%x) : f32[4]", kExpOfSin).use.why, "the graph has no aten.exp");
  EXPECT_THAT(Apply("%r = aten.exp(%x) : f32[4]", kExpOfSin).use.why,
              HasSubstr("is an input f32[4], expected aten.sin"));
}

TEST(ApplyPatterns, TakesNumbersFromThePlace) {
  const std::string search = "%r = aten.leaky_relu(%x, 0.5) : f32[s0]",
                    varied = "%r = aten.leaky_relu(%x, 0.75) : f32[s0]";
  const std::string body = "%0 = aten.leaky_relu(%x, 0.125) : f32[4] %r = aten.neg(%0) : f32[4]";
  const auto mul = [](const char* number) {
    return std::string("%r = aten.mul.Tensor(%x, number ") + number + ") : f32[s0]";
  };
  const Applied applied = Apply(body, {search, mul("0.5"), varied, mul("0.75")});
  EXPECT_EQ(applied.use.replaced, 1u);
  EXPECT_THAT(applied.text, HasSubstr("aten.mul.Tensor(%x, number 0.125)"));
  EXPECT_EQ(Apply(body, {search, mul("1.0"), varied, mul("1.5")}).use.why,
            "replace computes with a number that search does not use as it is");
  EXPECT_EQ(Apply(body, {search, mul("0.5"), "%r = aten.neg(%x) : f32[s0]", mul("0.75")}).use.why,
            "other numbers change what search computes");
  // A number that is written down in both is that number.
  EXPECT_EQ(Apply(body, {search, mul("0.5"), search, mul("0.5")}).use.replaced, 0u);
}

TEST(ApplyPatterns, KnowsWhatMakesNoPattern) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"%r = ns.own(%x) {opaque} : f32[s0]", "search uses ns.own, whose effects nobody knows"},
      {"%0 = aten.sin(%x) : f32[s0] %1, %r = aten.sort(%0, 0, false) : f32[s0], i64[s0]",
       "search uses aten.sort, which has several results"},
      {"%r = aten.full([s0], 1.0, dtype f32, none, \"cpu\", none) : f32[s0]", "search does not use its argument 'x'"},
  };
  for (const auto& [search, why] : faults) {
    const Applied applied = Apply("%r = aten.neg(%x) : f32[4]", {search, "%r = aten.neg(%x) : f32[s0]"});
    EXPECT_EQ(applied.use.why, why);
    EXPECT_EQ(applied.use.replaced, 0u);
  }
}

}  // namespace
}  // namespace ingot::compiler
