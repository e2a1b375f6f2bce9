// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/target.h"

#include <gtest/gtest.h>

namespace ingot::daemon::web {
namespace {

TEST(ParseTarget, TakesAPathAndItsFieldsApart) {
  const auto target = ParseTarget("/api/entries?function=a+b%26c%3d&after=&limit=7&");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/api/entries");
  EXPECT_EQ(target->query, (Fields{{"function", "a b&c="}, {"after", ""}, {"limit", "7"}}));
  EXPECT_EQ(ParseTarget("/a+b%20c")->path, "/a+b c");
  EXPECT_TRUE(ParseTarget("/?")->query.empty());
}

TEST(ParseTarget, RefusesWhatIsNoAddressOfHere) {
  for (const char* text : {"", "*", "http://localhost/", "a", "/%", "/%4", "/%zz", "/%00", "/a%0ab", "/?a=%g0",
                           "/?a=1&a=2", "/?%61=1&a=2", "/\x7f"}) {
    EXPECT_FALSE(ParseTarget(text)) << text;
  }
  std::string many = "/?";
  for (int i = 0; i < 17; ++i) many += std::to_string(i) + "=&";
  EXPECT_FALSE(ParseTarget(many));
}

TEST(ParseTarget, ReadsEveryTruncationAndBitFlipWithinItsText) {
  const std::string whole = "/api/entries?function=%C3%A4+b&limit=10";
  for (size_t size = 0; size <= whole.size(); ++size) {
    // On the heap, so that a sanitizer sees a read beyond its end.
    const std::string part = whole.substr(0, size);
    const auto target = ParseTarget(part);
    EXPECT_TRUE(!target || target->path.size() <= size);
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto target = ParseTarget(damaged);
    if (!target) continue;
    for (const char c : target->path) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  }
}

}  // namespace
}  // namespace ingot::daemon::web
