// SPDX-License-Identifier: Apache-2.0
#include "cache/index/sharded_blobs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "cache/async/waiter.h"
#include "cache/index/local_blobs.h"
#include "cache/store/memory_store.h"
#include "tests/support/cache/blob_contract.h"
#include "tests/support/run_task.h"

namespace ingot::cache {
namespace {

/// A shard that may be away or silent, and counts what it is asked.
class AwayBlobs final : public BlobStore {
 public:
  Task<SealedRef> Get(Digest digest, Until until) override {
    CO_TRY(co_await Ask(until));
    co_return co_await behind_.Get(digest, until);
  }
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override {
    CO_TRY(co_await Ask(until));
    co_return co_await behind_.Put(digest, std::move(blob), cost_s, until);
  }
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override {
    CO_TRY(co_await Ask(until));
    co_return co_await behind_.Has(std::move(digests), until);
  }
  Task<bool> Delete(Digest digest, Until until) override {
    CO_TRY(co_await Ask(until));
    co_return co_await behind_.Delete(digest, until);
  }
  std::string Describe() const override { return "shard"; }

  std::atomic<bool> is_away = false, is_silent = false, is_damaged = false;
  std::atomic<int> asked = 0;

 private:
  Task<void> Ask(Until until) {
    ++asked;
    if (is_away) co_return Error(Code::kUnavailable, "away");
    if (is_damaged) co_return Error(Code::kCorrupt, "damaged");
    if (!is_silent) co_return Status();
    const auto never = std::make_shared<Waiter>();
    co_return co_await Waiter::Wait(never, until);
  }
  MemoryStore store_;
  LocalBlobs behind_{store_};
};

struct Places {
  explicit Places(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      names.push_back("shard" + std::to_string(i));
      stores.push_back(std::make_shared<AwayBlobs>());
    }
  }
  std::vector<BlobShard> Shards() const {
    std::vector<BlobShard> shards;
    for (size_t i = 0; i < names.size(); ++i) shards.push_back({names[i], stores[i]});
    return shards;
  }
  AwayBlobs& Choice(const Digest& digest, size_t place) { return *stores[RendezvousOrder(names, digest, 5)[place]]; }

  std::vector<std::string> names;
  std::vector<std::shared_ptr<AwayBlobs>> stores;
};

BlobWorld MakeSharded(size_t shards) {
  BlobWorld world;
  const auto places = std::make_shared<Places>(shards);
  world.store = std::make_unique<ShardedBlobs>(places->Shards(), SystemClock());
  world.around = places;
  return world;
}

INSTANTIATE_TEST_SUITE_P(Sharded, BlobContract,
                         ::testing::Values(BlobKind{"two", [] { return MakeSharded(2); }},
                                           BlobKind{"five", [] { return MakeSharded(5); }}),
                         KindName);

class ShardedBlobsTest : public testing::Test {
 protected:
  Digest Write(uint64_t seed) {
    const SealedRef blob = MakeBlob(1000, seed);
    const Digest digest = DigestOf(blob->bytes());
    const auto put = RunTask(blobs_.Put(digest, blob, 1, Until::Done()));
    EXPECT_TRUE(put) << put.error().ToText();
    return digest;
  }
  static Digest NameOf(uint64_t seed) { return DigestOf(MakeBlobBytes(1000, seed)); }
  Result<SealedRef> Get(const Digest& digest, Until until = Until::Done()) {
    return RunTask(blobs_.Get(digest, std::move(until)));
  }
  Result<std::vector<bool>> Has(std::vector<Digest> digests) {
    return RunTask(blobs_.Has(std::move(digests), Until::Done()));
  }

  static ShardLimits Limits() {
    ShardLimits limits = ShardedBlobs::LimitsOf();
    // The clock stands still.
    limits.breaker.apart_ms_min = 0;
    return limits;
  }
  FakeClock clock_;
  Places places_{5};
  ShardedBlobs blobs_{places_.Shards(), clock_, Limits()};
};

TEST_F(ShardedBlobsTest, ALostShardIsAMissAndTheNextTakesItsBlobs) {
  const Digest digest = Write(1);
  AwayBlobs& first = places_.Choice(digest, 0);
  EXPECT_EQ(first.asked, 1);
  first.is_away = true;
  EXPECT_EQ(Get(digest).error().code(), Code::kNotFound);
  EXPECT_EQ(*Has({digest}), std::vector<bool>{false});
  Write(1);
  EXPECT_TRUE(Get(digest));
  EXPECT_EQ(*Has({digest, NameOf(2)}), (std::vector<bool>{true, false}));
}

TEST_F(ShardedBlobsTest, WhatWasWrittenWhileAShardWasAwayIsFoundWhenItIsBack) {
  const Digest digest = NameOf(1);
  places_.Choice(digest, 0).is_away = true;
  places_.Choice(digest, 1).is_away = true;
  Write(1);
  places_.Choice(digest, 0).is_away = false;
  places_.Choice(digest, 1).is_away = false;
  EXPECT_TRUE(Get(digest));
  EXPECT_EQ(*Has({digest}), std::vector<bool>{true});
}

TEST_F(ShardedBlobsTest, NoMoreThanThreeAreAsked) {
  const Digest digest = NameOf(1);
  EXPECT_EQ(Get(digest).error().code(), Code::kNotFound);
  EXPECT_EQ(*Has({digest}), std::vector<bool>{false});
  for (size_t place = 0; place < 5; ++place) EXPECT_EQ(places_.Choice(digest, place).asked, place < 3 ? 2 : 0) << place;
}

TEST_F(ShardedBlobsTest, ALostShardIsLeftAloneAndTriedAgain) {
  const Digest digest = Write(1);
  AwayBlobs& first = places_.Choice(digest, 0);
  first.is_away = true;
  first.asked = 0;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Get(digest));
  EXPECT_EQ(first.asked, 3);
  EXPECT_NE(blobs_.Describe().find("left alone"), std::string::npos);
  first.is_away = false;
  clock_.AdvanceSeconds(1);
  EXPECT_TRUE(Get(digest));
  EXPECT_EQ(blobs_.Describe().find("left alone"), std::string::npos);
}

TEST_F(ShardedBlobsTest, ASilentShardLeavesTimeForTheNext) {
  const Digest digest = NameOf(1);
  places_.Choice(digest, 0).is_away = true;
  Write(1);
  places_.Choice(digest, 0).is_away = false;
  places_.Choice(digest, 0).is_silent = true;
  EXPECT_TRUE(Get(digest, Until::In(std::chrono::milliseconds(600))));
}

TEST_F(ShardedBlobsTest, WhatIsDamagedInOnePlaceIsReadFromTheNext) {
  const Digest digest = NameOf(1);
  AwayBlobs& first = places_.Choice(digest, 0);
  first.is_away = true;
  Write(1);
  first.is_away = false;
  first.is_damaged = true;
  EXPECT_TRUE(Get(digest));
  // Nowhere else: whoever asks is told that it is damaged.
  const Digest only = NameOf(2);
  places_.Choice(only, 0).is_damaged = true;
  EXPECT_EQ(Get(only).error().code(), Code::kCorrupt);
}

TEST_F(ShardedBlobsTest, WhatIsDeletedIsGoneFromAllPlaces) {
  const Digest digest = Write(1);
  AwayBlobs& first = places_.Choice(digest, 0);
  first.is_away = true;
  Write(1);
  // Nobody is told that it is gone while it may come back.
  EXPECT_EQ(RunTask(blobs_.Delete(digest, Until::Done())).error().code(), Code::kUnavailable);
  first.is_away = false;
  EXPECT_TRUE(*RunTask(blobs_.Delete(digest, Until::Done())));
  EXPECT_EQ(Get(digest).error().code(), Code::kNotFound);
  EXPECT_FALSE(*RunTask(blobs_.Delete(digest, Until::Done())));
}

TEST_F(ShardedBlobsTest, AllPlacesAwaySaysSo) {
  for (const auto& store : places_.stores) store->is_away = true;
  EXPECT_EQ(Get(NameOf(1)).error().code(), Code::kUnavailable);
  EXPECT_EQ(Has({NameOf(1)}).error().code(), Code::kUnavailable);
}

TEST_F(ShardedBlobsTest, AsksManyInAsManyCallsAsThereAreShards) {
  std::vector<Digest> digests;
  std::vector<bool> expected;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    digests.push_back(seed % 2 == 0 ? Write(seed) : NameOf(seed));
    expected.push_back(seed % 2 == 0);
  }
  for (const auto& store : places_.stores) store->asked = 0;
  EXPECT_EQ(*Has(digests), expected);
  int asked = 0;
  for (const auto& store : places_.stores) asked += store->asked;
  EXPECT_LE(asked, 15);
}

}  // namespace
}  // namespace ingot::cache
