// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust_policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kArtifact = "artifact";
constexpr int64_t kDay_s = 86'400;
constexpr int64_t kNow_s = kFakeBuilt_s + 10 * kDay_s;

struct Keys {
  SigningKey ci = FakeKey(1, "ci");
  SigningKey team = FakeKey(2, "team");
  SigningKey own = FakeKey(3, "own");
  SigningKey stranger = FakeKey(4, "stranger");
};

/// A trust file in which CI writes all, the team all but `prod.`, and scratch functions are this machine's own.
std::string Text(const Keys& keys, const std::string& more = "") {
  return fmt::format(R"(version = 1
[[domain]]
name = "prod"
functions = ["prod.*", "live.*"]
[[domain]]
name = "scratch"
functions = ["scratch.*"]
this_host_only = true
[[domain]]
name = "search"
groups = ["search"]
[[key]]
public = "{}"
domains = ["prod", "search", "scratch"]
[[key]]
public = "{}"
domains = ["search"]
{})",
                     keys.ci.public_key().ToLine(), keys.team.public_key().ToLine(), more);
}

class TrustPolicyTest : public testing::Test {
 protected:
  TrustPolicy Policy(const std::string& more = "", const std::string& quarantine = "") {
    Result<TrustPolicy> policy = TrustPolicy::Parse(Text(keys_, more), quarantine, keys_.own.public_key());
    EXPECT_TRUE(policy) << policy.error().ToText();
    return policy ? std::move(*policy) : TrustPolicy();
  }
  static Buffer Sign(const SigningKey& key, const Provenance& provenance) {
    Result<Buffer> envelope = SignProvenance(key, provenance);
    EXPECT_TRUE(envelope) << envelope.error().ToText();
    return envelope ? std::move(*envelope) : Buffer();
  }
  static Judgement Judge(const TrustPolicy& policy, const SigningKey& key, const Provenance& provenance,
                         int64_t now_s = kNow_s) {
    const Judgement record = policy.JudgeRecord(FakeReceived(provenance), Sign(key, provenance), now_s);
    return JudgeArtifact(record, AsBytes(kArtifact));
  }
  static Verdict VerdictOf(const TrustPolicy& policy, const SigningKey& key, const Provenance& provenance,
                           int64_t now_s = kNow_s) {
    const Judgement judgement = Judge(policy, key, provenance, now_s);
    EXPECT_FALSE(judgement.text.empty());
    return judgement.verdict;
  }

  Keys keys_;
};

TEST_F(TrustPolicyTest, WhatIsSignedAndInItsDomainIsTrusted) {
  const TrustPolicy policy = Policy();
  const Provenance provenance = FakeProvenance();
  const Judgement record = policy.JudgeRecord(FakeReceived(provenance), Sign(keys_.ci, provenance), kNow_s);
  EXPECT_EQ(record.verdict, Verdict::kAwaitsArtifact) << record.text;
  EXPECT_FALSE(record.trusted());
  const Judgement whole = JudgeArtifact(record, AsBytes(kArtifact));
  EXPECT_TRUE(whole.trusted());
  EXPECT_THAT(whole.text, HasSubstr("signed by key ci"));
  EXPECT_THAT(whole.text, HasSubstr("domain search"));
}

TEST_F(TrustPolicyTest, NothingIsTrustedWithoutASignatureOfAListedKey) {
  const TrustPolicy policy = Policy();
  const Provenance provenance = FakeProvenance();
  EXPECT_EQ(policy.JudgeRecord(FakeReceived(provenance), {}, kNow_s).verdict, Verdict::kUnsigned);
  EXPECT_EQ(VerdictOf(policy, keys_.stranger, provenance), Verdict::kUnknownKey);
  EXPECT_EQ(VerdictOf(TrustPolicy(), keys_.ci, provenance), Verdict::kUnknownKey);
  // A stranger's signature under the name of a known key.
  Envelope envelope = *DecodeEnvelope(Sign(keys_.stranger, provenance));
  envelope.key = keys_.ci.public_key().id();
  const auto judge = [&] {
    return policy.JudgeRecord(FakeReceived(provenance), EncodeEnvelope(envelope), kNow_s).verdict;
  };
  EXPECT_EQ(judge(), Verdict::kBadSignature);
  // A known key that signs what names another builder.
  envelope.key = keys_.team.public_key().id();
  Provenance of_ci = provenance;
  of_ci.builder = keys_.ci.public_key().id();
  envelope.provenance = *EncodeProvenance(of_ci);
  envelope.signature = keys_.team.Sign(Statement::kProvenance, envelope.provenance);
  EXPECT_EQ(judge(), Verdict::kMalformed);
  // A signature of another kind of statement over the same bytes.
  envelope.key = keys_.ci.public_key().id();
  envelope.signature = keys_.ci.Sign(Statement::kRotation, envelope.provenance);
  EXPECT_EQ(judge(), Verdict::kBadSignature);
  envelope.signature = keys_.ci.Sign(Statement::kProvenance, envelope.provenance);
  EXPECT_EQ(judge(), Verdict::kAwaitsArtifact);
}

TEST_F(TrustPolicyTest, NoCutOrFlippedEnvelopeIsTrusted) {
  const TrustPolicy policy = Policy();
  const Provenance provenance = FakeProvenance();
  const Received received = FakeReceived(provenance);
  const Buffer envelope = Sign(keys_.ci, provenance);
  ASSERT_EQ(policy.JudgeRecord(received, envelope, kNow_s).verdict, Verdict::kAwaitsArtifact);
  for (size_t size = 1; size < envelope.size(); ++size) {
    EXPECT_EQ(policy.JudgeRecord(received, Bytes(envelope).first(size), kNow_s).verdict, Verdict::kMalformed) << size;
  }
  for (size_t bit = 0; bit < 8 * envelope.size(); ++bit) {
    Buffer flipped = envelope;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const Verdict verdict = policy.JudgeRecord(received, flipped, kNow_s).verdict;
    EXPECT_TRUE(verdict == Verdict::kMalformed || verdict == Verdict::kOtherVersion ||
                verdict == Verdict::kUnknownKey || verdict == Verdict::kBadSignature)
        << bit << " " << NameOf(verdict);
  }
}

TEST_F(TrustPolicyTest, SignedThingsServeNowhereElse) {
  const TrustPolicy policy = Policy();
  const Provenance provenance = FakeProvenance();
  const Buffer envelope = Sign(keys_.ci, provenance);
  const auto judge = [&](const auto& change) {
    Received received = FakeReceived(provenance);
    change(received);
    return policy.JudgeRecord(received, envelope, kNow_s).verdict;
  };
  EXPECT_EQ(judge([](Received& received) { received.entry_key.low ^= 1; }), Verdict::kOtherEntry);
  EXPECT_EQ(judge([](Received& received) { received.function = "other"; }), Verdict::kOtherEntry);
  EXPECT_EQ(judge([](Received& received) { received.asked.group = "other"; }), Verdict::kOtherEntry);
  EXPECT_EQ(judge([](Received& received) { received.graph_key.high ^= 1; }), Verdict::kOtherGraph);
  EXPECT_EQ(judge([](Received& received) { received.variant = Sha256Of(AsBytes("more sizes")); }),
            Verdict::kOtherVariant);
  EXPECT_EQ(judge([](Received& received) { received.artifact.low ^= 1; }), Verdict::kOtherArtifact);
}

TEST_F(TrustPolicyTest, AnArtifactInPlaceOfAnotherIsNotServed) {
  const TrustPolicy policy = Policy();
  const Provenance one = FakeProvenance("one"), other = FakeProvenance("two");
  const Judgement record = policy.JudgeRecord(FakeReceived(one), Sign(keys_.ci, one), kNow_s);
  EXPECT_TRUE(JudgeArtifact(record, AsBytes("one")).trusted());
  for (const std::string_view bytes : {"two", "", "onE", "one "}) {
    EXPECT_EQ(JudgeArtifact(record, AsBytes(bytes)).verdict, Verdict::kOtherArtifact) << bytes;
  }
  // The digest of the index alone does not make it right: whoever can make two contents of one XXH3 must not gain.
  Provenance forged = one;
  forged.artifact_sha256 = other.artifact_sha256;
  EXPECT_EQ(
      JudgeArtifact(policy.JudgeRecord(FakeReceived(forged), Sign(keys_.ci, forged), kNow_s), AsBytes("one")).verdict,
      Verdict::kOtherArtifact);
  // A refused record is refused with any artifact.
  EXPECT_EQ(
      JudgeArtifact(policy.JudgeRecord(FakeReceived(one), Sign(keys_.stranger, one), kNow_s), AsBytes("one")).verdict,
      Verdict::kUnknownKey);
}

TEST_F(TrustPolicyTest, FirstDomainThatFitsSaysWhoMayWrite) {
  const TrustPolicy policy = Policy();
  Provenance provenance = FakeProvenance();
  EXPECT_EQ(VerdictOf(policy, keys_.team, provenance), Verdict::kTrusted);
  // Also in group search, but prod comes first.
  provenance.function = "prod.rank";
  EXPECT_EQ(VerdictOf(policy, keys_.team, provenance), Verdict::kNotInDomain);
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance), Verdict::kTrusted);
  provenance.function = "live.x";
  EXPECT_EQ(VerdictOf(policy, keys_.team, provenance), Verdict::kNotInDomain);
  provenance = FakeProvenance();
  provenance.group = "ads";
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance), Verdict::kNotInDomain);
  EXPECT_THAT(Judge(policy, keys_.ci, provenance).text, HasSubstr("in no domain"));
}

TEST_F(TrustPolicyTest, TargetsAreAPartOfDomains) {
  const Result<TrustPolicy> policy = TrustPolicy::Parse(fmt::format(R"(version = 1
[[domain]]
name = "new"
targets = ["x86-64-v4"]
[[key]]
public = "{}"
domains = ["new"])",
                                                                    keys_.ci.public_key().ToLine()));
  ASSERT_TRUE(policy) << policy.error().ToText();
  Provenance provenance = FakeProvenance();
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kTrusted);
  provenance.target = "x86-64-v3";
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kNotInDomain);
}

TEST_F(TrustPolicyTest, WhoAsksDecidesNotWhatTheSignerSays) {
  const TrustPolicy policy = Policy();
  // Team may write what is of group search, not prod.*, and signs a graph as one of its own.
  const Provenance provenance = FakeProvenance();
  const Buffer envelope = Sign(keys_.team, provenance);
  Received received = FakeReceived(provenance);
  ASSERT_EQ(policy.JudgeRecord(received, envelope, kNow_s).verdict, Verdict::kAwaitsArtifact);
  received.asked.function = "prod.rank";
  EXPECT_EQ(policy.JudgeRecord(received, envelope, kNow_s).verdict, Verdict::kNotInDomain);
  EXPECT_EQ(policy.JudgeFor(received.asked, envelope, kNow_s).verdict, Verdict::kNotInDomain);
  received.asked = {provenance.function, provenance.group, "x86-64-v3"};
  EXPECT_EQ(policy.JudgeFor(received.asked, envelope, kNow_s).verdict, Verdict::kOtherGraph);
}

TEST_F(TrustPolicyTest, ATargetThatIsNotKnownIsInNoDomainOfTargets) {
  // Were it not refused, it would fall to the second domain, which everybody may write.
  const std::string text = fmt::format(R"(version = 1
[[domain]]
name = "new"
targets = ["x86-64-v4"]
[[domain]]
name = "rest"
[[key]]
public = "{}"
domains = ["rest"])",
                                       keys_.ci.public_key().ToLine());
  const Result<TrustPolicy> policy = TrustPolicy::Parse(text);
  ASSERT_TRUE(policy) << policy.error().ToText();
  EXPECT_TRUE(policy->has_targets());
  Provenance provenance = FakeProvenance();
  provenance.target = "x86-64-v3";
  const Buffer envelope = Sign(keys_.ci, provenance);
  const auto verdict = [&](const std::string& target) {
    return policy->JudgeFor({provenance.function, provenance.group, target}, envelope, kNow_s).verdict;
  };
  EXPECT_EQ(verdict("x86-64-v3"), Verdict::kAwaitsArtifact);
  EXPECT_EQ(verdict(""), Verdict::kNotInDomain);
  // A signer that writes another target does not get into another domain.
  EXPECT_EQ(verdict("x86-64-v4"), Verdict::kOtherGraph);
}

TEST_F(TrustPolicyTest, WhoPassesOnLetsNobodyInWhoHasNoWordThere) {
  const TrustPolicy policy = Policy();
  Provenance provenance = FakeProvenance();
  provenance.function = "prod.rank";
  const auto verdict = [&](const std::string& vouched) {
    provenance.facts[kVouchedFact] = vouched;
    return VerdictOf(policy, keys_.ci, provenance);
  };
  const std::string ci = keys_.ci.public_key().id().ToHex(), team = keys_.team.public_key().id().ToHex();
  EXPECT_EQ(verdict(ci), Verdict::kTrusted);
  EXPECT_EQ(verdict(team), Verdict::kNotInDomain);
  EXPECT_EQ(verdict(ci + " " + team), Verdict::kNotInDomain);
  EXPECT_EQ(verdict(keys_.stranger.public_key().id().ToHex()), Verdict::kNotInDomain);
  for (const char* broken : {"", " ", "no key", "00"}) EXPECT_EQ(verdict(broken), Verdict::kNotInDomain) << broken;
}

TEST_F(TrustPolicyTest, ThisHostOnlyTakesNoOtherKey) {
  const TrustPolicy policy = Policy();
  Provenance provenance = FakeProvenance();
  provenance.function = "scratch.try";
  EXPECT_EQ(VerdictOf(policy, keys_.own, provenance), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance), Verdict::kNotInDomain);
  // The own key is one as all others everywhere else.
  EXPECT_EQ(VerdictOf(policy, keys_.own, FakeProvenance()), Verdict::kNotInDomain);
  const TrustPolicy without = *TrustPolicy::Parse(Text(keys_));
  EXPECT_EQ(VerdictOf(without, keys_.own, provenance), Verdict::kUnknownKey);
}

TEST_F(TrustPolicyTest, KeysHaveTheirTime) {
  const std::string text = fmt::format(R"(version = 1
[[domain]]
name = "all"
[[key]]
public = "{}"
domains = ["all"]
from = 2023-11-14T23:13:20+01:00
until = 2023-11-15)",
                                       keys_.ci.public_key().ToLine());
  const Result<TrustPolicy> policy = TrustPolicy::Parse(text);
  ASSERT_TRUE(policy) << policy.error().ToText();
  Provenance provenance = FakeProvenance();
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kTrusted);
  provenance.built_s = kFakeBuilt_s - 1;
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kNotYetValid);
  provenance.built_s = 1'700'006'399;
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kTrusted);
  provenance.built_s = 1'700'006'400;
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, provenance), Verdict::kExpired);
}

TEST_F(TrustPolicyTest, NothingComesFromTheFuture) {
  const TrustPolicy policy = Policy();
  Provenance provenance = FakeProvenance();
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance, kFakeBuilt_s - 300), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance, kFakeBuilt_s - 301), Verdict::kFromTheFuture);
  provenance.built_s = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance, -5), Verdict::kFromTheFuture);
  provenance.built_s = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(VerdictOf(policy, keys_.ci, provenance, -5), Verdict::kTrusted);
}

TEST_F(TrustPolicyTest, OlderEnvelopesAreReplays) {
  const TrustPolicy policy = Policy();
  Provenance older = FakeProvenance(), newer = FakeProvenance("artifact", "more sizes");
  newer.built_s += 60;
  Received received = FakeReceived(older);
  // By itself the old pair of record and envelope is as good as when it was signed.
  EXPECT_EQ(policy.JudgeRecord(received, Sign(keys_.ci, older), kNow_s).verdict, Verdict::kAwaitsArtifact);
  // An old envelope beside the new record is not.
  EXPECT_EQ(policy.JudgeRecord(FakeReceived(newer), Sign(keys_.ci, older), kNow_s).verdict, Verdict::kOtherVariant);
  // Nor is the pair, to whom has seen the new one.
  received.newest = [&](const Provenance&) { return newer.built_s; };
  EXPECT_EQ(policy.JudgeRecord(received, Sign(keys_.ci, older), kNow_s).verdict, Verdict::kReplayed);
  received.newest = [&](const Provenance&) { return older.built_s; };
  EXPECT_EQ(policy.JudgeRecord(received, Sign(keys_.ci, older), kNow_s).verdict, Verdict::kAwaitsArtifact);
}

TEST_F(TrustPolicyTest, DomainsMayBoundTheAge) {
  const std::string text = fmt::format(R"(version = 1
[[domain]]
name = "all"
age_max_days = 10
[[key]]
public = "{}"
domains = ["all"])",
                                       keys_.ci.public_key().ToLine());
  const Result<TrustPolicy> policy = TrustPolicy::Parse(text);
  ASSERT_TRUE(policy) << policy.error().ToText();
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, FakeProvenance(), kNow_s), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(*policy, keys_.ci, FakeProvenance(), kNow_s + 1), Verdict::kTooOld);
}

TEST_F(TrustPolicyTest, RevocationsHitAllThatFits) {
  const Provenance provenance = FakeProvenance();
  const auto verdict = [&](const std::string& revocation) {
    return VerdictOf(Policy("[[revocation]]\nreason = \"why\"\n" + revocation), keys_.ci, provenance);
  };
  const std::string ci = keys_.ci.public_key().id().ToHex(), team = keys_.team.public_key().id().ToHex();
  EXPECT_EQ(verdict(fmt::format("key = \"{}\"", ci)), Verdict::kRevoked);
  EXPECT_EQ(verdict(fmt::format("key = \"{}\"", team)), Verdict::kTrusted);
  EXPECT_EQ(verdict("host = \"build-7\""), Verdict::kRevoked);
  EXPECT_EQ(verdict("host = \"build-8\""), Verdict::kTrusted);
  EXPECT_EQ(verdict(fmt::format("artifact = \"{}\"", provenance.artifact.ToHex())), Verdict::kRevoked);
  EXPECT_EQ(verdict(fmt::format("artifact_sha256 = \"{}\"", provenance.artifact_sha256.ToHex())), Verdict::kRevoked);
  EXPECT_EQ(verdict(fmt::format("graph = \"{}\"", provenance.graph_key.ToHex())), Verdict::kRevoked);
  EXPECT_EQ(verdict(fmt::format("graph = \"{}\"", provenance.entry_key.ToHex())), Verdict::kTrusted);
  // Built on 2023-11-14.
  EXPECT_EQ(verdict("from = 2023-11-14\nuntil = 2023-11-15"), Verdict::kRevoked);
  EXPECT_EQ(verdict("from = 2023-11-15"), Verdict::kTrusted);
  EXPECT_EQ(verdict("until = 2023-11-14"), Verdict::kTrusted);
  EXPECT_EQ(verdict(fmt::format("key = \"{}\"\nfrom = 2023-11-14\nuntil = 2023-11-15", ci)), Verdict::kRevoked);
  EXPECT_EQ(verdict(fmt::format("key = \"{}\"\nfrom = 2023-11-15", ci)), Verdict::kTrusted);
  EXPECT_EQ(verdict(fmt::format("key = \"{}\"\nhost = \"build-8\"", ci)), Verdict::kTrusted);
  EXPECT_THAT(Judge(Policy("[[revocation]]\nreason = \"stolen\"\nhost = \"build-7\""), keys_.ci, provenance).text,
              HasSubstr("host build-7: stolen"));
}

TEST_F(TrustPolicyTest, AQuarantineFileOnlyRevokes) {
  const std::string revoke =
      fmt::format("version = 1\n[[revocation]]\nkey = \"{}\"\n", keys_.ci.public_key().id().ToHex());
  EXPECT_EQ(VerdictOf(Policy("", revoke), keys_.ci, FakeProvenance()), Verdict::kRevoked);
  const std::string trusts =
      fmt::format("version = 1\n[[key]]\npublic = \"{}\"\n", keys_.stranger.public_key().ToLine());
  const auto policy = TrustPolicy::Parse(Text(keys_), trusts);
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().message(), HasSubstr("quarantine"));
}

class RotationTest : public TrustPolicyTest {
 protected:
  static constexpr int64_t kFrom_s = kFakeBuilt_s - 5, kOldUntil_s = kFakeBuilt_s + 5;
  std::string Line(const SigningKey& from, const SigningKey& to, int64_t from_s = kFrom_s) {
    const Result<Rotation> rotation = Rotation::Make(from, to, from_s, kOldUntil_s);
    EXPECT_TRUE(rotation) << rotation.error().ToText();
    return rotation->ToLine();
  }
  std::string Table(const std::string& line) { return fmt::format("[[rotation]]\nstatement = \"{}\"\n", line); }
  static Provenance BuiltAt(int64_t time_s) {
    Provenance provenance = FakeProvenance();
    provenance.built_s = time_s;
    return provenance;
  }
  SigningKey next_ = FakeKey(5, "ci-2"), third_ = FakeKey(6, "ci-3");
};

TEST_F(RotationTest, TheNewKeyMayWhatTheOldOneMay) {
  const TrustPolicy policy = Policy(Table(Line(keys_.team, next_)));
  EXPECT_THAT(policy.warnings(), IsEmpty());
  EXPECT_EQ(VerdictOf(policy, next_, BuiltAt(kFrom_s)), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, next_, BuiltAt(kFrom_s - 1)), Verdict::kNotYetValid);
  EXPECT_EQ(VerdictOf(policy, next_, BuiltAt(kOldUntil_s + kDay_s)), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, keys_.team, BuiltAt(kOldUntil_s - 1)), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, keys_.team, BuiltAt(kOldUntil_s)), Verdict::kExpired);
  Provenance prod = BuiltAt(kFrom_s);
  prod.function = "prod.rank";
  EXPECT_EQ(VerdictOf(policy, next_, prod), Verdict::kNotInDomain);
}

TEST_F(RotationTest, RotationsFollowEachOtherInAnyOrder) {
  const TrustPolicy policy = Policy(Table(Line(next_, third_, kFrom_s + 1)) + Table(Line(keys_.ci, next_)));
  EXPECT_THAT(policy.warnings(), IsEmpty());
  EXPECT_EQ(VerdictOf(policy, third_, BuiltAt(kFrom_s + 1)), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(policy, next_, BuiltAt(kOldUntil_s)), Verdict::kExpired);
  // A circle ends.
  const TrustPolicy circle = Policy(Table(Line(keys_.ci, next_)) + Table(Line(next_, keys_.ci)));
  EXPECT_EQ(VerdictOf(circle, keys_.ci, BuiltAt(kFrom_s)), Verdict::kTrusted);
}

TEST_F(RotationTest, OnlyWhatBothKeysHaveSignedCounts) {
  // Signed by a stranger in the name of ci.
  Rotation forged = *Rotation::Make(keys_.stranger, next_, kFrom_s, kOldUntil_s);
  forged.old_key = keys_.ci.public_key().id();
  EXPECT_FALSE(Rotation::FromLine(forged.ToLine()));
  // As before, with the new key's help.
  Rotation helped = *Rotation::Make(keys_.ci, next_, kFrom_s, kOldUntil_s);
  helped.by_old = Rotation::Make(keys_.stranger, next_, kFrom_s, kOldUntil_s)->by_old;
  const TrustPolicy policy = Policy(Table(helped.ToLine()));
  EXPECT_EQ(policy.warnings().size(), 1u);
  EXPECT_EQ(VerdictOf(policy, next_, BuiltAt(kFrom_s)), Verdict::kUnknownKey);
  EXPECT_EQ(VerdictOf(policy, keys_.ci, BuiltAt(kOldUntil_s + 1)), Verdict::kTrusted);
  EXPECT_EQ(Policy(Table(Line(keys_.stranger, next_))).warnings().size(), 1u);
}

TEST_F(RotationTest, ARevokedKeyBringsNoOther) {
  const std::string rotation = Table(Line(keys_.ci, next_));
  const std::string revoked = fmt::format("[[revocation]]\nkey = \"{}\"\n", keys_.ci.public_key().id().ToHex());
  EXPECT_EQ(VerdictOf(Policy(rotation + revoked), next_, BuiltAt(kFrom_s)), Verdict::kUnknownKey);
  EXPECT_EQ(VerdictOf(Policy(rotation + revoked + "until = 2023-11-14\n"), next_, BuiltAt(kFrom_s)), Verdict::kTrusted);
  EXPECT_EQ(VerdictOf(Policy(rotation + revoked + "from = 2023-11-14\n"), next_, BuiltAt(kFrom_s)),
            Verdict::kUnknownKey);
}

TEST_F(RotationTest, ComesBackAsALineAndIsRefusedWhenChanged) {
  const std::string line = Line(keys_.ci, next_);
  const Result<Rotation> back = Rotation::FromLine(line + "\n");
  ASSERT_TRUE(back) << back.error().ToText();
  EXPECT_EQ(back->ToLine(), line);
  EXPECT_TRUE(back->SignedBy(keys_.ci.public_key()));
  EXPECT_FALSE(back->SignedBy(keys_.team.public_key()));
  for (size_t size = 0; size < line.size(); ++size) EXPECT_FALSE(Rotation::FromLine(line.substr(0, size))) << size;
  const std::string_view word = "ingot-rotation ";
  const Buffer bytes = *BytesOfBase64(std::string_view(line).substr(word.size()), 4096);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Buffer flipped = bytes;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const Result<Rotation> read = Rotation::FromLine(std::string(word) + Base64Of(flipped));
    // The old key's signature alone is left to whoever knows the old key.
    EXPECT_TRUE(!read || !read->SignedBy(keys_.ci.public_key())) << bit;
  }
  EXPECT_FALSE(Rotation::Make(keys_.ci, keys_.ci, 0, 1));
  EXPECT_FALSE(Rotation::Make(keys_.ci, next_, 2, 1));
}

TEST(PatternTest, StarsAndQuestionMarks) {
  EXPECT_TRUE(FitsPattern("*", ""));
  EXPECT_TRUE(FitsPattern("a*c", "abbbc"));
  EXPECT_TRUE(FitsPattern("*.forward", "model.forward"));
  EXPECT_TRUE(FitsPattern("a?c*", "abc"));
  EXPECT_TRUE(FitsPattern("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(FitsPattern("", "a"));
  EXPECT_FALSE(FitsPattern("a*c", "abbb"));
  EXPECT_FALSE(FitsPattern("prod.*", "xprod.a"));
  EXPECT_FALSE(FitsPattern("a?", "a"));
  // Would take for ever where every star tries all places.
  EXPECT_FALSE(FitsPattern("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(1000, 'a')));
}

}  // namespace
}  // namespace ingot::cache
