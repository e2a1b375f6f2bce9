// SPDX-License-Identifier: Apache-2.0
#include "cache/tiered_store.h"

#include <gtest/gtest.h>

#include "cache/memory_store.h"

namespace ingot::cache {
namespace {

class Tiered : public testing::Test {
 protected:
  Tiered() {
    auto behind = std::make_unique<MemoryStore>();
    behind_ = behind.get();
    tiered_ = std::make_unique<TieredStore>(std::move(behind), TierOptions{100, 60, &metrics_});
  }
  void Fill(uint64_t key, size_t size) {
    ASSERT_TRUE(tiered_->Put(Table::kEntries, {key, 0}, Buffer(size, 'x'), 0));
  }
  /// Whether a read is answered without the store behind.
  bool IsInMemory(uint64_t key) {
    const uint64_t before = metrics_.Get(Counter::memory_hits);
    EXPECT_TRUE(tiered_->Get(Table::kEntries, {key, 0}));
    return metrics_.Get(Counter::memory_hits) > before;
  }

  Metrics metrics_;
  MemoryStore* behind_;
  std::unique_ptr<TieredStore> tiered_;
};

TEST_F(Tiered, SecondReadComesFromMemory) {
  Fill(1, 10);
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_TRUE(IsInMemory(1));
  EXPECT_EQ(tiered_->memory_bytes(), 10u);
}

TEST_F(Tiered, LeastRecentlyUsedGoesFirstAndTheLimitHolds) {
  for (uint64_t key : {1, 2, 3}) Fill(key, 40);
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(2));
  EXPECT_TRUE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(3));
  EXPECT_LE(tiered_->memory_bytes(), 100u);
  EXPECT_TRUE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(2));
}

TEST_F(Tiered, LargeValuesAreNotKept) {
  Fill(1, 61);
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_EQ(tiered_->memory_bytes(), 0u);
}

TEST_F(Tiered, WritesReachTheStoreBehindAndDropMemory) {
  Fill(1, 10);
  EXPECT_FALSE(IsInMemory(1));
  Fill(1, 20);
  EXPECT_EQ(tiered_->memory_bytes(), 0u);
  EXPECT_EQ(behind_->Get(Table::kEntries, {1, 0})->size(), 20u);
  EXPECT_EQ(tiered_->Get(Table::kEntries, {1, 0})->size(), 20u);
}

// Damage or another process may have taken the value behind; what is written then must be seen.
TEST_F(Tiered, PutIfAbsentBehindsBackIsSeen) {
  Fill(1, 10);
  EXPECT_FALSE(IsInMemory(1));
  ASSERT_TRUE(behind_->Delete(Table::kEntries, {1, 0}));
  EXPECT_TRUE(*tiered_->PutIfAbsent(Table::kEntries, {1, 0}, Buffer(30, 'y'), 0));
  EXPECT_EQ(tiered_->Get(Table::kEntries, {1, 0})->size(), 30u);
}

}  // namespace
}  // namespace ingot::cache
