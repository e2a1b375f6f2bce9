// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/workload.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"
#include "cache/store/memory_store.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

constexpr Digest kAny{1, 1};

class WorkloadTest : public testing::Test {
 protected:
  void Hits(int count, const std::string& function = "f") {
    for (int i = 0; i < count; ++i) workload_.Hit(kAny, function);
  }
  void Misses(int count, const std::string& cause) {
    for (int i = 0; i < count; ++i) workload_.Miss(kAny, "f", cause, false);
  }
  void NextWindow() { clock_.AdvanceSeconds(static_cast<int64_t>(config_.workload_window_s)); }

  Config config_;
  FakeClock clock_;
  Workload workload_{config_, clock_};
};

TEST_F(WorkloadTest, IsSilentWhileTheRatioHolds) {
  Hits(20);
  NextWindow();
  Hits(20);
  EXPECT_TRUE(workload_.Falling().empty());
}

TEST_F(WorkloadTest, NamesTheFunctionAndTheMostFrequentCause) {
  Hits(20);
  NextWindow();
  Hits(4);
  Misses(2, "rejected: code helper.twice changed");
  Misses(6, "evicted to keep store_bytes_max");
  const auto falling = workload_.Falling();
  ASSERT_EQ(falling.size(), 1u);
  EXPECT_EQ(falling[0].ToText(),
            "f: 4 of 12 lookups hit of late, 20 of 20 before; mostly evicted to keep "
            "store_bytes_max (6)");
}

TEST_F(WorkloadTest, OutlivesItsDaemon) {
  cache::MemoryStore store;
  Hits(20);
  workload_.Save(store);
  NextWindow();
  Workload next(config_, clock_);
  next.Restore(store);
  for (int i = 0; i < 6; ++i) next.Hit(kAny, "f");
  next.Save(store);
  // A third in the same window as the second: their counts belong together.
  Workload last(config_, clock_);
  last.Hit(kAny, "f");
  last.Restore(store);
  for (int i = 0; i < 5; ++i) last.Miss(kAny, "f", "evicted to keep store_bytes_max", true);
  const auto falling = last.Falling();
  ASSERT_EQ(falling.size(), 1u);
  EXPECT_EQ(falling[0].ToText(),
            "f: 7 of 12 lookups hit of late, 20 of 20 before; mostly evicted to keep store_bytes_max (5)");
}

TEST_F(WorkloadTest, WritesOnlyWhatIsNew) {
  cache::MemoryStore store;
  const Digest key = DigestOf(std::string_view("workload"));
  workload_.Save(store);
  EXPECT_FALSE(store.Get(cache::Table::kStats, key));
  Hits(1);
  workload_.Save(store);
  EXPECT_TRUE(store.Get(cache::Table::kStats, key));
  ASSERT_TRUE(store.Delete(cache::Table::kStats, key, {}));
  workload_.Save(store);
  EXPECT_FALSE(store.Get(cache::Table::kStats, key));
}

TEST_F(WorkloadTest, LeavesWindowsOfAnotherLengthAlone) {
  cache::MemoryStore store;
  Hits(20);
  workload_.Save(store);
  config_.workload_window_s *= 2;
  NextWindow();
  Workload next(config_, clock_);
  next.Restore(store);
  for (int i = 0; i < 8; ++i) next.Miss(kAny, "f", "evicted to keep store_bytes_max", true);
  EXPECT_TRUE(next.Falling().empty());
}

TEST_F(WorkloadTest, LeavesWindowsThatAreTooOldAlone) {
  cache::MemoryStore store;
  Hits(20);
  workload_.Save(store);
  for (uint64_t i = 0; i <= config_.workload_windows_max; ++i) NextWindow();
  Workload next(config_, clock_);
  next.Restore(store);
  for (int i = 0; i < 8; ++i) next.Miss(kAny, "f", "evicted to keep store_bytes_max", true);
  EXPECT_TRUE(next.Falling().empty());
}

TEST_F(WorkloadTest, LeavesOutKeysThatWereNeverServed) {
  Hits(20);
  NextWindow();
  Hits(8);
  for (uint64_t i = 0; i < 50; ++i) workload_.Miss({2, i}, "f", "never stored", false);
  EXPECT_TRUE(workload_.Falling().empty());
  for (uint64_t i = 0; i < 50; ++i) workload_.Miss({3, i}, "f", "evicted", true);
  EXPECT_EQ(workload_.Falling().size(), 1u);
}

TEST_F(WorkloadTest, TakesARejectedHitForAMiss) {
  Hits(20);
  NextWindow();
  Hits(10);
  for (int i = 0; i < 9; ++i) workload_.Rejected(kAny, "f", "rejected: env MODE changed");
  const auto falling = workload_.Falling();
  ASSERT_EQ(falling.size(), 1u);
  EXPECT_EQ(falling[0].lookups_now, 10u);
  EXPECT_EQ(falling[0].hits_now, 1u);
  EXPECT_EQ(falling[0].cause, "rejected: env MODE changed");
}

TEST_F(WorkloadTest, DoesNotJudgeByFewLookups) {
  Hits(20);
  NextWindow();
  Misses(7, "evicted");
  EXPECT_TRUE(workload_.Falling().empty());
  Misses(1, "evicted");
  EXPECT_EQ(workload_.Falling().size(), 1u);
}

TEST_F(WorkloadTest, GathersLateWindowsUntilTheySuffice) {
  Hits(20);
  for (int i = 0; i < 4; ++i) {
    NextWindow();
    Misses(2, "evicted");
  }
  const auto falling = workload_.Falling();
  ASSERT_EQ(falling.size(), 1u);
  EXPECT_EQ(falling[0].lookups_now, 8u);
}

TEST_F(WorkloadTest, ForgetsWhatIsLongPast) {
  Hits(20);
  clock_.AdvanceSeconds(static_cast<int64_t>(config_.workload_window_s * config_.workload_windows_max));
  Misses(20, "evicted");
  EXPECT_TRUE(workload_.Falling().empty());
}

TEST_F(WorkloadTest, ForgetsTheFunctionThatWasAskedForLongestAgo) {
  config_.workload_functions_max = 2;
  for (const char* function : {"f", "a", "g"}) Hits(1, function);
  cache::MemoryStore store;
  workload_.Save(store);
  const Result<cache::Value> stored = store.Get(cache::Table::kStats, DigestOf(std::string_view("workload")));
  ASSERT_TRUE(stored);
  const auto* record = proto::ReadMessage<proto::WorkloadRecord>(stored->bytes);
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->functions()->size(), 2u);
  EXPECT_EQ(record->functions()->Get(0)->name()->str(), "a");
  EXPECT_EQ(record->functions()->Get(1)->name()->str(), "g");
}

TEST_F(WorkloadTest, KeepsABoundedNumberOfFunctionsAndCauses) {
  config_.workload_functions_max = 2;
  Hits(20, "a");
  NextWindow();
  Hits(20, "f");
  Hits(20, "g");
  NextWindow();
  for (int i = 0; i < 100; ++i) Misses(1, "cause " + std::to_string(i));
  const auto falling = workload_.Falling();
  ASSERT_EQ(falling.size(), 1u);
  EXPECT_EQ(falling[0].function, "f");
  EXPECT_EQ(falling[0].cause, "other causes");
  EXPECT_EQ(falling[0].cause_count, 84u);
}

}  // namespace
}  // namespace ingot::daemon
