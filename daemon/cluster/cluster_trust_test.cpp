// SPDX-License-Identifier: Apache-2.0
// What machines take from each other, and what they do not.
#include "daemon/state/convert.h"
#include "proto/cluster_generated.h"
#include "tests/support/daemon/test_machines.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;

TEST_F(ClusterTest, NothingIsTakenFromAKeyThatIsNotTrusted) {
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  WriteTrust("version = 1\n\n[[domain]]\nname = \"all\"\n");
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), 0u);
  // It makes its own.
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 2u);
}

TEST_F(ClusterTest, ABlobThatIsNotWhatWasSignedIsNotTaken) {
  const auto a = Start("a");
  auto compiled = a->client().Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  const Digest artifact{compiled->reply.variant->artifact_low, compiled->reply.variant->artifact_high};
  ASSERT_TRUE(shared_.Delete(Table::kArtifacts, artifact, {}));
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
}

// Every damage of what is shared: the daemon answers, and serves nothing but what was signed.
TEST_F(ClusterTest, SurvivesEveryDamageOfSharedRecords) {
  {
    const auto a = Start("a");
    ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
    EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  }
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  const Buffer whole = shared_.Get(Table::kEntries, entry)->bytes;
  ASSERT_FALSE(whole.empty());
  const auto b = Start("b", /*may_sign=*/false);
  size_t found = 0, tried = 0;
  const auto check = [&](const Buffer& damaged) {
    ASSERT_TRUE(shared_.Put(Table::kEntries, entry, damaged, {}));
    Ignore(RunTask(b->core().entries.Delete(entry, Until::Done())), "it may be absent");
    auto answer = b->client().Lookup(*MakeKey("f"));
    ASSERT_TRUE(answer) << answer.error().ToText();
    ++tried;
    found += answer->reply.found;
    for (const UniqueFd& file : answer->files) {
      char text[64] = {};
      ASSERT_GT(pread(file.get(), text, sizeof text - 1, 0), 0);
      EXPECT_STREQ(text, "artifact of graph f 4");
    }
  };
  for (size_t size = 0; size < whole.size(); size += 3) {
    check(Buffer(whole.begin(), whole.begin() + static_cast<long>(size)));
  }
  for (size_t bit = 0; bit < whole.size() * 8; bit += 7) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    check(flipped);
  }
  EXPECT_LT(found * 4, tried) << "most of the bytes are signed, or lead to what is";
}

TEST_F(ClusterTest, TheStoreIsLookedThroughOnlyOnceTheTrustFileHasChanged) {
  store_ = std::make_shared<cache::MemoryStore>();
  {
    const auto a = Start("a");
    ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
    EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  }
  // As of a daemon of before, which said nothing of what it had looked at; this one may have, and may not.
  const Digest seen = DigestOf("trust seen");
  if (store_->StatOf(Table::kStats, seen)) {
    ASSERT_TRUE(store_->Delete(Table::kStats, seen, {}));
  }
  uint64_t walks = Count(Counter::trust_walks);
  {
    const auto b = Start("b");
    EXPECT_TRUE(Eventually([&] { return Count(Counter::trust_walks) == walks + 1; }));
    EXPECT_TRUE(Eventually([&] { return store_->StatOf(Table::kStats, DigestOf("trust seen")).has_value(); }));
    walks = Count(Counter::trust_walks);
  }
  for (int i = 0; i < 3; ++i) {
    const auto c = Start("c");
    EXPECT_TRUE(c->client().Lookup(*MakeKey("f"))->reply.found);
  }
  EXPECT_EQ(Count(Counter::trust_walks), walks);
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto d = Start("d");
  EXPECT_TRUE(Eventually([&] { return Count(Counter::trust_walks) == walks + 1; }));
}

TEST_F(ClusterTest, WhatIsRevokedIsTakenBackHereAndInTheCluster) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(a->client().Compile(MakeCompile("g", "graph g 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 4; }));
  const auto b = StartWith("b", &other);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  // By its graph, for another entry.
  ASSERT_TRUE(b->client().Compile(MakeCompile("h", "graph g 4")));
  ASSERT_TRUE(b->client().Compile(MakeCompile("own", "graph own 4")));
  EXPECT_EQ(Count(Counter::compiles), 3u);
  EXPECT_TRUE(Eventually([&] { return b->core().sharing.unsent() == 0; }));

  WriteTrustOf({key_.get(), &other}, RevocationOf(*key_));
  const auto recalled = b->client().Query("recall", "{}");
  ASSERT_TRUE(recalled) << recalled.error().ToText();
  EXPECT_THAT(*recalled, testing::HasSubstr("\"variants\":2")) << "of f, and of h, whose artifact came by its graph";
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("h"))->reply.found);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("own"))->reply.found);
  // The shared tiers have only what b made by itself.
  const auto left = RunTask(index_.List(Table::kEntries, std::nullopt, "", 100, Until::Done()));
  ASSERT_EQ(left->rows.size(), 1u);
  EXPECT_EQ(left->rows[0].digest, ToKey(*MakeKey("own")).ToDigest());
  EXPECT_EQ(RunTask(index_.List(Table::kGraphs, std::nullopt, "", 100, Until::Done()))->rows.size(), 1u);
  // It compiles for itself what it is not given.
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 4u);
}

TEST_F(ClusterTest, NobodySignsWhatAnotherHasSaidAlready) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  const auto b = StartWith("b", &other);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  b->core().sharing.Offer(entry);
  EXPECT_TRUE(Eventually([&] { return b->core().sharing.unsent() == 0; }));
  const Buffer bytes = shared_.Get(Table::kEntries, entry)->bytes;
  const auto* record = proto::ReadMessage<proto::ClusterEntry>(bytes);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->variants()->size(), 1u);
}

// Builds are deterministic, so what compiles to something else here was not made as its builder says.
TEST_F(ClusterTest, ABuilderWhoseArtifactsAreNotWhatTheirGraphsCompileToLosesItsWord) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto honest = Start("honest");
  ASSERT_TRUE(honest->client().Compile(MakeCompile("g", "graph g 4")));
  const auto liar = StartWith("liar", &other);
  liar->compilers().AddToArtifacts(" and something else");
  ASSERT_TRUE(liar->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 4; }));
  const auto b = Start("b", /*may_sign=*/false);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  EXPECT_TRUE(Eventually(
      [&] { return b->core().shadowing.counts().different == 1 && b->core().shadowing.counts().equal == 1; }));
  EXPECT_TRUE(Eventually([&] { return !b->client().Lookup(*MakeKey("f"))->reply.found; }));
  EXPECT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), 0u) << "nothing new by that key";
}

}  // namespace
}  // namespace ingot::daemon
