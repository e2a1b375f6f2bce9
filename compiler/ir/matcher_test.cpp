// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using namespace pattern;  // NOLINT: words of patterns
using ::testing::HasSubstr;

class MatcherTest : public ::testing::Test {
 protected:
  /// A match at the last node of a graph of %x, %y: f32[4] and the constant %c: f32[2].
  std::optional<Match> Try(const std::string& nodes, const Pattern& pattern) {
    Result<Graph> graph =
        Parse("graph @f(%x: f32[4], %y: f32[4], %c: f32[2] constant \"0000000000000000\") { " + nodes + " return }");
    EXPECT_TRUE(graph) << graph.error().ToText();
    if (!graph) return std::nullopt;
    graph_ = *std::move(graph);
    Matcher matcher(graph_);
    std::optional<Match> match = matcher.At(graph_.order().back(), pattern);
    why_ = match ? "" : matcher.why().ToText(graph_);
    is_near_ = matcher.why().IsNear();
    return match;
  }
  ValueId x() const { return graph_.inputs[0].value; }
  ValueId y() const { return graph_.inputs[1].value; }

  Graph graph_;
  std::string why_;
  bool is_near_ = false;
};

TEST_F(MatcherTest, CapturesTensorsNumbersAndNodes) {
  const Pattern pattern = Op("aten.add.Tensor", {Op("aten.mul.Tensor", {Tensor("x"), AnyNumber("scale")}).As("product"),
                                                 Tensor("y"), ByDefault(1)});
  const auto match =
      Try("%0 = aten.mul.Tensor(%x, number 2.5) : f32[4] %1 = aten.add.Tensor(%0, %y, 1) : f32[4]", pattern);
  ASSERT_TRUE(match) << why_;
  EXPECT_EQ(match->value("x"), x());
  EXPECT_EQ(match->value("y"), y());
  EXPECT_EQ(match->value("product"), graph_.node(0).results[0]);
  ASSERT_NE(match->number("scale"), nullptr);
  EXPECT_EQ(*match->number("scale"), Number{2.5});
  EXPECT_EQ(match->value("nothing"), kNoValue);
  EXPECT_EQ(match->number("x"), nullptr);
  EXPECT_EQ(match->nodes(), (std::vector<NodeId>{1, 0}));
}

TEST_F(MatcherTest, HoldsListsAndArgumentsAgainstTheirOwn) {
  const std::string nodes = "%0 = aten.neg(%x) : f32[4] %1 = aten.cat([%0, %y], 0) : f32[8]";
  const auto cat = [](std::vector<Pattern> parts, Dim dim) {
    return Op("aten.cat", {List(std::move(parts)), Equal(std::move(dim))});
  };
  const auto match = Try(nodes, cat({Op("aten.neg", {Tensor("x")}), Tensor("y")}, 0));
  ASSERT_TRUE(match) << why_;
  EXPECT_EQ(match->value("x"), x());
  EXPECT_EQ(match->value("y"), y());
  EXPECT_FALSE(Try(nodes, cat({Tensor(), Tensor(), Tensor()}, 0)));
  EXPECT_THAT(why_, HasSubstr("expected a list of 3 tensors"));
  EXPECT_FALSE(Try(nodes, cat({Tensor("a"), Tensor("a")}, 0)));
  EXPECT_THAT(why_, HasSubstr("expected the same as 'a'"));
  EXPECT_FALSE(Try(nodes, cat({Tensor(), Tensor()}, 1)));
  EXPECT_THAT(why_, HasSubstr("is 0, expected 1"));
}

TEST_F(MatcherTest, GoesOnFromWhatItHasFound) {
  const auto first = Try("%0 = aten.neg(%x) : f32[4] %1 = aten.exp(%x) : f32[4]", Op("aten.exp", {Tensor("x")}));
  ASSERT_TRUE(first) << why_;
  const Pattern other = Op("aten.neg", {Tensor("x")}), another = Op("aten.neg", {Tensor("y")}).As("x");
  Matcher matcher(graph_);
  const auto both = matcher.Extend(*first, 0, other);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->nodes(), (std::vector<NodeId>{1, 0}));
  EXPECT_FALSE(matcher.Extend(*first, 0, another)) << "x stands for another value";
}

TEST_F(MatcherTest, TriesBothSidesOfWhatCommutes) {
  const auto neg_and = [](Pattern pattern) { return Op("aten.mul.Tensor", {Op("aten.neg", {Tensor("x")}), pattern}); };
  const std::string nodes = "%0 = aten.neg(%x) : f32[4] %1 = aten.mul.Tensor(%y, %0) : f32[4]";
  EXPECT_FALSE(Try(nodes, neg_and(Tensor("y"))));
  const auto match = Try(nodes, neg_and(Tensor("y")).Commutes());
  ASSERT_TRUE(match) << why_;
  EXPECT_EQ(match->value("y"), y());
  EXPECT_FALSE(Try(nodes, neg_and(Tensor("x")).Commutes())) << "y is not x";
}

// What an inner node captured must be given up where an outer one cannot go on with it.
TEST_F(MatcherTest, GoesBackIntoOperandsThatCommute) {
  const Pattern pattern = Op("aten.sub.Tensor", {Op("aten.mul.Tensor", {Tensor("a"), Tensor("b")}).Commutes(),
                                                 Op("aten.neg", {Tensor("a")}), Anything()});
  const std::string nodes = "%0 = aten.mul.Tensor(%x, %y) : f32[4] %1 = aten.neg(%y) : f32[4] ";
  const auto match = Try(nodes + "%2 = aten.sub.Tensor(%0, %1, 1) : f32[4]", pattern);
  ASSERT_TRUE(match) << why_;
  EXPECT_EQ(match->value("a"), y());
  EXPECT_EQ(match->value("b"), x());
}

TEST_F(MatcherTest, TakesOneNameForOneThing) {
  const Pattern square = Op("aten.mul.Tensor", {Tensor("x"), Tensor("x")});
  EXPECT_TRUE(Try("%0 = aten.mul.Tensor(%x, %x) : f32[4]", square));
  EXPECT_FALSE(Try("%0 = aten.mul.Tensor(%x, %y) : f32[4]", square));
  EXPECT_EQ(why_, "operand 1 'other' of aten.mul.Tensor is an input f32[4], expected the same as 'x'");
  EXPECT_FALSE(is_near_) << "one operator is little";
  const Pattern swish = Op("aten.mul.Tensor", {Op("aten.sigmoid", {Tensor("x")}), Tensor("x")});
  EXPECT_FALSE(Try("%0 = aten.sigmoid(%x) : f32[4] %1 = aten.mul.Tensor(%0, %y) : f32[4]", swish));
  EXPECT_TRUE(is_near_);
  const Pattern range = Op("aten.clamp", {Tensor(), AnyNumber("n"), AnyNumber("n")});
  EXPECT_TRUE(Try("%0 = aten.clamp(%x, 2, 2) : f32[4]", range));
  EXPECT_FALSE(Try("%0 = aten.clamp(%x, 2, 3) : f32[4]", range));
}

TEST_F(MatcherTest, RefusesWhatOthersUse) {
  const Pattern pattern = Op("aten.neg", {Op("aten.exp", {Tensor()}).UsedOnce()});
  EXPECT_TRUE(Try("%0 = aten.exp(%x) : f32[4] %1 = aten.neg(%0) : f32[4]", pattern));
  EXPECT_FALSE(Try("%0 = aten.exp(%x) : f32[4] %1 = aten.abs(%0) : f32[4] %2 = aten.neg(%0) : f32[4]", pattern));
  EXPECT_EQ(why_, "operand 0 'self' of aten.neg is aten.exp f32[4] of several uses, expected one");
  EXPECT_TRUE(is_near_);
}

TEST_F(MatcherTest, TellsNumbersApart) {
  const auto add = [](Pattern other) { return Op("aten.add.Tensor", {Tensor("x"), std::move(other), Anything()}); };
  const auto number = [this](std::string text, const Pattern& pattern) {
    return Try("%0 = aten.add.Tensor(%x, number " + text + ", 1) : f32[4]", pattern).has_value();
  };
  EXPECT_TRUE(number("0", add(Exactly(0))));
  EXPECT_TRUE(number("0.0", add(Exactly(0))));
  EXPECT_FALSE(number("-0.0", add(Exactly(0))));
  EXPECT_EQ(why_, "operand 1 'other' of aten.add.Tensor is number -0.0, expected the number 0");
  EXPECT_FALSE(is_near_);
  EXPECT_TRUE(number("-0.0", add(Exactly(-0.0))));
  const std::string full = "%0 = aten.full([4], 1.0, dtype f32, none, \"cpu\", none) : f32[4] ";
  EXPECT_TRUE(Try(full + "%1 = aten.add.Tensor(%x, %0, 1) : f32[4]", add(Filled(1))));
  EXPECT_FALSE(Try(full + "%1 = aten.add.Tensor(%x, %0, 1) : f32[4]", add(Exactly(1))));
  EXPECT_FALSE(Try(full + "%1 = aten.add.Tensor(%x, %0, 1) : f32[4]", add(Filled(2))));
  EXPECT_FALSE(Try("%0 = aten.add.Tensor(%x, %y, 1) : f32[4]", add(Filled(1))));
}

TEST_F(MatcherTest, CountsOperands) {
  const auto sub = [](Pattern alpha) { return Op("aten.sub.Tensor", {Tensor(), Tensor(), std::move(alpha)}); };
  EXPECT_TRUE(Try("%0 = aten.sub.Tensor(%x, %y) : f32[4]", sub(ByDefault(1))));
  EXPECT_TRUE(Try("%0 = aten.sub.Tensor(%x, %y, 1) : f32[4]", sub(ByDefault(1))));
  EXPECT_FALSE(Try("%0 = aten.sub.Tensor(%x, %y, 2) : f32[4]", sub(ByDefault(1))));
  EXPECT_TRUE(Try("%0 = aten.sub.Tensor(%x, %y) : f32[4]", sub(Absent())));
  EXPECT_FALSE(Try("%0 = aten.sub.Tensor(%x, %y) : f32[4]", sub(Exactly(1))));
  EXPECT_EQ(why_, "operand 2 'alpha' of aten.sub.Tensor is missing, expected the number 1");
  const Pattern two = Op("aten.sub.Tensor", {Tensor(), Tensor()});
  EXPECT_FALSE(Try("%0 = aten.sub.Tensor(%x, %y, 2) : f32[4]", two));
  EXPECT_EQ(why_, "aten.sub.Tensor has 3 operands, expected 2");
  EXPECT_TRUE(Try("%0 = aten.sub.Tensor(%x, %y, 2) : f32[4]", Op("aten.sub.Tensor", {Tensor(), Tensor()}).AndMore()));
}

TEST_F(MatcherTest, AsksForConstantsTypesAndPurity) {
  EXPECT_TRUE(Try("%0 = aten.neg(%c) : f32[2]", Op("aten.neg", {ConstantTensor("c")})));
  EXPECT_FALSE(Try("%0 = aten.neg(%x) : f32[4]", Op("aten.neg", {ConstantTensor("c")})));
  EXPECT_EQ(why_, "operand 0 'self' of aten.neg is an input f32[4], expected a constant");
  const auto is_long = [](const Type& type) { return type.sizes == Dims{4}; };
  const Pattern typed = Op("aten.neg", {Tensor().Where("four elements", is_long)});
  EXPECT_TRUE(Try("%0 = aten.neg(%x) : f32[4]", typed));
  EXPECT_FALSE(Try("%0 = aten.neg(%c) : f32[2]", typed));
  EXPECT_EQ(why_, "operand 0 'self' of aten.neg is an input f32[2], expected four elements");
  EXPECT_TRUE(is_near_);
  EXPECT_FALSE(Try("%0 = aten.neg(%x) {opaque} : f32[4]", Op("aten.neg", {Tensor()})));
  EXPECT_EQ(why_, "aten.neg has effects or several results");
}

TEST_F(MatcherTest, SaysWhereTheBestTryEnded) {
  const Pattern pattern =
      Op("aten.add.Tensor",
         {Op("aten.mul.Tensor", {Op("aten.exp", {Tensor()}), Tensor()}).Commutes(), Tensor("y"), Anything()})
          .Commutes();
  const auto match =
      Try("%0 = aten.neg(%x) : f32[4] %1 = aten.mul.Tensor(%0, %y) : f32[4] %2 = aten.add.Tensor(%y, %1, 1) : f32[4]",
          pattern);
  EXPECT_FALSE(match);
  EXPECT_EQ(why_, "operand 0 'self' of aten.mul.Tensor is aten.neg f32[4], expected aten.exp");
}

}  // namespace
}  // namespace ingot::compiler
