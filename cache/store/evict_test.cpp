// SPDX-License-Identifier: Apache-2.0
#include "cache/store/evict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "base/fake_clock.h"
#include "cache/store/memory_store.h"

namespace ingot::cache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EvictLimits NoLimits() { return {0, 0, 0, 0, 1000, 1'000'000}; }

class Evict : public testing::Test {
 protected:
  void Put(uint64_t key, uint64_t bytes, double cost_s, Table table = Table::kGraphs) {
    ASSERT_TRUE(store_.Put(table, {key, 0}, Buffer(bytes), {.cost_s = cost_s}));
  }
  void Use(uint64_t key, int times, Table table = Table::kGraphs) {
    for (int i = 0; i < times; ++i) store_.Touch(table, {key, 0});
  }
  std::vector<uint64_t> KeysOf(const EvictReport& report) {
    std::vector<uint64_t> keys;
    for (const Victim& victim : report.victims) keys.push_back(victim.row.key.low);
    return keys;
  }
  std::vector<uint64_t> Choose(const EvictLimits& limits) {
    const Result<EvictReport> report = evictor_.Step(limits, /*dry_run=*/true);
    EXPECT_TRUE(report);
    return KeysOf(*report);
  }

  FakeClock clock_;
  Metrics metrics_;
  MemoryStore store_{MemoryStoreOptions{.bytes_max = 1 << 20, .use_half_life_s = 86'400, .clock = &clock_}};
  Evictor evictor_{store_, clock_, metrics_};
};

TEST_F(Evict, TakesNothingWithinTheLimits) {
  EvictLimits limits = NoLimits();
  EXPECT_THAT(Choose(limits), IsEmpty());
  Put(1, 100, 1);
  EXPECT_THAT(Choose(limits), IsEmpty());
  limits.bytes_max = 100;
  limits.entries_max = 1;
  limits.age_s_max = 1000;
  EXPECT_THAT(Choose(limits), IsEmpty());
}

TEST_F(Evict, TakesTheLeastSecondsSavedPerByteFirst) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 100;
  // Worth 0.1, 0.01 and 1 seconds per byte, over two tables.
  Put(1, 100, 10);
  Put(2, 100, 1, Table::kStats);
  Put(3, 100, 100);
  EXPECT_THAT(Choose(limits), ElementsAre(2, 1));
}

TEST_F(Evict, TheLargeOneOfEqualCostGoes) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 100;
  Put(1, 90, 1);
  Put(2, 20, 1);
  EXPECT_THAT(Choose(limits), ElementsAre(1));
}

TEST_F(Evict, RecentAndFrequentUseKeep) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 250;
  Put(1, 100, 1);
  Put(2, 100, 1);
  Put(3, 100, 1);
  Use(1, 50);
  clock_.AdvanceSeconds(10 * 86'400);
  Use(3, 1);
  EXPECT_THAT(Choose(limits), ElementsAre(2));
  limits.bytes_max = 150;
  EXPECT_THAT(Choose(limits), ElementsAre(2, 1)) << "50 uses ten half-lives ago are less than one of now";
}

TEST_F(Evict, NeverTakesPinnedOrFreshOnes) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  limits.age_s_max = 1;
  limits.grace_s = 600;
  Put(1, 100, 0);
  ASSERT_TRUE(store_.Pin(Table::kGraphs, {1, 0}, true));
  Put(3, 100, 9);
  clock_.AdvanceSeconds(600);
  Put(2, 100, 0);
  clock_.AdvanceSeconds(599);
  EXPECT_THAT(Choose(limits), ElementsAre(3));
}

TEST_F(Evict, TakesWhatIsTooOldWhateverItIsWorth) {
  EvictLimits limits = NoLimits();
  limits.age_s_max = 5000;
  Put(1, 1, 1e9);
  Use(1, 1000);
  clock_.AdvanceSeconds(1);
  Put(2, 1, 0);
  clock_.AdvanceSeconds(5000);
  const Result<EvictReport> report = evictor_.Step(limits, true);
  EXPECT_THAT(KeysOf(*report), ElementsAre(1));
  EXPECT_EQ(report->victims[0].reason, EvictReason::kAge);
}

TEST_F(Evict, CountsEntriesAlone) {
  EvictLimits limits = NoLimits();
  limits.entries_max = 1;
  Put(1, 10, 1, Table::kEntries);
  Put(2, 10, 2, Table::kEntries);
  Put(3, 10, 0);
  const Result<EvictReport> report = evictor_.Step(limits, true);
  EXPECT_THAT(KeysOf(*report), ElementsAre(1));
  EXPECT_EQ(report->victims[0].reason, EvictReason::kEntries);
}

// A clock that was once ahead leaves values behind that look as if written in the future.
TEST_F(Evict, ValuesOfTheFutureGoAsOthersDo) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 50;
  limits.grace_s = 600;
  clock_.AdvanceSeconds(10 * 365 * 86'400);
  Put(1, 100, 1);
  clock_.AdvanceSeconds(-10 * 365 * 86'400);
  EXPECT_THAT(Choose(limits), ElementsAre(1));
}

TEST_F(Evict, ToleratesDamagedFacts) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  Put(1, 10, std::numeric_limits<double>::quiet_NaN());
  Put(2, 10, 1);
  Put(3, 10, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Choose(limits).size(), 3u);
}

// Each look is counted, so that a store full of protected values costs a step no more than another.
TEST_F(Evict, LooksAtNoMoreThanItsBound) {
  EvictLimits limits = NoLimits();
  limits.bytes_max = 1;
  limits.grace_s = 600;
  limits.looks_max = 10;
  for (uint64_t i = 0; i < 50; ++i) Put(i, 10, 1);
  const Result<EvictReport> report = evictor_.Step(limits);
  EXPECT_THAT(KeysOf(*report), IsEmpty());
  EXPECT_TRUE(report->more);
}

// Whatever the store holds: limits hold afterwards unless only protected values are left, and
// nothing protected goes.
TEST(EvictRandom, HoldsTheLimits) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    FakeClock clock;
    Metrics metrics;
    MemoryStore store(MemoryStoreOptions{.clock = &clock});
    Evictor evictor(store, clock, metrics);
    EvictLimits limits = NoLimits();
    limits.bytes_max = 1 + below(2000);
    limits.entries_max = below(10);
    limits.age_s_max = below(2) * 5000;
    limits.grace_s = below(2000);
    limits.victims_max = 1 + below(10);
    std::map<std::pair<Table, uint64_t>, Stat> all;
    for (int64_t i = 0, n = below(40); i < n; ++i) {
      const Table tables[] = {Table::kEntries, Table::kGraphs, Table::kStats};
      const Table table = tables[below(3)];
      const Digest key{static_cast<uint64_t>(i), 0};
      ASSERT_TRUE(store.Put(table, key, Buffer(below(300)), {.cost_s = static_cast<double>(below(100))}));
      if (below(5) == 0) {
        ASSERT_TRUE(store.Pin(table, key, true));
      }
      clock.AdvanceSeconds(below(500));
      if (below(2) == 0) store.Touch(table, key);
    }
    uint64_t protected_bytes = 0, protected_entries = 0;
    const int64_t now = clock.now_s();
    const auto is_protected = [&](const Stat& stat) { return stat.pinned || now - stat.created < limits.grace_s; };
    for (const Table table : {Table::kEntries, Table::kGraphs, Table::kStats}) {
      const auto page = store.List(table, "", 1000);
      for (const StoreRow& row : page->rows) {
        if (!is_protected(row.stat)) continue;
        protected_bytes += row.stat.bytes;
        protected_entries += table == Table::kEntries;
      }
    }
    Result<EvictReport> report = evictor.Step(limits);
    ASSERT_TRUE(report);
    for (int steps = 0; report->more; ++steps) {
      ASSERT_LT(steps, 100);
      EXPECT_LE(report->victims.size(), limits.victims_max);
      for (const Victim& victim : report->victims) EXPECT_FALSE(is_protected(victim.row.stat));
      report = evictor.Step(limits);
      ASSERT_TRUE(report);
    }
    uint64_t bytes = 0;
    for (const Totals& totals : store.TotalsOf()) bytes += totals.bytes;
    EXPECT_EQ(report->bytes, bytes);
    EXPECT_LE(bytes, std::max(limits.bytes_max, protected_bytes));
    const uint64_t entries = store.TotalsOf()[static_cast<size_t>(Table::kEntries)].count;
    if (limits.entries_max != 0) {
      EXPECT_LE(entries, std::max(limits.entries_max, protected_entries));
    }
  }
}

TEST_F(Evict, WorksInBoundedStepsUntilTheLimitsHold) {
  for (uint64_t i = 0; i < 10; ++i) Put(i, 100, 1.0 + static_cast<double>(i));
  EvictLimits limits = NoLimits();
  limits.bytes_max = 500;
  limits.victims_max = 3;
  limits.grace_s = 60;
  EXPECT_THAT(KeysOf(*evictor_.Step(limits)), IsEmpty()) << "all are in their grace";
  clock_.AdvanceSeconds(60);
  const Result<EvictReport> first = evictor_.Step(limits);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->victims.size(), 3u);
  EXPECT_EQ(first->bytes, 700u);
  EXPECT_TRUE(first->more);
  const Result<EvictReport> second = evictor_.Step(limits);
  EXPECT_EQ(second->victims.size(), 2u);
  EXPECT_EQ(second->bytes, 500u);
  EXPECT_FALSE(second->more);
  EXPECT_EQ(metrics_.Get(Counter::evictions), 5u);
  EXPECT_EQ(metrics_.Get(Counter::evicted_bytes), 500u);
  EXPECT_FALSE(store_.Get(Table::kGraphs, {4, 0}));
  EXPECT_TRUE(store_.Get(Table::kGraphs, {5, 0})) << "the costly ones stay";
}

}  // namespace
}  // namespace ingot::cache
