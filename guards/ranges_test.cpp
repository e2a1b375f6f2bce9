// SPDX-License-Identifier: Apache-2.0
#include "guards/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ingot::guards {
namespace {

using ::testing::HasSubstr;

Ranges ParsedRanges(std::string_view text) {
  auto ranges = Ranges::Parse(text);
  EXPECT_TRUE(ranges) << ranges.error().ToText();
  return ranges ? *ranges : Ranges();
}
GuardSet Set(std::string_view text) { return *GuardSet::Parse(text); }

TEST(Ranges, HoldWhereOneSetDoes) {
  const Ranges ranges = ParsedRanges("s0 >= 2 and s1 % 2 == 0 or s0 == 1 and s1 >= 5");
  EXPECT_EQ(ranges.sets().size(), 2u);
  EXPECT_EQ(ParsedRanges(ranges.ToText()).ToText(), ranges.ToText());
  const auto holds = [&](int64_t s0, int64_t s1) { return ranges.Holds(std::vector<int64_t>{s0, s1}); };
  EXPECT_TRUE(holds(2, 4) && holds(1, 5) && holds(1, 6));
  EXPECT_FALSE(holds(2, 5) || holds(1, 4) || holds(0, 6));
  EXPECT_FALSE(ParsedRanges("").Holds({}));
  EXPECT_TRUE(ParsedRanges("").empty());
  EXPECT_EQ(ParsedRanges("s0 == 1  or(s0 + 1) % 4 == 0").ToText(), "s0 == 1 or s0 % 4 == 3");
}

TEST(Ranges, SayWhatTheNearestSetMisses) {
  const Ranges ranges = ParsedRanges("s0 >= 9 and s1 >= 9 or s0 == 4 and s1 >= 9");
  EXPECT_THAT(ranges.Explain(std::vector<int64_t>{4, 7}), HasSubstr("s1 is 7"));
  EXPECT_EQ(ranges.Explain(std::vector<int64_t>{4, 9}), "");
  EXPECT_EQ(ParsedRanges("").Explain({}), "");
}

TEST(Ranges, KeepNothingTwice) {
  Ranges ranges;
  EXPECT_TRUE(ranges.Add(Set("s0 >= 4 and s0 % 2 == 0")));
  EXPECT_FALSE(ranges.Add(Set("s0 >= 8 and s0 % 2 == 0")));
  EXPECT_TRUE(ranges.Add(Set("s0 >= 2 and s0 % 2 == 1")));
  EXPECT_EQ(ranges.ToText(), "s0 >= 4 and s0 % 2 == 0 or s0 >= 2 and s0 % 2 == 1");
  EXPECT_TRUE(ranges.Add(Set("s0 >= 2")));
  EXPECT_EQ(ranges.ToText(), "s0 >= 2");
}

TEST(Ranges, HaveABound) {
  Ranges ranges;
  for (int64_t i = 0; i < 100; ++i) ranges.Add(Set("s0 == " + std::to_string(i)));
  EXPECT_EQ(ranges.sets().size(), Ranges::kSetsMax);
  EXPECT_EQ(ParsedRanges(ranges.ToText()).sets().size(), Ranges::kSetsMax);
  EXPECT_FALSE(Ranges::Parse(ranges.ToText() + " or s0 == 99"));
}

TEST(Ranges, SayWhatIsWrong) {
  const auto why = [](std::string_view text) { return Ranges::Parse(text).error().message(); };
  EXPECT_THAT(why("s0 >= 2 or "), HasSubstr("expected the name of an input at column 12"));
  EXPECT_THAT(why("s0 >= 2 or s1"), HasSubstr("at column 14"));
  EXPECT_THAT(why("s0 >= 2 or  or s1 == 1"), HasSubstr("expected '==' at column 16"));
  EXPECT_THAT(why("s0 >= 2 s1 == 1"), HasSubstr("expected 'and', 'or' or the end at column 9"));
  EXPECT_THAT(why("s0 >= 2 or 1 == 1"), HasSubstr("expected a condition that some size fails at column 11"));
  EXPECT_THAT(why("x.size(0) == 2"), HasSubstr("expected conditions over symbols alone at column 1"));
  EXPECT_THAT(why("s0 >= 2 or 'a or b'.rank == 2"), HasSubstr("over symbols alone at column 11"));
}

TEST(Ranges, SurviveDamagedText) {
  const std::string text = "s0 >= 2 and s1 % 2 == 0 or s0 == 1 and s1 >= 5 or s0*s1 <= 7";
  for (size_t end = 0; end <= text.size(); ++end) (void)Ranges::Parse(text.substr(0, end));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    const auto ranges = Ranges::Parse(damaged);
    if (!ranges) continue;
    EXPECT_EQ(ParsedRanges(ranges->ToText()).ToText(), ranges->ToText());
  }
}

// What is left out is a size that another set has.
TEST(Ranges, AddLosesNoSize) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Ranges ranges;
    std::vector<GuardSet> all;
    for (int i = 0; i < 4; ++i) {
      const auto number = [&](unsigned below) { return std::to_string(random() % below); };
      all.push_back(Set("s0 >= " + number(5) + " and s0 <= " + number(12) + " and s1 % 2 == " + number(2)));
      ranges.Add(all.back());
    }
    for (int64_t s0 = 0; s0 < 14; ++s0) {
      for (int64_t s1 = 0; s1 < 2; ++s1) {
        const std::vector<int64_t> symbols{s0, s1};
        const auto holds = [&](const GuardSet& set) { return set.Holds(symbols); };
        EXPECT_EQ(ranges.Holds(symbols), std::ranges::any_of(all, holds)) << ranges.ToText();
      }
    }
  }
}

}  // namespace
}  // namespace ingot::guards
