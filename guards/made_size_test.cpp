// SPDX-License-Identifier: Apache-2.0
#include "guards/made_size.h"

#include <gtest/gtest.h>

namespace ingot::guards {
namespace {

TEST(MadeSize, PrintsAndParses) {
  const Dim a = Dim::Symbol(0) * Dim(3) - Dim(1), b = Dim(2);
  const std::string text = MadeSizeText(a, b);
  EXPECT_EQ(text, "=(3*s0 - 1) // (2)");
  EXPECT_TRUE(IsMadeSize(text));
  const Result<MadeSize> parsed = ParseMadeSize(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->a, a);
  EXPECT_EQ(parsed->b, b);
}

TEST(MadeSize, RoundsDown) {
  const int64_t symbols[] = {5};
  EXPECT_EQ(ParseMadeSize("=(s0) // (2)")->Eval(symbols), 2);
  EXPECT_EQ(ParseMadeSize("=(s0 - 8) // (2)")->Eval(symbols), -2);
  EXPECT_EQ(ParseMadeSize("=(s0) // (s0 - 5)")->Eval(symbols), std::nullopt);
}

TEST(MadeSize, RefusesEveryCutAndEveryOtherByte) {
  const std::string text = "=(s0 - 1) // (2)";
  for (size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(ParseMadeSize(text.substr(0, i))) << i;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = '\x01';
    EXPECT_FALSE(ParseMadeSize(other)) << i;
  }
}

}  // namespace
}  // namespace ingot::guards
