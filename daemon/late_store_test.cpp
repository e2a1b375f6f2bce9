// SPDX-License-Identifier: Apache-2.0
#include "daemon/late_store.h"

#include <gtest/gtest.h>

#include <future>

#include "cache/store/memory_store.h"

namespace ingot::daemon {
namespace {

using cache::MemoryStore;
using cache::Table;

const Digest kKey{1, 2};

/// A store with one value, which opens when the test says so.
struct Gate {
  std::promise<void> go;
  LateStore::Opener Opener() {
    return [opened = go.get_future().share()] {
      opened.wait();
      auto store = std::make_unique<MemoryStore>();
      EXPECT_TRUE(store->Put(Table::kEntries, kKey, AsBytes("value"), {}));
      return store;
    };
  }
};

TEST(LateStore, ReadsWaitUntilItIsOpen) {
  LateStore store(/*fresh=*/false);
  Gate gate;
  store.Open(gate.Opener());
  EXPECT_EQ(store.Describe(), "opening");
  store.Touch(Table::kEntries, kKey);
  auto read = std::async(std::launch::async, [&] { return store.Get(Table::kEntries, kKey); });
  gate.go.set_value();
  const Result<cache::Value> value = read.get();
  ASSERT_TRUE(value) << value.error().ToText();
  EXPECT_EQ(AsText(value->bytes), "value");
}

TEST(LateStore, AFreshOneHasNothingAndTakesWritesOnceItIsOpen) {
  LateStore store(/*fresh=*/true);
  Gate gate;
  store.Open(gate.Opener());
  EXPECT_EQ(store.Describe(), "fresh");
  EXPECT_EQ(store.Get(Table::kEntries, kKey).error().code(), Code::kNotFound);
  EXPECT_EQ(store.StatOf(Table::kEntries, kKey).error().code(), Code::kNotFound);
  EXPECT_TRUE(store.List(Table::kEntries, "", 9)->rows.empty());
  auto written = std::async(std::launch::async, [&] { return store.Put(Table::kGraphs, kKey, AsBytes("g"), {}); });
  gate.go.set_value();
  EXPECT_TRUE(written.get());
  EXPECT_TRUE(store.Get(Table::kGraphs, kKey));
}

TEST(LateStore, AFreshOneThatNobodyWritesToIsNeverOpened) {
  bool opened = false;
  {
    LateStore store(/*fresh=*/true);
    store.Open([&]() -> std::unique_ptr<cache::Store> {
      opened = true;
      return std::make_unique<MemoryStore>();
    });
    EXPECT_FALSE(store.Get(Table::kEntries, kKey));
    store.Touch(Table::kEntries, kKey);
  }
  EXPECT_FALSE(opened);
}

TEST(LateStore, AFreshOneIsOpenedInAHurry) {
  std::promise<void> opened;
  LateStore store(/*fresh=*/true);
  store.Open([&]() -> std::unique_ptr<cache::Store> {
    opened.set_value();
    return std::make_unique<MemoryStore>();
  });
  store.Hurry();
  opened.get_future().wait();
}

}  // namespace
}  // namespace ingot::daemon
