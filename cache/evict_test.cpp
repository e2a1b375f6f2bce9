// SPDX-License-Identifier: Apache-2.0
#include "cache/evict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/fake_clock.h"
#include "cache/memory_store.h"

namespace ingot::cache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kNow = 1'000'000'000;

EvictLimits NoLimits() { return {0, 0, 0, 0, 86'400, 1000}; }

Candidate Make(uint64_t key, uint64_t bytes, double cost_s, uint64_t hits = 0,
               int64_t idle_s = 1000) {
  return {Table::kArtifacts, {key, 0}, {bytes, kNow - idle_s, kNow - idle_s, hits, cost_s, false}};
}

std::vector<uint64_t> Keys(const std::vector<Victim>& victims) {
  std::vector<uint64_t> keys;
  for (const Victim& victim : victims) keys.push_back(victim.candidate.key.low);
  return keys;
}

std::vector<uint64_t> Choose(const std::vector<Candidate>& all, const EvictLimits& limits) {
  return Keys(ChooseVictims(all, limits, kNow));
}

TEST(ChooseVictims, TakesNothingWithinTheLimits) {
  EvictLimits limits = NoLimits();
  EXPECT_THAT(Choose({Make(1, 100, 1)}, limits), IsEmpty());
  limits.bytes_max = 100;
  limits.entries_max = 1;
  limits.age_s_max = 1000;
  EXPECT_THAT(Choose({Make(1, 100, 1)}, limits), IsEmpty());
  EXPECT_THAT(Choose({}, limits), IsEmpty());
}

TEST(ChooseVictims, TakesTheLeastSecondsSavedPerByteFirst) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 100;
  // Value 0.1, 0.01 and 1 seconds per byte.
  EXPECT_THAT(Choose({Make(1, 100, 10), Make(2, 100, 1), Make(3, 100, 100)}, limits),
              ElementsAre(2, 1));
  // The same cost: the large one goes.
  EXPECT_THAT(Choose({Make(1, 90, 1), Make(2, 20, 1)}, limits), ElementsAre(1));
}

TEST(ChooseVictims, RecentAndFrequentUseKeep) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 150;
  EXPECT_THAT(Choose({Make(1, 100, 1, 50), Make(2, 100, 1, 0)}, limits), ElementsAre(2));
  EXPECT_THAT(Choose({Make(1, 100, 1, 5, 10 * 86'400), Make(2, 100, 1, 1)}, limits),
              ElementsAre(1));
}

TEST(ChooseVictims, NeverTakesPinnedOrFreshOnes) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  limits.age_s_max = 1;
  limits.grace_s = 600;
  Candidate pinned = Make(1, 100, 0);
  pinned.stat.pinned = true;
  EXPECT_THAT(Choose({pinned, Make(2, 100, 0, 0, 599), Make(3, 100, 9, 0, 600)}, limits),
              ElementsAre(3));
}

TEST(ChooseVictims, TakesWhatIsTooOldWhateverItIsWorth) {
  EvictLimits limits = NoLimits();
  limits.age_s_max = 5000;
  const std::vector<Victim> victims =
      ChooseVictims(std::vector{Make(1, 1, 1e9, 1000, 5001), Make(2, 1, 0, 0, 5000)}, limits, kNow);
  EXPECT_THAT(Keys(victims), ElementsAre(1));
  EXPECT_EQ(victims[0].reason, EvictReason::kAge);
}

TEST(ChooseVictims, CountsEntriesAlone) {
  EvictLimits limits = NoLimits();
  limits.entries_max = 1;
  std::vector<Candidate> all = {Make(1, 10, 1), Make(2, 10, 2), Make(3, 10, 0)};
  all[0].table = all[1].table = Table::kEntries;
  const std::vector<Victim> victims = ChooseVictims(all, limits, kNow);
  EXPECT_THAT(Keys(victims), ElementsAre(1));
  EXPECT_EQ(victims[0].reason, EvictReason::kEntries);
}

TEST(ChooseVictims, StopsAtItsBound) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  limits.victims_max = 2;
  EXPECT_EQ(Choose({Make(1, 9, 1), Make(2, 9, 1), Make(3, 9, 1)}, limits).size(), 2u);
}

TEST(ChooseVictims, ToleratesDamagedFacts) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  Candidate odd = Make(1, 10, std::numeric_limits<double>::quiet_NaN());
  odd.stat.used = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Choose({odd, Make(2, 10, 1)}, limits), ElementsAre(1, 2));
}

// Whatever the store holds: limits hold afterwards unless only protected values are left, and
// nothing protected goes.
TEST(ChooseVictims, HoldsTheLimitsForRandomStores) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    EvictLimits limits = NoLimits();
    limits.bytes_max = 1 + below(2000);
    limits.entries_max = below(10);
    limits.age_s_max = below(2) * 5000;
    limits.grace_s = below(2000);
    std::vector<Candidate> all;
    for (int64_t i = 0, n = below(40); i < n; ++i) {
      all.push_back(Make(i, below(300), below(100), below(5), below(10'000)));
      all.back().table = static_cast<Table>(below(kTables));
      all.back().stat.pinned = below(5) == 0;
    }
    uint64_t bytes = 0, entries = 0, protected_bytes = 0, protected_entries = 0;
    for (const Candidate& c : all) {
      const bool is_protected = c.stat.pinned || kNow - c.stat.created < limits.grace_s;
      bytes += c.stat.bytes;
      entries += c.table == Table::kEntries;
      protected_bytes += is_protected ? c.stat.bytes : 0;
      protected_entries += is_protected && c.table == Table::kEntries;
    }
    for (const Victim& victim : ChooseVictims(all, limits, kNow)) {
      const Candidate& c = victim.candidate;
      EXPECT_FALSE(c.stat.pinned);
      EXPECT_GE(kNow - c.stat.created, limits.grace_s);
      bytes -= c.stat.bytes;
      entries -= c.table == Table::kEntries;
    }
    EXPECT_LE(bytes, std::max(limits.bytes_max, protected_bytes));
    if (limits.entries_max != 0) {
      EXPECT_LE(entries, std::max(limits.entries_max, protected_entries));
    }
  }
}

TEST(EvictStep, WorksInBoundedStepsUntilTheLimitsHold) {
  FakeClock clock;
  Metrics metrics;
  MemoryStore store(MemoryStoreOptions{1 << 20, &clock});
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(store.Put(Table::kArtifacts, {i, 0}, Buffer(100), 1.0 + i));
  }
  EvictLimits limits = NoLimits();
  limits.bytes_max = 500;
  limits.victims_max = 3;
  limits.grace_s = 60;
  EXPECT_EQ(EvictStep(store, limits, clock, metrics)->evicted, 0u) << "all are in their grace";
  clock.AdvanceSeconds(60);
  const Result<EvictReport> first = EvictStep(store, limits, clock, metrics);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->evicted, 3u);
  EXPECT_EQ(first->bytes, 700u);
  EXPECT_TRUE(first->more);
  const Result<EvictReport> second = EvictStep(store, limits, clock, metrics);
  EXPECT_EQ(second->evicted, 2u);
  EXPECT_EQ(second->bytes, 500u);
  EXPECT_FALSE(second->more);
  EXPECT_EQ(metrics.Get(Counter::evictions), 5u);
  EXPECT_EQ(metrics.Get(Counter::evicted_bytes), 500u);
  EXPECT_FALSE(store.Get(Table::kArtifacts, {4, 0}));
  EXPECT_TRUE(store.Get(Table::kArtifacts, {5, 0})) << "the costly ones stay";
}

}  // namespace
}  // namespace ingot::cache
