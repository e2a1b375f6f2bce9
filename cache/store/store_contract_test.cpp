// SPDX-License-Identifier: Apache-2.0
// What every store must do, whatever it is made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "cache/store/memory_store.h"
#include "cache/store/open_store.h"
#include "cache/store/rocks_store.h"
#include "cache/store/store.h"

namespace ingot::cache {
namespace {

using testing::ElementsAre;

constexpr uint64_t kContractChunk = 4096;

struct Directory {
  TempDir dir;
  FakeClock clock;
  Metrics metrics;

  std::unique_ptr<Store> Memory() {
    return std::make_unique<MemoryStore>(MemoryStoreOptions{.bytes_max = 16u << 20, .clock = &clock});
  }
  std::unique_ptr<Store> Rocks() {
    RocksStoreOptions options;
    options.chunk_bytes = kContractChunk;
    options.batch_bytes = 3 * kContractChunk;
    options.disk_free_bytes_min = 0;
    options.touches_max = 4;
    options.clock = &clock;
    options.metrics = &metrics;
    Result<std::unique_ptr<Store>> store = OpenRocksStore(dir / "db", options);
    if (!store) ADD_FAILURE() << store.error().ToText();
    return std::move(store).value();
  }
  std::unique_ptr<Store> Whole() {
    StoreOptions options;
    options.chunk_bytes = kContractChunk;
    options.disk_free_bytes_min = 0;
    options.clock = &clock;
    options.metrics = &metrics;
    Result<std::unique_ptr<Store>> store = OpenStore(dir / "whole", options);
    if (!store) ADD_FAILURE() << store.error().ToText();
    return std::move(store).value();
  }
};

struct StoreKind {
  const char* name;
  std::unique_ptr<Store> (Directory::*make)();
};

Buffer MakeValue(size_t size, uint32_t seed) {
  Buffer value(size);
  uint32_t x = seed * 2654435761u + 1;
  for (uint8_t& byte : value) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    byte = static_cast<uint8_t>(x);
  }
  return value;
}

class Contract : public testing::TestWithParam<StoreKind> {
 protected:
  Contract() : store_((world_.*GetParam().make)()) {}

  Directory world_;
  std::unique_ptr<Store> store_;
  const Digest key_ = DigestOf("a key");
};

TEST_P(Contract, GivesBackWhatWasPut) {
  // Around the sizes where a value becomes chunks and batches.
  for (const size_t size : {size_t{0}, size_t{1}, kContractChunk - 1, kContractChunk, kContractChunk + 1,
                            2 * kContractChunk, 3 * kContractChunk, 3 * kContractChunk + 1, 10 * kContractChunk + 7}) {
    const Buffer value = MakeValue(size, 1);
    const Digest name = DigestOf(value);
    ASSERT_TRUE(store_->Put(Table::kArtifacts, name, value, {.cost_s = 1.0})) << size;
    for (int read = 0; read < 2; ++read) {
      const Result<Value> got = store_->Get(Table::kArtifacts, name);
      ASSERT_TRUE(got) << size << ": " << got.error().ToText();
      EXPECT_EQ(got->bytes, value) << size;
    }
  }
}

TEST_P(Contract, MissIsNotFoundAndNamesTheKey) {
  const Result<Value> got = store_->Get(Table::kGraphs, key_);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kNotFound);
  EXPECT_EQ(got.error().message(), "no value " + key_.ToHex() + " in graphs");
  EXPECT_EQ(store_->StatOf(Table::kGraphs, key_).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Delete(Table::kGraphs, key_).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Pin(Table::kGraphs, key_, true).error().code(), Code::kNotFound);
  store_->Touch(Table::kGraphs, key_);
  EXPECT_EQ(store_->StatOf(Table::kGraphs, key_).error().code(), Code::kNotFound);
}

TEST_P(Contract, TablesDoNotMix) {
  for (size_t t = 0; t < kTables; ++t) {
    if (static_cast<Table>(t) == Table::kArtifacts) continue;
    ASSERT_TRUE(store_->Put(static_cast<Table>(t), key_, MakeValue(2 * kContractChunk, t), {}));
  }
  ASSERT_TRUE(store_->Delete(Table::kEntries, key_));
  for (size_t t = 1; t < kTables; ++t) {
    if (static_cast<Table>(t) == Table::kArtifacts) continue;
    EXPECT_EQ(store_->Get(static_cast<Table>(t), key_)->bytes, MakeValue(2 * kContractChunk, t)) << t;
  }
}

TEST_P(Contract, PutReplacesLargeBySmallAndBack) {
  for (const size_t size : {9 * kContractChunk, size_t{10}, 5 * kContractChunk, 6 * kContractChunk, size_t{0}}) {
    ASSERT_TRUE(store_->Put(Table::kEntries, key_, MakeValue(size, size), {}));
    EXPECT_EQ(store_->Get(Table::kEntries, key_)->bytes, MakeValue(size, size));
    EXPECT_EQ(store_->StatOf(Table::kEntries, key_)->bytes, size);
  }
}

TEST_P(Contract, PutWritesWhereTheVersionIsAsExpected) {
  const auto put = [&](std::string_view text, uint64_t expected) {
    return store_->Put(Table::kEntries, key_, AsBytes(text), {.expected = expected}).value();
  };
  const uint64_t first = put("first", 0);
  ASSERT_NE(first, 0u);
  EXPECT_EQ(put("second", 0), 0u);
  EXPECT_EQ(AsText(store_->Get(Table::kEntries, key_)->bytes), "first");
  EXPECT_EQ(store_->Get(Table::kEntries, key_)->version, first);
  EXPECT_EQ(store_->StatOf(Table::kEntries, key_)->version, first);
  const uint64_t third = put("third", first);
  ASSERT_NE(third, 0u);
  EXPECT_NE(third, first);
  EXPECT_EQ(put("late", first), 0u);
  EXPECT_FALSE(*store_->Delete(Table::kEntries, key_, first));
  EXPECT_TRUE(*store_->Delete(Table::kEntries, key_, third));
  EXPECT_FALSE(*store_->Delete(Table::kEntries, key_, third));
  EXPECT_EQ(put("of what is gone", third), 0u);
  const uint64_t fourth = put("fourth", 0);
  EXPECT_NE(fourth, first);
  EXPECT_NE(fourth, third);
}

TEST_P(Contract, NoWriterLosesAnothersChange) {
  constexpr int kWriters = 4;
  constexpr int kRounds = 25;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds;) {
        const Result<Value> was = store_->Get(Table::kGraphs, key_);
        const uint64_t version = was ? was->version : 0;
        Buffer value = was ? was->bytes : Buffer();
        value.push_back('x');
        if (store_->Put(Table::kGraphs, key_, value, {.expected = version}).value() != 0) ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->Get(Table::kGraphs, key_)->bytes.size(), size_t{kWriters * kRounds});
}

TEST_P(Contract, DeleteRemovesAlsoWhatWasJustRead) {
  ASSERT_TRUE(store_->Put(Table::kEntries, key_, MakeValue(3 * kContractChunk, 1), {}));
  ASSERT_TRUE(store_->Get(Table::kEntries, key_));
  ASSERT_TRUE(store_->Delete(Table::kEntries, key_));
  EXPECT_EQ(store_->Get(Table::kEntries, key_).error().code(), Code::kNotFound);
}

TEST_P(Contract, StatTellsSizeTimesUsesAndCost) {
  const int64_t start = world_.clock.now_s();
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, MakeValue(100, 1), {.cost_s = 2.5}));
  for (int i = 0; i < 10; ++i) {
    world_.clock.AdvanceSeconds(1);
    store_->Touch(Table::kGraphs, key_);
  }
  const Result<Stat> stat = store_->StatOf(Table::kGraphs, key_);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->bytes, 100u);
  EXPECT_EQ(stat->created, start);
  EXPECT_EQ(stat->used, start + 10);
  EXPECT_EQ(stat->hits, 10u);
  EXPECT_EQ(stat->cost_s, 2.5);
  EXPECT_FALSE(stat->pinned);
}

TEST_P(Contract, PinSurvivesAReplacement) {
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, AsBytes("1"), {}));
  ASSERT_TRUE(store_->Pin(Table::kGraphs, key_, true));
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, AsBytes("2"), {}));
  EXPECT_TRUE(store_->StatOf(Table::kGraphs, key_)->pinned);
  ASSERT_TRUE(store_->Pin(Table::kGraphs, key_, false));
  EXPECT_FALSE(store_->StatOf(Table::kGraphs, key_)->pinned);
}

std::vector<Digest> KeysOf(const Page<StoreRow>& page) {
  std::vector<Digest> keys;
  for (const StoreRow& row : page.rows) keys.push_back(row.key);
  return keys;
}

TEST_P(Contract, ListsATableInKeyOrderByPages) {
  for (uint64_t high : {3, 1, 2, 5, 4}) {
    ASSERT_TRUE(store_->Put(Table::kEntries, {7, high}, MakeValue(high, 1), {}));
  }
  ASSERT_TRUE(store_->Put(Table::kGraphs, {0, 9}, AsBytes("x"), {}));
  std::vector<uint64_t> seen;
  std::string after;
  do {
    const auto page = store_->List(Table::kEntries, after, 2);
    ASSERT_TRUE(page);
    EXPECT_LE(page->rows.size(), 2u);
    for (const StoreRow& row : page->rows) {
      EXPECT_EQ(row.stat.bytes, row.key.high);
      EXPECT_EQ(row.stat.version, store_->StatOf(Table::kEntries, row.key)->version);
      seen.push_back(row.key.high);
    }
    after = page->next;
  } while (!after.empty());
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4, 5));
  const auto from = store_->List(Table::kEntries, *DigestCursor("0000000000000003"), 2);
  EXPECT_THAT(KeysOf(*from), ElementsAre(Digest{7, 3}, Digest{7, 4}));
  EXPECT_EQ(store_->List(Table::kEntries, "odd", 2).error().code(), Code::kInvalid);
  EXPECT_FALSE(DigestCursor("xy"));
  EXPECT_FALSE(DigestCursor(std::string(33, '0')));
}

TEST_P(Contract, ListsAGroupTheNewestFirst) {
  const std::string group = "net.\xff\0f";
  for (uint64_t low = 1; low <= 5; ++low) {
    ASSERT_TRUE(store_->Put(Table::kEntries, {low, 0}, AsBytes("v"),
                            {.group = group, .summary = Buffer(low, static_cast<uint8_t>(low))}));
    world_.clock.AdvanceSeconds(1);
  }
  ASSERT_TRUE(store_->Put(Table::kEntries, {6, 0}, AsBytes("v"), {.group = "other"}));
  ASSERT_TRUE(store_->Put(Table::kGraphs, {7, 0}, AsBytes("v"), {.group = group}));
  // Written again: the newest now; in another group: gone from this one; deleted: gone.
  ASSERT_TRUE(store_->Put(Table::kEntries, {2, 0}, AsBytes("w"), {.group = group, .summary = Buffer(9)}));
  ASSERT_TRUE(store_->Put(Table::kEntries, {4, 0}, AsBytes("w"), {.group = "other"}));
  ASSERT_TRUE(store_->Delete(Table::kEntries, {3, 0}));
  std::vector<std::pair<uint64_t, size_t>> seen;
  std::string after;
  do {
    const auto page = store_->ListGroup(Table::kEntries, group, after, 1);
    ASSERT_TRUE(page);
    for (const GroupRow& row : page->rows) seen.emplace_back(row.key.low, row.summary.size());
    after = page->next;
  } while (!after.empty());
  EXPECT_THAT(seen, ElementsAre(std::pair(2, 9), std::pair(5, 5), std::pair(1, 1)));
  EXPECT_EQ(*store_->GroupOf(Table::kEntries, {5, 0}), group);
  EXPECT_EQ(*store_->GroupOf(Table::kEntries, {4, 0}), "other");
  EXPECT_FALSE(store_->GroupOf(Table::kEntries, {3, 0}));
  std::vector<std::string> groups;
  after.clear();
  do {
    const auto page = store_->ListGroups(Table::kEntries, after, 1);
    ASSERT_TRUE(page);
    groups.insert(groups.end(), page->rows.begin(), page->rows.end());
    after = page->next;
  } while (!after.empty());
  EXPECT_THAT(groups, testing::UnorderedElementsAre(group, "other"));
  EXPECT_TRUE(store_->ListGroup(Table::kEntries, "none", "", 1)->rows.empty());
}

TEST_P(Contract, KeepsTheOrderOfWhatIsWorthLeast) {
  // Worth: seconds saved per byte and use, less by age.
  ASSERT_TRUE(store_->Put(Table::kGraphs, {1, 0}, MakeValue(100, 1), {.cost_s = 8}));
  ASSERT_TRUE(store_->Put(Table::kGraphs, {2, 0}, MakeValue(100, 1), {.cost_s = 1}));
  ASSERT_TRUE(store_->Put(Table::kGraphs, {3, 0}, MakeValue(400, 1), {.cost_s = 1}));
  ASSERT_TRUE(store_->Put(Table::kGraphs, {4, 0}, MakeValue(100, 1), {.cost_s = 2}));
  ASSERT_TRUE(store_->Put(Table::kEntries, {5, 0}, MakeValue(100, 1), {.cost_s = 0}));
  const auto order = [&] {
    std::vector<uint64_t> lows;
    std::string after;
    do {
      const auto page = store_->Cheapest(Table::kGraphs, after, 1);
      EXPECT_TRUE(page);
      for (const StoreRow& row : page->rows) lows.push_back(row.key.low);
      after = page->next;
    } while (!after.empty());
    return lows;
  };
  EXPECT_THAT(order(), ElementsAre(3, 2, 4, 1));
  ASSERT_TRUE(store_->Pin(Table::kGraphs, {2, 0}, true));
  EXPECT_THAT(order(), ElementsAre(3, 4, 1));
  for (int i = 0; i < 15; ++i) store_->Touch(Table::kGraphs, {3, 0});
  ASSERT_TRUE(store_->Compact({}));
  EXPECT_THAT(order(), ElementsAre(4, 3, 1));
  ASSERT_TRUE(store_->Pin(Table::kGraphs, {2, 0}, false));
  ASSERT_TRUE(store_->Delete(Table::kGraphs, {4, 0}));
  EXPECT_THAT(order(), ElementsAre(2, 3, 1));
  // What is used two half-lives later is worth four times as much.
  world_.clock.AdvanceSeconds(2 * store_->half_life_s());
  store_->Touch(Table::kGraphs, {2, 0});
  ASSERT_TRUE(store_->Compact({}));
  EXPECT_THAT(order(), ElementsAre(3, 1, 2));
}

TEST_P(Contract, TotalsFollowEveryChange) {
  const auto totals = [&](Table table) { return store_->TotalsOf()[static_cast<size_t>(table)]; };
  ASSERT_TRUE(store_->Put(Table::kGraphs, {1, 0}, MakeValue(100, 1), {}));
  ASSERT_TRUE(store_->Put(Table::kGraphs, {2, 0}, MakeValue(3 * kContractChunk, 1), {}));
  ASSERT_TRUE(store_->Put(Table::kEntries, {2, 0}, MakeValue(5, 1), {}));
  EXPECT_EQ(totals(Table::kGraphs).count, 2u);
  EXPECT_EQ(totals(Table::kGraphs).bytes, 100 + 3 * kContractChunk);
  ASSERT_TRUE(store_->Put(Table::kGraphs, {2, 0}, MakeValue(7, 1), {}));
  EXPECT_EQ(totals(Table::kGraphs).bytes, 107u);
  ASSERT_TRUE(store_->Delete(Table::kGraphs, {1, 0}));
  EXPECT_EQ(totals(Table::kGraphs).count, 1u);
  EXPECT_EQ(totals(Table::kGraphs).bytes, 7u);
  EXPECT_EQ(totals(Table::kEntries).count, 1u);
}

TEST_P(Contract, CompactKeepsEverythingAndDescribeIsOneLine) {
  const Buffer value = MakeValue(5 * kContractChunk, 3);
  ASSERT_TRUE(store_->Put(Table::kStats, key_, value, {}));
  store_->Touch(Table::kStats, key_);
  ASSERT_TRUE(store_->Compact({}));
  EXPECT_EQ(store_->Get(Table::kStats, key_)->bytes, value);
  EXPECT_EQ(store_->StatOf(Table::kStats, key_)->hits, 1u);
  EXPECT_FALSE(store_->Describe().empty());
  EXPECT_EQ(store_->Describe().find('\n'), std::string::npos);
}

// Any interleaving may be seen, but only whole values of one write.
TEST_P(Contract, ReadersSeeWholeValuesWhileWritersReplaceThem) {
  constexpr int kWriters = 2;
  constexpr int kRounds = 60;
  const auto value_of = [](uint32_t seed) { return MakeValue(1 + (seed % 5) * kContractChunk + seed % 7, seed); };
  std::map<Digest, uint32_t> known;
  for (uint32_t seed = 0; seed < kWriters * kRounds; ++seed) known[DigestOf(value_of(seed))] = seed;
  ASSERT_TRUE(store_->Put(Table::kEntries, key_, value_of(0), {}));

  std::atomic<int> writing{kWriters};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kRounds; ++i) {
        if (!store_->Put(Table::kEntries, key_, value_of(w * kRounds + i), {})) ++bad;
        store_->Touch(Table::kEntries, key_);
      }
      --writing;
    });
  }
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      do {
        const Result<Value> got = store_->Get(Table::kEntries, key_);
        if (!got || !known.contains(DigestOf(got->bytes))) ++bad;
        Ignore(store_->StatOf(Table::kEntries, key_), "run beside the writers");
      } while (writing > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  // After the last write memory and disk agree.
  const Result<Value> last = store_->Get(Table::kEntries, key_);
  ASSERT_TRUE(last);
  const uint32_t seed = known[DigestOf(last->bytes)];
  EXPECT_TRUE(seed == kRounds - 1 || seed == 2 * kRounds - 1) << seed;
  EXPECT_EQ(store_->StatOf(Table::kEntries, key_)->bytes, last->bytes.size());
  EXPECT_EQ(world_.metrics.Get(Counter::store_corrupt), 0u);
}

TEST_P(Contract, OneOfManyThatExpectNothingWins) {
  for (uint64_t round = 0; round < 20; ++round) {
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const auto put = store_->Put(Table::kGraphs, {round, 0}, MakeValue(2 * kContractChunk, t), {.expected = 0});
        if (put && *put != 0) ++won;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(won, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, Contract,
                         testing::Values(StoreKind{"Memory", &Directory::Memory}, StoreKind{"Rocks", &Directory::Rocks},
                                         StoreKind{"Whole", &Directory::Whole}),
                         [](const testing::TestParamInfo<StoreKind>& info) { return info.param.name; });

}  // namespace
}  // namespace ingot::cache
