// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

// The numbers are those of the XXH3-128 specification, so stores of all builds agree.
TEST(Digest, IsXxh3OfTheBytes) {
  EXPECT_EQ(DigestOf("").ToHex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(DigestOf("a"), DigestOf("b"));
}

TEST(Digest, HexGoesBothWays) {
  const Digest digest{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(digest.ToHex(), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(*Digest::FromHex(digest.ToHex()), digest);
  EXPECT_EQ(digest.ToShort(), "fedcba987654");
}

TEST(Digest, FromHexRefusesEverythingElse) {
  const std::string good = DigestOf("x").ToHex();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(Digest::FromHex(good.substr(0, size))) << size;
  }
  EXPECT_FALSE(Digest::FromHex(good + "0"));
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char bad : {'g', ' ', '-', '+', 'x'}) {
      std::string text = good;
      text[at] = bad;
      const Result<Digest> digest = Digest::FromHex(text);
      ASSERT_FALSE(digest) << text;
      EXPECT_EQ(digest.error().code(), Code::kInvalid);
      EXPECT_NE(digest.error().message().find(text), std::string::npos);
    }
  }
}

TEST(Hasher, EqualsTheDigestOfTheConcatenation) {
  Hasher hasher;
  hasher.Add(AsBytes("ab"));
  hasher.Add(AsBytes("c"));
  EXPECT_EQ(hasher.Finish(), DigestOf("abc"));
}

TEST(Hasher, FieldsDoNotRunTogether) {
  Hasher ab_c, a_bc;
  ab_c.AddField("ab");
  ab_c.AddField("c");
  a_bc.AddField("a");
  a_bc.AddField("bc");
  EXPECT_NE(ab_c.Finish(), a_bc.Finish());
}

}  // namespace
}  // namespace ingot
