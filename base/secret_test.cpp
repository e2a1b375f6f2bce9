// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <type_traits>

namespace ingot {
namespace {

template <typename T>
concept IsStreamed = requires(std::ostream& out, const T& value) { out << value; };
template <typename T>
concept IsCompared = requires(const T& a, const T& b) { a == b; };

// What does not compile is not done by mistake.
static_assert(!fmt::is_formattable<Secret>::value);
static_assert(!IsStreamed<Secret> && !IsCompared<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string> && !std::is_convertible_v<std::string, Secret>);

TEST(Secret, IsToldToWhoeverAsksForIt) {
  EXPECT_TRUE(Secret().empty());
  EXPECT_TRUE(Secret("").empty());
  EXPECT_EQ(Secret().Reveal(), "");
  const Secret secret(std::string("open sesame"));
  const Secret copy = secret;
  EXPECT_FALSE(secret.empty());
  EXPECT_EQ(copy.Reveal(), "open sesame");
}

TEST(Secret, IsMaskedInWhatOthersSay) {
  const Secret secret(std::string("hush"));
  EXPECT_EQ(secret.Masked("hush, they said: hushhush"), "***, they said: ******");
  EXPECT_EQ(secret.Masked("nothing"), "nothing");
  EXPECT_EQ(Secret().Masked("hush"), "hush");
  EXPECT_EQ(Secret(std::string("*")).Masked("a*b"), "a***b");
}

}  // namespace
}  // namespace ingot
