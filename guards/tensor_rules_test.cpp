// SPDX-License-Identifier: Apache-2.0
#include "guards/tensor_rules.h"

#include <gtest/gtest.h>

#include <random>

namespace ingot::guards {
namespace {

GuardSet Parsed(std::string_view text) {
  const auto set = GuardSet::Parse(text);
  EXPECT_TRUE(set) << set.error().ToText();
  return set ? *set : GuardSet();
}

TEST(TensorRules, LeaveTheRestAlone) {
  const TensorRules rules(
      Parsed("x.rank == 1 and x.size(0) == s0 and x.size(0) % 8 == 0 and y.rank == 2 and y.size(0) == 3"), 1);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules.RankOf(0), 1u);
  // The divisor, and all of y, whose second size is not given.
  EXPECT_EQ(rules.rest().size(), 3u);
  const int64_t symbols[] = {9}, sizes[] = {9}, other[] = {8}, strides[] = {77};
  EXPECT_TRUE(rules.Holds(0, sizes, strides, symbols));
  EXPECT_FALSE(rules.Holds(0, other, strides, symbols));
}

// The flat form decides as the set does, whatever the tensor.
TEST(TensorRules, AgreeWithTheSet) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const char* kValues[] = {"0", "1", "2", "s0", "s1", "2*s0", "s0*s1", "s0 + 1"};
  size_t held = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto rank = random() % 4;
    std::string text = "x.rank == " + std::to_string(rank);
    std::vector<int64_t> symbols = {static_cast<int64_t>(random() % 3), static_cast<int64_t>(random() % 3)};
    std::vector<int64_t> sizes, strides;
    for (const char* what : {"size", "stride"}) {
      for (unsigned d = 0; d < rank; ++d) {
        const std::string value = kValues[random() % 8];
        text += " and x." + std::string(what) + "(" + std::to_string(d) + ") == " + value;
        const int64_t exact = Dim::Parse(value)->Eval(symbols);
        const int64_t found = random() % 5 == 0 ? static_cast<int64_t>(random() % 5) : exact;
        (*what == 's' && what[1] == 'i' ? sizes : strides).push_back(found);
      }
    }
    const GuardSet set = Parsed(text);
    const TensorRules rules(set, symbols.size());
    ASSERT_TRUE(rules.rest().empty()) << text;
    const TensorView view{.sizes = sizes, .strides = strides};
    const bool expected = set.Holds({symbols, {&view, 1}, {}});
    ASSERT_EQ(rules.Holds(0, sizes.data(), strides.data(), symbols.data()), expected) << text << ", seed " << kSeed;
    held += expected;
  }
  EXPECT_GT(held, 5000u);
  EXPECT_LT(held, 18000u);
}

}  // namespace
}  // namespace ingot::guards
