// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/tombstones.h"

#include <gtest/gtest.h>

#include <future>

#include "cache/store/memory_store.h"
#include "daemon/late_store.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using cache::Table;

Tombstone StoneOf(uint64_t number) { return {Table::kEntries, {number, 1}, proto::Reason::Entries, 100, "f"}; }

TEST(Tombstones, AreFoundWhileTheDiskIsWritten) {
  // A store whose writes wait for the test.
  LateStore store(/*fresh=*/true);
  std::promise<void> go;
  store.Open([opened = go.get_future().share()] {
    opened.wait();
    return std::make_unique<cache::MemoryStore>();
  });
  Tombstones stones(store, 8);
  auto added = std::async(std::launch::async, [&] { stones.Add({StoneOf(1)}); });
  EXPECT_TRUE(support::Eventually([&] { return stones.Find(Table::kEntries, {1, 1}).has_value(); }));
  go.set_value();
  added.get();
  store.Join();
}

TEST(Tombstones, OutliveTheirDaemonTheNewestFirst) {
  cache::MemoryStore store;
  {
    Tombstones stones(store, 2);
    for (uint64_t number = 1; number <= 3; ++number) stones.Add({StoneOf(number)});
  }
  Tombstones stones(store, 2);
  EXPECT_FALSE(stones.Find(Table::kEntries, {1, 1}));
  EXPECT_TRUE(stones.Find(Table::kEntries, {2, 1}));
  const auto newest = stones.FindEntry("f");
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->key, (Digest{3, 1}));
}

}  // namespace
}  // namespace ingot::daemon
