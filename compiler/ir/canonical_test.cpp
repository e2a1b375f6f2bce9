// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

Graph MustParse(std::string_view text) {
  Result<Graph> graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  return graph ? std::move(*graph) : Graph();
}

TEST(CanonicalBytes, IgnoresNamesTimesAndNumbering) {
  Graph a = MustParse(
      "graph @f(%x: f32[4], %w: f32[4] weight \"a.w\") {"
      " %0 = aten.add.Tensor(%x, %w, number 1) : f32[4] return %0 }");
  Graph b = MustParse(
      "graph @g(%y: f32[4], %v: f32[4] weight \"b.w\") {"
      " %0 = aten.relu(%y) : f32[4]"
      " %sum = aten.add.Tensor(%y, %v, number 1) : f32[4] return %sum }");
  b.RemoveNode(0);
  Node timed = b.node(1);
  timed.eager_s = 3;
  b.SetOutputs({b.node(b.AddNode(std::move(timed), {b.type(b.outputs[0])})).results[0]});
  b.RemoveNode(1);
  EXPECT_EQ(CanonicalBytes(a), CanonicalBytes(b));
  EXPECT_EQ(GraphDigest(a), GraphDigest(b));
}

// Each line differs from the first in one thing that changes what the program computes.
TEST(CanonicalBytes, TellsProgramsApart) {
  constexpr const char* kBodies[] = {
      "%0 = aten.f(%x, number 1) : f32[4] return %0",
      "%0 = aten.g(%x, number 1) : f32[4] return %0",
      "%0 = aten.f(%c, number 1) : f32[4] return %0",
      "%0 = aten.f(%x, number 2) : f32[4] return %0",
      "%0 = aten.f(%x, number 1.0) : f32[4] return %0",
      "%0 = aten.f(%x, number true) : f32[4] return %0",
      "%0 = aten.f(%x, 1) : f32[4] return %0",
      "%0 = aten.f(%x, [1]) : f32[4] return %0",
      "%0 = aten.f(%x, []) : f32[4] return %0",
      "%0 = aten.f(%x, refs []) : f32[4] return %0",
      "%0 = aten.f(%x, floats []) : f32[4] return %0",
      "%0 = aten.f(%x, 0.0) : f32[4] return %0",
      "%0 = aten.f(%x, -0.0) : f32[4] return %0",
      "%0 = aten.f(%x, number 1) : f32[5] return %0",
      "%0 = aten.f(%x, number 1) : f32[4] strides [2] return %0",
      "%0 = aten.f(%x, number 1) : f16[4] return %0",
      "%0 = aten.f(%x, number 1) {random} : f32[4] return %0",
      "%0 = aten.f(%x, number 1) {inplace = 0} : f32[4] return %0",
      "%0 = aten.f(%x, number 1) : f32[4] return %x",
      "%0 = aten.f(%x, number 1) : f32[4] write %x = %0 return %0",
      "%0 = aten.f(%x, number 1) : f32[4] return %0, %0",
  };
  std::vector<std::string> seen;
  for (const char* body : kBodies) {
    const Graph graph = MustParse("graph @f(%x: f32[4], %c: f32[1] constant \"00000000\") {" + std::string(body) + "}");
    const std::string bytes = CanonicalBytes(graph);
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_NE(bytes, seen[i]) << kBodies[i] << body;
    seen.push_back(bytes);
  }
  const Graph other =
      MustParse("graph @f(%x: f32[4], %c: f32[1] constant \"00000001\") {" + std::string(kBodies[0]) + "}");
  EXPECT_NE(CanonicalBytes(other), seen[0]);
}

TEST(CanonicalBytes, TellWhoSharesRows) {
  std::vector<std::string> seen;
  for (const char* head : {"", "sequence_parallel(\"group 0\", 2)", "sequence_parallel(\"group 1\", 2)",
                           "sequence_parallel(\"group 0\", 3)", "eager_numerics"}) {
    const std::string bytes = CanonicalBytes(MustParse("graph @f(%x: f32[4]) " + std::string(head) + " { return %x }"));
    EXPECT_EQ(std::ranges::find(seen, bytes), seen.end()) << head;
    seen.push_back(bytes);
  }
}

}  // namespace
}  // namespace ingot::compiler
