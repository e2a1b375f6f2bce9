// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kTemplate = R"(graph @f(%x: f32[s0, s1, 8], %y: f32[s0*s1, 8], %w: f32[8] weight "w")
    symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.reshape(%x, [s0*s1, 8]) : f32[s0*s1, 8]
  %1 = aten.add.Tensor(%0, %y, number 1) : f32[s0*s1, 8]
  return %1
})";

std::string Over(std::string_view range, size_t degree = 2) {
  const auto graph = Parse(kTemplate);
  EXPECT_TRUE(graph) << graph.error().ToText();
  if (!graph) return "";
  const auto set = RangeOf(*graph, range, degree);
  return set ? set->ToText() : set.error().message();
}

TEST(RangeOf, SpeaksOfTheTemplatesSymbols) {
  EXPECT_EQ(Over("i0.size(0) >= 2 and i0.size(1) >= 2 and i0.size(1) <= 512 and i1.size(0) == i0.size(0)*i0.size(1)"),
            "s0 >= 2 and s1 >= 2 and s1 <= 512");
  EXPECT_EQ(Over("i0.size(1) % 8 == 0 and i0.size(2) == 8 and i1.size(0) >= 4"), "s1 % 8 == 0 and s0*s1 >= 4");
  // Every size is proved: said, not left empty.
  EXPECT_EQ(Over("i0.size(2) == 8"), "s0 >= 0");
}

TEST(RangeOf, RefusesWhatTheProofDoesNotCover) {
  EXPECT_THAT(Over("i0.size(0) >= 2", 1), HasSubstr("degree 2, the range is proved up to 1"));
  EXPECT_THAT(Over("i0.size(2) == 9"), HasSubstr("1 == 0"));
  // Samples of a quotient prove nothing between them.
  const auto halved = Parse(
      "graph @f(%x: f32[s0]) symbols(s0 = %x.dim(0)) {\n"
      "  %0 = aten.slice.Tensor(%x, 0, 0, s0, 2) : f32[floordiv(s0 + 1, 2)] strides [2]\n  return %0\n}");
  ASSERT_TRUE(halved) << halved.error().ToText();
  EXPECT_THAT(RangeOf(*halved, "i0.size(0) >= 2", 99).error().message(), HasSubstr("quotients, minima or maxima"));
  EXPECT_THAT(Over("i2.size(0) == 8"), HasSubstr("asks for more than sizes"));   // A weight.
  EXPECT_THAT(Over("i0.size(3) == 8"), HasSubstr("asks for more than sizes"));
  EXPECT_THAT(Over("i0.stride(0) == 8"), HasSubstr("asks for more than sizes"));
  EXPECT_THAT(Over("x.size(0) == 8"), HasSubstr("asks for more than sizes"));
  EXPECT_THAT(Over("flag == True"), HasSubstr("asks for more than sizes"));
  EXPECT_THAT(Over("s0 >= 2"), HasSubstr("s0 is unknown"));
  EXPECT_THAT(Over("i0.size(0) >="), HasSubstr("at column"));
  EXPECT_THAT(Over("i0.size(0) >= 5 and i0.size(0) <= 3"), HasSubstr("guards contradict"));
}

TEST(RangeOf, AsksThatNumbersStayExact) {
  const auto scaled = Parse(
      "graph @f(%x: f32[s0]) symbols(s0 = %x.dim(0)) {\n"
      "  %0 = aten.mul.Scalar(%x, number s0*s0*s0) : f32[s0]\n  return %0\n}");
  ASSERT_TRUE(scaled) << scaled.error().ToText();
  const auto range = RangeOf(*scaled, "i0.size(0) >= 2", 3);
  ASSERT_TRUE(range) << range.error().ToText();
  EXPECT_EQ(range->ToText(), "s0 >= 2 and s0*s0*s0 <= 4503599627370496");
}

std::string From(std::string_view graph_template, std::string_view other, std::string_view range) {
  const auto first = Parse(graph_template), second = Parse(other);
  EXPECT_TRUE(first && second);
  const auto set = RangeFrom(*first, *second, *guards::GuardSet::Parse(range));
  return set ? set->ToText() : set.error().message();
}

// Of a dim of size 1 the recording has no symbol: it is one of the template's sizes all the same.
TEST(RangeFrom, IsOverTheTemplatesSymbols) {
  constexpr std::string_view kOfOne = R"(graph @f(%x: f32[1, s0, 8], %y: f32[s0, 8], %w: f32[8] weight "w")
    symbols(s0 = %x.dim(1)) {
  %0 = aten.reshape(%x, [s0, 8]) : f32[s0, 8]
  %1 = aten.add.Tensor(%0, %y, number 1) : f32[s0, 8]
  return %1
})";
  EXPECT_EQ(From(kTemplate, kOfOne, "s0 >= 2 and s0 <= 9"), "s1 >= 2 and s1 <= 9 and s0 == 1");
  EXPECT_THAT(From(kOfOne, kTemplate, "s0 >= 2"), HasSubstr("another one"));
  // The same in other words: the second symbol is the first one's double.
  constexpr std::string_view kOfTwo = R"(graph @f(%x: f32[s0, 2*s0, 8], %y: f32[2*s0*s0, 8], %w: f32[8] weight "w")
    symbols(s0 = %x.dim(0)) {
  %0 = aten.reshape(%x, [2*s0*s0, 8]) : f32[2*s0*s0, 8]
  %1 = aten.add.Tensor(%0, %y, number 1) : f32[2*s0*s0, 8]
  return %1
})";
  EXPECT_EQ(From(kTemplate, kOfTwo, "s0 >= 3"), "s0 >= 3 and s1 == 2*s0");
}

TEST(RangeFrom, RefusesAnotherProgram) {
  std::string other(kTemplate);
  other.replace(other.find("number 1"), 8, "number 2");
  EXPECT_THAT(From(kTemplate, other, "s0 >= 2"), HasSubstr("another one"));
  EXPECT_EQ(From(kTemplate, kTemplate, "s0 >= 2"), "s0 >= 2");
}

}  // namespace
}  // namespace ingot::compiler
