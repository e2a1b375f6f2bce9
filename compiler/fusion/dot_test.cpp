// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/dot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string DotOf(std::string_view text) {
  const auto graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  std::map<NodeId, std::string> reasons;
  const auto fused = Fuse(*graph, &reasons);
  EXPECT_TRUE(fused) << fused.error().ToText();
  return ToDot(*graph, *fused, reasons);
}

size_t CountOf(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr std::string_view kTwoKernels = R"(graph @f(%x: f32[4, 8], %w: f32[8, 8] weight "layer.weight") {
  %a = aten.silu(%x) : f32[4, 8]
  %b = aten.neg(%a) : f32[4, 8]
  %c = aten.linalg_solve(%b, %w) : f32[4, 8]
  %d = aten.relu(%c) : f32[4, 8]
  return %d
})";

// What is one kernel stands in one cluster, what ATen does outside, and lines lead from one to the next.
TEST(ToDot, DrawsKernelsAsClusters) {
  EXPECT_EQ(DotOf(kTwoKernels), R"(digraph "f" {
  graph [rankdir=TB, nodesep=0.25, ranksep=0.35, bgcolor=transparent, fontname="Helvetica", fontsize=11]
  node [shape=box, style=rounded, height=0.3, margin="0.1,0.04", fontname="Helvetica", fontsize=11]
  edge [arrowsize=0.6]
  v0 [class=input, shape=ellipse, label="x\nf32[4, 8]", tooltip="input"]
  v1 [class=weight, shape=ellipse, label="layer.weight\nf32[8, 8]", tooltip="weight"]
  subgraph cluster_1 {
    class=kernel
    style="rounded,dashed"
    label="kernel k1_silu_neg"
    tooltip="kernel k1_silu_neg"
    k1_0 [class=op, label="silu\nf32[4, 8]", tooltip="aten.silu"]
    k1_1 [class=op, label="neg\nf32[4, 8]", tooltip="aten.neg"]
  }
  n2 [class=aten, label="linalg_solve\nf32[4, 8]", tooltip="aten.linalg_solve: no rule for this operator"]
  subgraph cluster_0 {
    class=kernel
    style="rounded,dashed"
    label="kernel k0_relu"
    tooltip="kernel k0_relu"
    k0_3 [class=op, label="relu\nf32[4, 8]", tooltip="aten.relu"]
  }
  o0 [class=result, shape=ellipse, label="result\nf32[4, 8]"]
  v0 -> k1_0
  k1_0 -> k1_1
  k1_1 -> n2
  v1 -> n2
  n2 -> k0_3
  k0_3 -> o0
}
)");
}

// A value that is read twice by one operator is one line.
TEST(ToDot, DrawsEachLineOnce) {
  const std::string dot = DotOf(R"(graph @f(%x: f32[4]) {
  %a = aten.mul.Tensor(%x, %x) : f32[4]
  return %a
})");
  EXPECT_EQ(CountOf(dot, " -> "), 2u) << dot;
}

// Names come from users' code: none ends its quotes, and none is taken for graphviz' escapes.
TEST(ToDot, QuotesNames) {
  const std::string dot = DotOf(R"(graph @f(%x: f32[4], %w: f32[4] weight "a\"]; evil [label=\"\\n\x0a") {
  %a = aten.add.Tensor(%x, %w, number 1) : f32[4]
  return %a
})");
  EXPECT_THAT(dot, HasSubstr(R"(label="a\"]; evil [label=\"\\n \nf32[4]")")) << dot;
}

// A name may have any length; a box may not.
TEST(ToDot, CutsLongNames) {
  const std::string name(5000, 'a');
  const std::string dot = DotOf("graph @f(%x: f32[4] input \"" + name + R"(") {
  %a = aten.neg(%x) : f32[4]
  return %a
})");
  EXPECT_THAT(dot, Not(HasSubstr(name.substr(0, 100))));
  EXPECT_THAT(dot, HasSubstr("aaa...aaa"));
}

TEST(ToDot, LeavesStridesAway) {
  const std::string dot = DotOf(R"(graph @f(%x: f32[4, 8]) {
  %a = aten.t(%x) : f32[8, 4] strides [1, 8]
  %b = aten.neg(%a) : f32[8, 4] strides [1, 8]
  return %b
})");
  EXPECT_THAT(dot, HasSubstr(R"(neg\nf32[8, 4]")"));
  EXPECT_THAT(dot, Not(HasSubstr("strides")));
}

TEST(ToDot, DrawsWritesAndResultsThatAreInputs) {
  const std::string dot = DotOf(R"(graph @f(%x: f32[4]) {
  %a = aten.neg(%x) : f32[4]
  write %x = %a
  return %a, %x
})");
  EXPECT_THAT(dot, HasSubstr(R"(w0 [class=result, shape=ellipse, label="written to\nx"])"));
  EXPECT_THAT(dot, HasSubstr("k0_0 -> w0"));
  EXPECT_THAT(dot, HasSubstr("v0 -> o1"));
}

}  // namespace
}  // namespace ingot::compiler
