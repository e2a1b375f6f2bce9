// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/row_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

/// "1 of 0 2": the rows of the results of the last node, and the arguments that it takes in blocks, where %x has its
/// rows at `dim`, and so has %y, if it is there.
std::string RuleOf(const std::string& inputs, const std::string& nodes, size_t dim = 0) {
  const auto graph = Parse("graph @f(" + inputs + ") {\n" + nodes + "\n return %r\n}");
  if (!graph) return graph.error().message();
  RowDims rows;
  for (const Input& input : graph->inputs) {
    if (input.name == "x" || input.name == "y") rows[input.value] = dim;
  }
  const auto rule = RowRuleOf(*graph, graph->node(graph->order().back()), rows);
  if (!rule) return "all rows";
  std::string text = fmt::format("{} of", rule->dim);
  for (const size_t part : rule->parts) text += fmt::format(" {}", part);
  return text;
}

TEST(RowRules, ElementsAreAlignedAtTheirLastDims) {
  const std::string x = "%x: f32[2, 6, 4]";
  EXPECT_EQ(RuleOf(x, "%r = aten.relu(%x) : f32[2, 6, 4]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x + ", %y: f32[2, 6, 4]", "%r = aten.mul.Tensor(%y, %x) : f32[2, 6, 4]", 1), "1 of 0 1");
  EXPECT_EQ(RuleOf(x + ", %b: f32[6, 4]", "%r = aten.mul.Tensor(%x, %b) : f32[2, 6, 4]", 1), "1 of 0 1");
  EXPECT_EQ(RuleOf(x + ", %b: f32[6, 1]", "%r = aten.mul.Tensor(%x, %b) : f32[2, 6, 4]", 1), "1 of 0 1");
  EXPECT_EQ(RuleOf(x + ", %b: f32[4]", "%r = aten.mul.Tensor(%x, %b) : f32[2, 6, 4]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x + ", %b: f32[1, 4]", "%r = aten.mul.Tensor(%b, %x) : f32[2, 6, 4]", 1), "1 of 1");
  EXPECT_EQ(RuleOf(x + ", %b: f32[6, 4]", "%r = aten.mul.Tensor(%x, %b) : f32[2, 6, 4]", 0), "0 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.mul.Tensor(%x, number 2) : f32[2, 6, 4]", 1), "1 of 0");
  // The same tensor, moved: a row meets all rows.
  EXPECT_EQ(RuleOf("%x: f32[4, 4]",
                   "%t = aten.transpose.int(%x, 0, 1) : f32[4, 4] strides [1, 4]\n"
                   "%r = aten.add.Tensor(%x, %t, 1) : f32[4, 4]"),
            "0 of 0 1");  // %t has no rows here: it is cut as any whole tensor.
}

TEST(RowRules, BlocksAreNeverBroadcast) {
  EXPECT_EQ(RuleOf("%x: f32[6], %b: f32[6, 6]", "%r = aten.add.Tensor(%x, %b, 1) : f32[6, 6]"), "1 of 0 1");
  EXPECT_EQ(RuleOf("%x: f32[1, 4], %b: f32[6, 4]", "%r = aten.add.Tensor(%x, %b, 1) : f32[6, 4]"), "all rows");
  EXPECT_EQ(RuleOf("%x: f32[6, 6], %y: f32[6]", "%r = aten.add.Tensor(%x, %y, 1) : f32[6, 6]"), "all rows");
}

TEST(RowRules, FoldsAndNormsKeepOtherDims) {
  const std::string x = "%x: f32[2, 6, 4]";
  EXPECT_EQ(RuleOf(x, "%r = aten.mean.dim(%x, [2], true, none) : f32[2, 6, 1]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.mean.dim(%x, [0], false, none) : f32[6, 4]", 1), "0 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.mean.dim(%x, [1], true, none) : f32[2, 1, 4]", 1), "all rows");
  EXPECT_EQ(RuleOf(x, "%r = aten.mean.dim(%x, none, true, none) : f32[1, 1, 1]", 1), "all rows");
  EXPECT_EQ(RuleOf(x, "%r = aten.softmax.int(%x, 2, none) : f32[2, 6, 4]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.softmax.int(%x, 1, none) : f32[2, 6, 4]", 1), "all rows");
  EXPECT_EQ(RuleOf(x, "%r = aten.cumsum(%x, 1, none) : f32[2, 6, 4]", 0), "0 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.cumsum(%x, 1, none) : f32[2, 6, 4]", 1), "all rows");
  const std::string norm = "%r = aten.layer_norm(%x, [4], %w, none, 1e-05, true) : f32[2, 6, 4]";
  EXPECT_EQ(RuleOf(x + ", %w: f32[4]", norm, 1), "1 of 0");
  EXPECT_EQ(RuleOf(x + ", %w: f32[4]", norm, 2), "all rows");
}

TEST(RowRules, ViewsKeepRowsApartOrNot) {
  const std::string x = "%x: f32[1, 6, 4]";
  EXPECT_EQ(RuleOf(x, "%r = aten.view(%x, [6, 4]) : f32[6, 4]", 1), "0 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.view(%x, [1, 6, 2, 2]) : f32[1, 6, 2, 2]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.view(%x, [24]) : f32[24]", 1), "all rows");
  EXPECT_EQ(RuleOf(x, "%r = aten.transpose.int(%x, 1, 2) : f32[1, 4, 6] strides [24, 1, 4]", 1), "2 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.slice.Tensor(%x, 2, 1, 3, 1) : f32[1, 6, 2] strides [24, 4, 1]", 1), "1 of 0");
  EXPECT_EQ(RuleOf(x, "%r = aten.slice.Tensor(%x, 1, 1, 3, 1) : f32[1, 2, 4] strides [24, 4, 1]", 1), "all rows");
  EXPECT_EQ(RuleOf(x, "%r = aten.select.int(%x, 1, 0) : f32[1, 4] strides [24, 1]", 1), "all rows");
}

TEST(RowRules, WhatNobodyKnowsNeedsAllRows) {
  EXPECT_EQ(RuleOf("%x: f32[6, 4], %w: f32[4, 4]", "%r = aten.linear(%x, %w, none) : f32[6, 4]"), "all rows");
  EXPECT_EQ(RuleOf("%x: f32[6, 4]", "%r = my.own(%x) : f32[6, 4]"), "all rows");
  EXPECT_EQ(RuleOf("%x: f32[6, 4]", "%r = aten.bernoulli(%x, none) {random} : f32[6, 4]"), "all rows");
}

}  // namespace
}  // namespace ingot::compiler
