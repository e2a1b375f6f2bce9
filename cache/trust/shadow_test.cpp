// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/shadow.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/fake_clock.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using Outcome = ShadowPolicy::Outcome;

class ShadowPolicyTest : public testing::Test {
 protected:
  ShadowPolicy Policy(uint64_t secret = 1) {
    return ShadowPolicy(options_, clock_, [secret] { return secret; });
  }
  /// Costs a second.
  static Provenance Artifact(int number) {
    Provenance provenance = FakeProvenance(fmt::format("artifact {}", number));
    provenance.cost_us = 1'000'000;
    provenance.builder = FakeKey(1, "ci").public_key().id();
    return provenance;
  }
  static std::set<int> Chosen(ShadowPolicy& policy, int count) {
    std::set<int> out;
    for (int i = 0; i < count; ++i) {
      if (policy.Fetched(Artifact(i))) out.insert(i);
    }
    return out;
  }

  FakeClock clock_;
  ShadowPolicy::Options options_ = {.one_in = 1,
                                    .idle_share = 0.5,
                                    .budget_s_max = 10,
                                    .waiting_max = 4096,
                                    .checked_max = 4096,
                                    .compiler = FakeProvenance().compiler,
                                    .target = FakeProvenance().target};
};

TEST_F(ShadowPolicyTest, OneInSoManyByDigestAndSecret) {
  options_.one_in = 10;
  ShadowPolicy one = Policy(1), same = Policy(1), other = Policy(2);
  const std::set<int> chosen = Chosen(one, 2000);
  EXPECT_GT(chosen.size(), 120u);
  EXPECT_LT(chosen.size(), 280u);
  EXPECT_EQ(Chosen(same, 2000), chosen);
  EXPECT_NE(Chosen(other, 2000), chosen);
  EXPECT_EQ(one.counts().fetched, 2000u);
  EXPECT_EQ(one.counts().chosen, chosen.size());
  // Once each.
  EXPECT_TRUE(Chosen(one, 2000).empty());
  options_.one_in = 0;
  ShadowPolicy none = Policy();
  EXPECT_TRUE(Chosen(none, 2000).empty());
}

TEST_F(ShadowPolicyTest, OnlyWhatThisMachineWouldMakeTheSame) {
  ShadowPolicy policy = Policy();
  Provenance provenance = Artifact(0);
  provenance.compiler = "another";
  EXPECT_FALSE(policy.Fetched(provenance));
  provenance = Artifact(0);
  provenance.target = "x86-64-v3";
  EXPECT_FALSE(policy.Fetched(provenance));
  EXPECT_TRUE(policy.Fetched(Artifact(0)));
  // The same artifact of another builder is another word to check.
  provenance = Artifact(0);
  provenance.builder = FakeKey(2, "team").public_key().id();
  EXPECT_TRUE(policy.Fetched(provenance));
}

TEST_F(ShadowPolicyTest, SpendsAShareOfIdleTime) {
  ShadowPolicy policy = Policy();
  EXPECT_EQ(Chosen(policy, 3).size(), 3u);
  clock_.AdvanceSeconds(100);
  EXPECT_FALSE(policy.Next()) << "not idle";
  policy.SetIdle(true);
  EXPECT_FALSE(policy.Next()) << "not idle for long enough";
  clock_.AdvanceSeconds(1);
  EXPECT_FALSE(policy.Next());
  clock_.AdvanceSeconds(1);
  const auto first = policy.Next();
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, Artifact(0));
  EXPECT_FALSE(policy.Next()) << "one at a time";
  clock_.AdvanceSeconds(100);
  EXPECT_EQ(policy.Finish(first->artifact_sha256, 3).outcome, Outcome::kEqual);
  // It took two seconds more than was saved up: six more of idle time until the next.
  EXPECT_DOUBLE_EQ(policy.budget_s(), -2);
  clock_.AdvanceSeconds(5);
  EXPECT_FALSE(policy.Next());
  clock_.AdvanceSeconds(1);
  policy.SetIdle(false);
  EXPECT_FALSE(policy.Next()) << "not idle any more";
  clock_.AdvanceSeconds(1000);
  policy.SetIdle(true);
  EXPECT_DOUBLE_EQ(policy.budget_s(), 1);
  EXPECT_TRUE(policy.Next());
  policy.Abandon(0.5);
  EXPECT_EQ(policy.counts().abandoned, 1u);
  clock_.AdvanceSeconds(1'000'000);
  EXPECT_DOUBLE_EQ(policy.budget_s(), 10);
}

TEST_F(ShadowPolicyTest, WhatCostsMoreThanCanBeSavedUpHasItsTurn) {
  ShadowPolicy policy = Policy();
  Provenance costly = Artifact(0);
  costly.cost_us = 1'000'000'000'000;
  EXPECT_TRUE(policy.Fetched(costly));
  policy.SetIdle(true);
  clock_.AdvanceSeconds(19);
  EXPECT_FALSE(policy.Next());
  clock_.AdvanceSeconds(1);
  EXPECT_TRUE(policy.Next());
}

TEST_F(ShadowPolicyTest, WaitsForFew) {
  options_.waiting_max = 2;
  options_.checked_max = 3;
  ShadowPolicy policy = Policy();
  EXPECT_EQ(Chosen(policy, 10).size(), 2u);
  EXPECT_EQ(policy.counts().let_go, 8u);
}

class ShadowFindingTest : public ShadowPolicyTest {
 protected:
  ShadowFindingTest() : policy_(Policy()) {
    policy_.Fetched(Artifact(0));
    policy_.SetIdle(true);
    clock_.AdvanceSeconds(100);
  }
  ShadowPolicy::Finding Compile(std::string_view bytes) {
    EXPECT_TRUE(policy_.Next());
    const ShadowPolicy::Finding finding = policy_.Finish(Sha256Of(AsBytes(bytes)), 0);
    clock_.AdvanceSeconds(100);
    return finding;
  }
  ShadowPolicy policy_;
};

TEST_F(ShadowFindingTest, ADifferenceThatStaysPutsTheBuilderIntoQuarantine) {
  const ShadowPolicy::Finding first = Compile("other");
  EXPECT_EQ(first.outcome, Outcome::kOnceMore);
  EXPECT_FALSE(first.revocation);
  const ShadowPolicy::Finding second = Compile("other");
  EXPECT_EQ(second.outcome, Outcome::kDifferent);
  ASSERT_TRUE(second.revocation);
  EXPECT_TRUE(second.revocation->Hits(Artifact(0)));
  EXPECT_TRUE(second.revocation->Hits(Artifact(1))) << "all that this builder signs";
  Provenance of_another = Artifact(0);
  of_another.builder = FakeKey(2, "team").public_key().id();
  EXPECT_FALSE(second.revocation->Hits(of_another));
  EXPECT_THAT(second.revocation->reason, HasSubstr(Artifact(0).artifact.ToHex()));
  EXPECT_THAT(second.revocation->reason, HasSubstr("build-7"));
  EXPECT_EQ(second.revocation->when_s, clock_.now_s() - 100);
  EXPECT_FALSE(policy_.Next());
  EXPECT_EQ(policy_.counts().different, 1u);
}

TEST_F(ShadowFindingTest, AMachineThatMakesOtherBytesEachTimeAccusesNobody) {
  EXPECT_EQ(Compile("other").outcome, Outcome::kOnceMore);
  const ShadowPolicy::Finding finding = Compile("third");
  EXPECT_EQ(finding.outcome, Outcome::kUnstable);
  EXPECT_FALSE(finding.revocation);
  EXPECT_EQ(policy_.counts().unstable, 1u);
}

TEST_F(ShadowFindingTest, ADifferenceThatGoesAwayAccusesNobody) {
  EXPECT_EQ(Compile("other").outcome, Outcome::kOnceMore);
  const ShadowPolicy::Finding finding = Compile("artifact 0");
  EXPECT_EQ(finding.outcome, Outcome::kUnstable);
  EXPECT_FALSE(finding.revocation);
}

TEST_F(ShadowFindingTest, NothingRunningHasNoFinding) {
  const ShadowPolicy::Finding finding = policy_.Finish(Sha256Of({}), 5);
  EXPECT_EQ(finding.outcome, Outcome::kEqual);
  EXPECT_FALSE(finding.revocation);
  EXPECT_EQ(policy_.counts().equal, 0u);
}

}  // namespace
}  // namespace ingot::cache
