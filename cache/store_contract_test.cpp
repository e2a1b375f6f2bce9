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
#include "cache/memory_store.h"
#include "cache/open_store.h"
#include "cache/rocks_store.h"
#include "cache/store.h"
#include "cache/tiered_store.h"
#include "cache/verify_store.h"

namespace ingot::cache {
namespace {

using testing::ElementsAre;

constexpr uint64_t kChunk = 4096;

struct World {
  TempDir dir;
  FakeClock clock;
  Metrics metrics;

  std::unique_ptr<Store> Memory() {
    return std::make_unique<MemoryStore>(MemoryStoreOptions{16u << 20, &clock});
  }
  std::unique_ptr<Store> Rocks() {
    RocksStoreOptions options;
    options.chunk_bytes = kChunk;
    options.batch_bytes = 3 * kChunk;
    options.disk_free_bytes_min = 0;
    options.touches_max = 4;
    options.clock = &clock;
    options.metrics = &metrics;
    Result<std::unique_ptr<Store>> store = OpenRocksStore(dir / "db", options);
    if (!store) ADD_FAILURE() << store.error().ToText();
    return std::move(store).value();
  }
  std::unique_ptr<Store> Tiered() {
    return std::make_unique<TieredStore>(Rocks(), TierOptions{64 << 10, 32 << 10, &metrics});
  }
  std::unique_ptr<Store> Verify() { return std::make_unique<VerifyStore>(Rocks(), metrics); }
  std::unique_ptr<Store> Whole() {
    StoreOptions options;
    options.chunk_bytes = kChunk;
    options.disk_free_bytes_min = 0;
    options.clock = &clock;
    options.metrics = &metrics;
    Result<std::unique_ptr<Store>> store = OpenStore(dir / "whole", options);
    if (!store) ADD_FAILURE() << store.error().ToText();
    return std::move(store).value();
  }
};

struct Kind {
  const char* name;
  std::unique_ptr<Store> (World::*make)();
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

class Contract : public testing::TestWithParam<Kind> {
 protected:
  Contract() : store_((world_.*GetParam().make)()) {}

  World world_;
  std::unique_ptr<Store> store_;
  const Digest key_ = DigestOf("a key");
};

TEST_P(Contract, GivesBackWhatWasPut) {
  // Around the sizes where a value becomes chunks and batches.
  for (const size_t size : {size_t{0}, size_t{1}, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk,
                            3 * kChunk, 3 * kChunk + 1, 10 * kChunk + 7}) {
    const Buffer value = MakeValue(size, 1);
    const Digest name = DigestOf(value);
    ASSERT_TRUE(store_->Put(Table::kArtifacts, name, value, 1.0)) << size;
    for (int read = 0; read < 2; ++read) {
      const Result<Buffer> got = store_->Get(Table::kArtifacts, name);
      ASSERT_TRUE(got) << size << ": " << got.error().ToText();
      EXPECT_EQ(*got, value) << size;
    }
  }
}

TEST_P(Contract, MissIsNotFoundAndNamesTheKey) {
  const Result<Buffer> got = store_->Get(Table::kGraphs, key_);
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
    ASSERT_TRUE(store_->Put(static_cast<Table>(t), key_, MakeValue(2 * kChunk, t), 0));
  }
  ASSERT_TRUE(store_->Delete(Table::kEntries, key_));
  for (size_t t = 1; t < kTables; ++t) {
    if (static_cast<Table>(t) == Table::kArtifacts) continue;
    EXPECT_EQ(*store_->Get(static_cast<Table>(t), key_), MakeValue(2 * kChunk, t)) << t;
  }
}

TEST_P(Contract, PutReplacesLargeBySmallAndBack) {
  for (const size_t size : {9 * kChunk, size_t{10}, 5 * kChunk, 6 * kChunk, size_t{0}}) {
    ASSERT_TRUE(store_->Put(Table::kEntries, key_, MakeValue(size, size), 0));
    EXPECT_EQ(*store_->Get(Table::kEntries, key_), MakeValue(size, size));
    EXPECT_EQ(store_->StatOf(Table::kEntries, key_)->bytes, size);
  }
}

TEST_P(Contract, PutIfAbsentWritesOnce) {
  EXPECT_TRUE(*store_->PutIfAbsent(Table::kEntries, key_, AsBytes("first"), 0));
  EXPECT_FALSE(*store_->PutIfAbsent(Table::kEntries, key_, AsBytes("second"), 0));
  EXPECT_EQ(AsText(*store_->Get(Table::kEntries, key_)), "first");
  ASSERT_TRUE(store_->Delete(Table::kEntries, key_));
  EXPECT_TRUE(*store_->PutIfAbsent(Table::kEntries, key_, AsBytes("third"), 0));
  EXPECT_EQ(AsText(*store_->Get(Table::kEntries, key_)), "third");
}

TEST_P(Contract, DeleteRemovesAlsoWhatWasJustRead) {
  ASSERT_TRUE(store_->Put(Table::kEntries, key_, MakeValue(3 * kChunk, 1), 0));
  ASSERT_TRUE(store_->Get(Table::kEntries, key_));
  ASSERT_TRUE(store_->Delete(Table::kEntries, key_));
  EXPECT_EQ(store_->Get(Table::kEntries, key_).error().code(), Code::kNotFound);
}

TEST_P(Contract, StatTellsSizeTimesUsesAndCost) {
  const int64_t start = world_.clock.now_s();
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, MakeValue(100, 1), 2.5));
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
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, AsBytes("1"), 0));
  ASSERT_TRUE(store_->Pin(Table::kGraphs, key_, true));
  ASSERT_TRUE(store_->Put(Table::kGraphs, key_, AsBytes("2"), 0));
  EXPECT_TRUE(store_->StatOf(Table::kGraphs, key_)->pinned);
  ASSERT_TRUE(store_->Pin(Table::kGraphs, key_, false));
  EXPECT_FALSE(store_->StatOf(Table::kGraphs, key_)->pinned);
}

TEST_P(Contract, ForEachVisitsItsTableInKeyOrderUntilToldToStop) {
  for (uint64_t high : {3, 1, 2}) {
    ASSERT_TRUE(store_->Put(Table::kEntries, {0, high}, MakeValue(high, 1), 0));
  }
  ASSERT_TRUE(store_->Put(Table::kGraphs, {0, 9}, AsBytes("x"), 0));
  std::vector<uint64_t> seen;
  ASSERT_TRUE(store_->ForEach(Table::kEntries, [&](const Digest& key, const Stat& stat) {
    EXPECT_EQ(stat.bytes, key.high);
    seen.push_back(key.high);
    return true;
  }));
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  seen.clear();
  ASSERT_TRUE(store_->ForEach(Table::kEntries, [&](const Digest& key, const Stat&) {
    seen.push_back(key.high);
    return seen.size() < 2;
  }));
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST_P(Contract, ForEachMayDeleteWhatItVisits) {
  for (uint64_t high = 0; high < 5; ++high) {
    ASSERT_TRUE(store_->Put(Table::kEntries, {0, high}, AsBytes("x"), 0));
  }
  ASSERT_TRUE(store_->ForEach(Table::kEntries, [&](const Digest& key, const Stat&) {
    EXPECT_TRUE(store_->Delete(Table::kEntries, key));
    return true;
  }));
  size_t left = 0;
  ASSERT_TRUE(store_->ForEach(Table::kEntries, [&](const Digest&, const Stat&) {
    ++left;
    return true;
  }));
  EXPECT_EQ(left, 0u);
}

TEST_P(Contract, CompactKeepsEverythingAndDescribeIsOneLine) {
  const Buffer value = MakeValue(5 * kChunk, 3);
  ASSERT_TRUE(store_->Put(Table::kKernels, key_, value, 0));
  store_->Touch(Table::kKernels, key_);
  ASSERT_TRUE(store_->Compact());
  EXPECT_EQ(*store_->Get(Table::kKernels, key_), value);
  EXPECT_EQ(store_->StatOf(Table::kKernels, key_)->hits, 1u);
  EXPECT_FALSE(store_->Describe().empty());
  EXPECT_EQ(store_->Describe().find('\n'), std::string::npos);
}

// Any interleaving may be seen, but only whole values of one write.
TEST_P(Contract, ReadersSeeWholeValuesWhileWritersReplaceThem) {
  constexpr int kWriters = 2;
  constexpr int kRounds = 60;
  const auto value_of = [](uint32_t seed) {
    return MakeValue(1 + (seed % 5) * kChunk + seed % 7, seed);
  };
  std::map<Digest, uint32_t> known;
  for (uint32_t seed = 0; seed < kWriters * kRounds; ++seed) known[DigestOf(value_of(seed))] = seed;
  ASSERT_TRUE(store_->Put(Table::kEntries, key_, value_of(0), 0));

  std::atomic<int> writing{kWriters};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kRounds; ++i) {
        if (!store_->Put(Table::kEntries, key_, value_of(w * kRounds + i), 0)) ++bad;
        store_->Touch(Table::kEntries, key_);
      }
      --writing;
    });
  }
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      do {
        const Result<Buffer> got = store_->Get(Table::kEntries, key_);
        if (!got || !known.contains(DigestOf(*got))) ++bad;
        Ignore(store_->StatOf(Table::kEntries, key_), "run beside the writers");
      } while (writing > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  // After the last write memory and disk agree.
  const Result<Buffer> last = store_->Get(Table::kEntries, key_);
  ASSERT_TRUE(last);
  const uint32_t seed = known[DigestOf(*last)];
  EXPECT_TRUE(seed == kRounds - 1 || seed == 2 * kRounds - 1) << seed;
  EXPECT_EQ(store_->StatOf(Table::kEntries, key_)->bytes, last->size());
  EXPECT_EQ(world_.metrics.Get(Counter::store_corrupt), 0u);
}

TEST_P(Contract, OneOfManyPutIfAbsentWins) {
  for (uint64_t round = 0; round < 20; ++round) {
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const Result<bool> put =
            store_->PutIfAbsent(Table::kGraphs, {round, 0}, MakeValue(2 * kChunk, t), 0);
        if (put && *put) ++won;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(won, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stores, Contract,
    testing::Values(Kind{"Memory", &World::Memory}, Kind{"Rocks", &World::Rocks},
                    Kind{"Tiered", &World::Tiered}, Kind{"Verify", &World::Verify},
                    Kind{"Whole", &World::Whole}),
    [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace ingot::cache
