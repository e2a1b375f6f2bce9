// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string KeyTable(const SigningKey& key, const std::string& more = "") {
  return fmt::format("[[key]]\npublic = \"{}\"\n{}", key.public_key().ToLine(), more);
}

TEST(TrustTextTest, WhatIsNotUnderstoodIsRefusedByLine) {
  const std::string key = KeyTable(FakeKey(1, "ci"));
  const std::pair<std::string, std::string> wrong[] = {
      {"", "version = 1"},
      {"version = 2", "version = 1"},
      {"version = \"1\"", "version = 1"},
      {"version = 1\nkey = [", "line 2"},
      {"version = 1\n[%]", "line 2"},
      {"version = 1\n [ [\x01key]]", "line 2"},
      {"version = 1\n[[\nkey]]", "line 2"},
      {"version = 1\nx-t = 2027-01-15T\x13", "line 2"},
      {"[", "line 1"},
      {"version = 1\n[[revokation]]\nhost = \"a\"", "line 2: 'revokation'"},
      {"version = 1\n[key]\npublic = \"a\"", "line 2: write [[key]]"},
      {"version = 1\nkey = [1]", "write [[key]]"},
      {"version = 1\n[[domain]]\nname = \"a\"\nfunction = [\"prod.*\"]", "line 4: 'function' is not known here"},
      {"version = 1\n[[domain]]\nname = \"a\"\nfunctions = []", "line 4: 'functions' is empty"},
      {"version = 1\n[[domain]]\nname = \"a\"\nfunctions = \"prod.*\"", "line 4: 'functions' is no list"},
      {"version = 1\n[[domain]]\nname = \"a\"\nfunctions = [1]", "line 4: 'functions' is no list"},
      {"version = 1\n[[domain]]\nfunctions = [\"a\"]", "a domain has a 'name'"},
      {"version = 1\n[[domain]]\nname = \"a\"\n[[domain]]\nname = \"a\"", "line 4: domain 'a' is there twice"},
      {"version = 1\n[[domain]]\nname = \"a\"\nage_max_days = 0", "line 4"},
      {"version = 1\n[[domain]]\nname = \"a\"\nthis_host_only = 1", "line 4"},
      {"version = 1\n[[key]]\npublic = \"ingot-ed25519 x y\"", "line 2: public key"},
      {"version = 1\n" + key + key, "listed twice"},
      {"version = 1\n" + key + "domains = [\"none\"]", "for domain 'none', which is not there"},
      {"version = 1\n" + key + "from = 2024-01-01T00:00:00", "line 4: 'from' is no time"},
      {"version = 1\n" + key + "from = 2024-01-02\nuntil = 2024-01-02", "'until' is not after 'from'"},
      {"version = 1\n[[revocation]]\nreason = \"a\"", "a revocation says what"},
      {"version = 1\n[[revocation]]\nhost = \"\"", "'host' is empty"},
      {"version = 1\n[[revocation]]\nkey = \"ci\"", "line 2: 'key'"},
      {"version = 1\n[[revocation]]\nartifact = \"\"", "line 2: 'artifact'"},
      {"version = 1\n[[revocation]]\nhosts = [\"a\"]", "line 3: 'hosts'"},
      {"version = 1\n[[rotation]]\nstatement = \"ingot-rotation AAAA\"", "line 2: rotation"},
  };
  for (const auto& [text, message] : wrong) {
    const auto policy = TrustPolicy::Parse(text);
    ASSERT_FALSE(policy) << text;
    EXPECT_THAT(policy.error().message(), HasSubstr(message)) << text;
    // Nor is it edited.
    EXPECT_FALSE(WithRevocation(text, {.host = "b"})) << text;
    EXPECT_FALSE(WithKey(text, FakeKey(9, "x").public_key().ToLine(), {}, {}, {})) << text;
  }
}

TEST(TrustTextTest, WordsOfOnesOwnBeginWithX) {
  EXPECT_TRUE(
      TrustPolicy::Parse("version = 1\nx-owner = \"me\"\n[x-notes]\na = 1\n"
                         "[[domain]]\nname = \"a\"\nx-b = 2\n"));
}

TEST(TrustTextTest, EditsTouchNothingElse) {
  const std::string text =
      "# ours\nversion = 1  # the first\n\n# who reads this?\n"
      "[[domain]]\nname = 'all' # 'quotes'\n"
      "x-note = \"\"\"\n[[domain]]\n\"\"\"\n";
  const SigningKey ci = FakeKey(1, "ci"), team = FakeKey(2, "team");
  const auto one = WithKey(text, ci.public_key().ToLine(), {"prod", "all"}, {}, {});
  ASSERT_TRUE(one) << one.error().ToText();
  EXPECT_THAT(*one, StartsWith(text));
  const auto two = WithKey(*one, team.public_key().ToLine(), {"live"}, {"live.*", "a\"b\\"}, {5, 6});
  ASSERT_TRUE(two) << two.error().ToText();
  // A domain of some functions stands before those of more, and above the comment of the first.
  EXPECT_THAT(*two, HasSubstr("\n[[domain]]\nname = \"live\"\nfunctions = [\"live.*\", \"a\\\"b\\\\\"]\n\n"
                              "# who reads"));
  const Revocation revocation{.key = ci.public_key().id(),
                              .host = "h",
                              .artifact = Digest{1, 2},
                              .artifact_sha256 = Sha256Of({}),
                              .graph = Digest{3, 4},
                              .built = {1, 1'700'000'000},
                              .reason = "a \"quoted\" reason",
                              .when_s = 7};
  const auto three = WithRevocation(*two, revocation);
  ASSERT_TRUE(three) << three.error().ToText();
  EXPECT_THAT(*three, StartsWith(*two));
  const auto policy = TrustPolicy::Parse(*three);
  ASSERT_TRUE(policy) << policy.error().ToText();
  EXPECT_THAT(policy->revocations(), ElementsAre(revocation));
  ASSERT_EQ(policy->domains().size(), 3u);
  EXPECT_EQ(policy->domains()[0].name, "live");
  EXPECT_THAT(policy->domains()[0].functions, ElementsAre("live.*", "a\"b\\"));
  EXPECT_EQ(policy->domains()[1].name, "all");
  EXPECT_EQ(policy->domains()[2].name, "prod");
  ASSERT_EQ(policy->keys().size(), 2u);
  EXPECT_THAT(policy->keys()[0].domains, ElementsAre("prod", "all"));
  EXPECT_EQ(policy->keys()[1].built, (TimeRange{5, 6}));
}

TEST(TrustTextTest, EditsThatWouldNotReadAreRefused) {
  const std::string line = FakeKey(1, "ci").public_key().ToLine();
  const auto once = WithKey(EmptyTrustText(), line, {"all"}, {}, {});
  ASSERT_TRUE(once);
  EXPECT_FALSE(WithKey(*once, line, {}, {}, {}));
  EXPECT_FALSE(WithKey(*once, FakeKey(2, "a").public_key().ToLine(), {"all"}, {"prod.*"}, {}));
  EXPECT_FALSE(WithKey(*once, "ingot-ed25519 x y", {}, {}, {}));
  EXPECT_FALSE(WithRevocation(*once, {}));
  EXPECT_FALSE(WithRevocation(*once, {.host = "a\nb"}));
  // Arrays that are written in a line take no tables after them.
  EXPECT_FALSE(WithRevocation("version = 1\nrevocation = [{host = \"a\"}]\n", {.host = "b"}));
}

TEST(TrustTextTest, RotationsNeedTheirOldKey) {
  const SigningKey ci = FakeKey(1, "ci"), next = FakeKey(2, "next"), stranger = FakeKey(3, "stranger");
  const auto text = WithKey(EmptyTrustText(), ci.public_key().ToLine(), {"all"}, {}, {});
  ASSERT_TRUE(text);
  const auto added = WithKey(*text, Rotation::Make(ci, next, 10, 20)->ToLine() + "\n", {}, {}, {});
  ASSERT_TRUE(added) << added.error().ToText();
  EXPECT_EQ(TrustPolicy::Parse(*added)->keys().size(), 2u);
  EXPECT_EQ(WithKey(*text, Rotation::Make(stranger, next, 10, 20)->ToLine(), {}, {}, {}).error().code(),
            Code::kNotFound);
  EXPECT_FALSE(WithKey(*text, Rotation::Make(ci, next, 10, 20)->ToLine(), {"all"}, {}, {}));
  const auto revoked = WithRevocation(*text, {.key = ci.public_key().id()});
  const auto late = WithKey(*revoked, Rotation::Make(ci, next, 10, 20)->ToLine(), {}, {}, {});
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message(), HasSubstr("revoked"));
}

TEST(TrustTextTest, TimesAreOfOneZone) {
  EXPECT_EQ(*TimeFromText("2023-11-14T22:13:20Z"), 1'700'000'000);
  EXPECT_EQ(*TimeFromText("2023-11-15"), 1'700'006'400);
  EXPECT_EQ(TimeText(1'700'000'000), "2023-11-14T22:13:20Z");
  for (const std::string_view wrong : {"", "now", "2023-11-14T22:13:20", "5", "2023-11-14\nx = 1", "2023-13-01"}) {
    EXPECT_FALSE(TimeFromText(wrong)) << wrong;
  }
}

TEST(TrustPolicyFindTest, KeysGoByNameOrId) {
  const SigningKey one = FakeKey(1, "ci"), two = FakeKey(2, "ci"), three = FakeKey(3, "team");
  const auto policy = TrustPolicy::Parse("version = 1\n" + KeyTable(one) + KeyTable(two) + KeyTable(three));
  ASSERT_TRUE(policy);
  EXPECT_EQ((*policy->Find("team"))->key, three.public_key());
  EXPECT_EQ((*policy->Find(one.public_key().id().ToHex().substr(0, 8)))->key, one.public_key());
  EXPECT_EQ(policy->Find("ci").error().code(), Code::kInvalid);
  EXPECT_EQ(policy->Find(one.public_key().id().ToHex().substr(0, 7)).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ingot::cache
