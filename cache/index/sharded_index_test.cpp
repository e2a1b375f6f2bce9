// SPDX-License-Identifier: Apache-2.0
#include "cache/index/sharded_index.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "base/metrics.h"
#include "cache/async/waiter.h"
#include "cache/index/local_index.h"
#include "cache/index/rendezvous.h"
#include "cache/store/memory_store.h"
#include "tests/support/run_task.h"

namespace ingot::cache {
namespace {

constexpr std::chrono::milliseconds kLong{600'000};

/// A shard that may be away, and counts what it is asked.
class AwayIndex final : public Index {
 public:
  Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) override {
    CO_TRY(Ask());
    if (is_silent) {
      const auto never = std::make_shared<Waiter>();
      CO_TRY(co_await Waiter::Wait(never, until));
    }
    co_return co_await behind_.Get(std::move(keys), until);
  }
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                               Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.CompareAndSet(key, expected, std::move(value), std::move(facts), until);
  }
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.CompareAndDelete(key, expected, until);
  }
  Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                        Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.List(table, std::move(group), std::move(after), limit, until);
  }
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Groups(table, std::move(after), limit, until);
  }
  Task<Record> Changed(RecordKey key, uint64_t seen, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Changed(key, seen, until);
  }
  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Acquire(key, std::move(holder), ttl, until);
  }
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Renew(key, fence, std::move(progress), ttl, until);
  }
  Task<void> Release(Digest key, uint64_t fence, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Release(key, fence, until);
  }
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override {
    CO_TRY(Ask());
    co_return co_await behind_.Watch(key, fence, std::move(progress), until);
  }
  std::string Describe() const override { return "away"; }

  bool away = false;
  int asked = 0;
  bool is_silent = false;
  /// So many calls fail, as on a connection that is cut.
  int cuts = 0;

 private:
  Status Ask() {
    ++asked;
    if (cuts > 0) {
      --cuts;
      return Error(Code::kUnavailable, "cut");
    }
    return away ? Status(Error(Code::kUnavailable, "away")) : Status();
  }
  MemoryStore store_;
  LocalIndex behind_{store_};
};

class ShardedIndexTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<IndexShard> shards;
    for (size_t i = 0; i < 5; ++i) {
      names_.push_back("shard" + std::to_string(i));
      shards_.push_back(std::make_shared<AwayIndex>());
      shards.push_back({names_.back(), shards_.back()});
    }
    ShardLimits options;
    options.answer_max = std::chrono::milliseconds(100);
    // Its clock stands still.
    options.breaker.apart_ms_min = 0;
    index_ = std::make_unique<ShardedIndex>(std::move(shards), clock_, options);
  }
  AwayIndex& Choice(const Digest& key, size_t place) { return *shards_[RendezvousOrder(names_, key, 5)[place]]; }
  static RecordKey KeyOf(const std::string& name) { return {Table::kGraphs, DigestOf(name)}; }
  static Buffer Text(std::string_view text) { return Buffer(text.begin(), text.end()); }
  Record Get(const RecordKey& key) {
    auto records = RunTask(index_->Get({key}, Until::Done()));
    EXPECT_TRUE(records) << records.error().ToText();
    return records ? records->front() : Record();
  }
  uint64_t Set(const RecordKey& key, uint64_t expected, std::string_view value) {
    auto version = RunTask(index_->CompareAndSet(key, expected, Text(value), {}, Until::Done()));
    EXPECT_TRUE(version) << version.error().ToText();
    return version ? *version : 0;
  }

  FakeClock clock_;
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<AwayIndex>> shards_;
  std::unique_ptr<ShardedIndex> index_;
};

TEST_F(ShardedIndexTest, OneShardMoreMovesOnlyTheKeysThatGoThere) {
  std::vector<std::string> more = names_;
  more.push_back("shard5");
  std::map<size_t, int> count;
  for (int i = 0; i < 3000; ++i) {
    const Digest key = DigestOf(std::to_string(i));
    const size_t before = RendezvousOrder(names_, key, 1).front();
    const size_t after = RendezvousOrder(more, key, 1).front();
    EXPECT_TRUE(after == before || after == 5);
    ++count[after];
  }
  for (const auto& [shard, keys] : count) EXPECT_NEAR(keys, 500, 100) << shard;
}

TEST_F(ShardedIndexTest, TheKeysOfALostShardLiveInTheNext) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).away = true;
  EXPECT_FALSE(Get(key).exists());
  ASSERT_NE(Set(key, 0, "one"), 0u);
  EXPECT_EQ(Get(key).value, Text("one"));
  const auto lease = RunTask(index_->Acquire(key.digest, "me", kLong, Until::Done()));
  ASSERT_TRUE(lease && lease->is_ours);
  const auto other = RunTask(index_->Acquire(key.digest, "you", kLong, Until::Done()));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->is_ours);
  EXPECT_EQ(other->fence, lease->fence);
  EXPECT_TRUE(*RunTask(index_->Renew(key.digest, lease->fence, "on", kLong, Until::Done())));
  EXPECT_TRUE(RunTask(index_->Release(key.digest, lease->fence, Until::Done())));
  const auto free = RunTask(index_->Watch(key.digest, lease->fence, "on", Until::Done()));
  ASSERT_TRUE(free);
  EXPECT_EQ(free->fence, 0u);
}

TEST_F(ShardedIndexTest, ALostShardIsLeftAloneAndTriedAgain) {
  const RecordKey key = KeyOf("a");
  AwayIndex& lost = Choice(key.digest, 0);
  lost.away = true;
  const uint64_t refused = GlobalMetrics().Get(Counter::cluster_refused);
  for (int i = 0; i < 10; ++i) Get(key);
  EXPECT_EQ(lost.asked, 3);
  // The first call found out; the others asked the next at once.
  EXPECT_EQ(GlobalMetrics().Get(Counter::cluster_refused) - refused, 9u);
  EXPECT_NE(index_->Describe().find("left alone"), std::string::npos);
  lost.away = false;
  clock_.AdvanceSeconds(1);
  Get(key);
  EXPECT_EQ(lost.asked, 4);
  EXPECT_EQ(index_->Describe().find("left alone"), std::string::npos);
}

TEST_F(ShardedIndexTest, AShardThatSaysNothingIsLost) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).is_silent = true;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Get(key).exists());
  EXPECT_EQ(Choice(key.digest, 0).asked, 3);
  EXPECT_GE(Choice(key.digest, 1).asked, 5);
}

TEST_F(ShardedIndexTest, OneAnswerThatDoesNotComeIsEnoughToAskTheNext) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).is_silent = true;
  std::vector<RecordKey> keys = {key};
  const auto records = RunTask(index_->Get(std::move(keys), Until::In(std::chrono::minutes(10))));
  EXPECT_TRUE(records) << records.error().ToText();
  EXPECT_EQ(Choice(key.digest, 0).asked, 1);
}

TEST_F(ShardedIndexTest, ItsBreakerIsOpenOnceAllShardsAreLeftAlone) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).away = true;
  for (int i = 0; i < 4; ++i) Get(key);
  EXPECT_EQ(index_->breaker()->state, CircuitBreaker::State::kClosed);
  EXPECT_EQ(index_->breaker()->opened, 1u);
  for (const auto& shard : shards_) shard->away = true;
  for (int i = 0; i < 100; ++i) Ignore(RunTask(index_->Get({KeyOf(std::to_string(i))}, Until::Done())), "all are away");
  EXPECT_EQ(index_->breaker()->state, CircuitBreaker::State::kOpen);
}

TEST_F(ShardedIndexTest, WhoHasNoTimeSaysNothingOfTheShard) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).is_silent = true;
  for (int i = 0; i < 5; ++i) {
    std::vector<RecordKey> keys = {key};
    const auto records = RunTask(index_->Get(std::move(keys), Until::In(std::chrono::microseconds(1))));
    ASSERT_FALSE(records);
    EXPECT_EQ(records.error().code(), Code::kTimeout);
  }
  EXPECT_EQ(index_->Describe().find("left alone"), std::string::npos);
}

TEST_F(ShardedIndexTest, AConnectionThatWasCutMovesNothing) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).cuts = 2;
  ASSERT_NE(Set(key, 0, "one"), 0u);
  EXPECT_EQ(Choice(key.digest, 1).asked, 0);
}

TEST_F(ShardedIndexTest, AShardThatRefusesIsTriedAsOftenAsItsBreakerCounts) {
  std::vector<IndexShard> shards;
  for (size_t i = 0; i < 5; ++i) shards.push_back({names_[i], shards_[i]});
  ShardedIndex index(std::move(shards), SystemClock());
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).away = true;
  std::vector<RecordKey> keys = {key};
  EXPECT_TRUE(RunTask(index.Get(std::move(keys), Until::Done())));
  EXPECT_EQ(Choice(key.digest, 0).asked, 3);
  EXPECT_EQ(index.breaker()->opened, 1u);
}

TEST_F(ShardedIndexTest, WhatWasWrittenWhileAShardWasAwayIsFoundAndChangedAfterwards) {
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).away = true;
  ASSERT_NE(Set(key, 0, "one"), 0u);
  Choice(key.digest, 0).away = false;
  clock_.AdvanceSeconds(1);
  const Record record = Get(key);
  EXPECT_EQ(record.value, Text("one"));
  const uint64_t version = Set(key, record.version, "two");
  ASSERT_NE(version, 0u);
  EXPECT_EQ(Set(key, record.version, "late"), 0u);
  EXPECT_EQ(Get(key).value, Text("two"));
  EXPECT_TRUE(*RunTask(index_->CompareAndDelete(key, version, Until::Done())));
  EXPECT_FALSE(Get(key).exists());
}

TEST_F(ShardedIndexTest, ARecordThatWentWithItsShardIsWrittenAnew) {
  const RecordKey key = KeyOf("a");
  const uint64_t version = Set(key, 0, "one");
  Choice(key.digest, 0).away = true;
  // As if somebody had been faster: read again, and write.
  EXPECT_EQ(Set(key, version, "two"), 0u);
  EXPECT_FALSE(Get(key).exists());
  EXPECT_NE(Set(key, 0, "two"), 0u);
  EXPECT_EQ(Get(key).value, Text("two"));
}

TEST_F(ShardedIndexTest, AllChoicesAwaySaysSo) {
  for (const auto& shard : shards_) shard->away = true;
  const auto records = RunTask(index_->Get({KeyOf("a")}, Until::Done()));
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code(), Code::kUnavailable);
}

TEST_F(ShardedIndexTest, ReadsManyAtOnceInTheirOrder) {
  std::vector<RecordKey> keys;
  for (int i = 0; i < 40; ++i) {
    keys.push_back(KeyOf(std::to_string(i)));
    if (i % 2 == 0) {
      ASSERT_NE(Set(keys.back(), 0, std::to_string(i)), 0u);
    }
  }
  const auto records = RunTask(index_->Get(keys, Until::Done()));
  ASSERT_TRUE(records);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ((*records)[static_cast<size_t>(i)].value, i % 2 == 0 ? Text(std::to_string(i)) : Buffer()) << i;
  }
}

TEST_F(ShardedIndexTest, AListingWithoutSomeOfItsRowsIsNone) {
  ASSERT_NE(Set(KeyOf("a"), 0, "one"), 0u);
  const auto all = RunTask(index_->List(Table::kGraphs, std::nullopt, "", 10, Until::Done()));
  ASSERT_TRUE(all);
  EXPECT_EQ(all->rows.size(), 1u);
  shards_[3]->away = true;
  const auto some = RunTask(index_->List(Table::kGraphs, std::nullopt, "", 10, Until::Done()));
  ASSERT_FALSE(some);
  EXPECT_EQ(some.error().code(), Code::kUnavailable);
}

// A call that must end within a time: one silent shard leaves enough of it for the next.
TEST_F(ShardedIndexTest, ASilentShardTakesNoMoreThanHalfOfTheTime) {
  ShardLimits limits;
  limits.answer_max = std::chrono::hours(1);
  limits.fair_min = std::chrono::milliseconds(1);
  limits.breaker.apart_ms_min = 0;
  std::vector<IndexShard> shards;
  for (size_t i = 0; i < 5; ++i) shards.push_back({names_[i], shards_[i]});
  ShardedIndex index(std::move(shards), clock_, limits);
  const RecordKey key = KeyOf("a");
  Choice(key.digest, 0).is_silent = true;
  for (int i = 0; i < 5; ++i) {
    std::vector<RecordKey> keys = {key};
    const auto records = RunTask(index.Get(std::move(keys), Until::In(std::chrono::milliseconds(600))));
    ASSERT_TRUE(records) << records.error().ToText();
  }
  EXPECT_EQ(Choice(key.digest, 0).asked, 3);
  EXPECT_NE(index.Describe().find("left alone"), std::string::npos);
}

}  // namespace
}  // namespace ingot::cache
