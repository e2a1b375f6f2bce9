// SPDX-License-Identifier: Apache-2.0
// The daemon keeps its store within the limits by itself, and says of a miss that it was evicted.
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

using cache::Table;
using nlohmann::json;

class SweeperTest : public ServerTest {
 protected:
  /// The server reads its limits while it runs: they change between two.
  void RestartWith(const std::function<void(Config&)>& change) {
    StopServer();
    change(config_);
    StartServer();
  }
  uint64_t StoredBytes() {
    uint64_t bytes = 0;
    const auto totals = store_->TotalsOf();
    for (const cache::Totals& table : totals) bytes += table.bytes;
    return bytes;
  }
};

TEST_F(SweeperTest, KeepsTheStoreWithinItsBytesAfterWrites) {
  RestartWith([](Config& config) {
    config.gc_grace_s = 0;
    config.store_bytes_max = 6000;
    config.tombstones_max = 8;
  });
  const auto connection = Connect();
  for (int i = 0; i < 40; ++i) {
    const std::string name = "f" + std::to_string(i);
    ASSERT_TRUE(connection->Compile(MakeCompile(name, "graph " + name + " 4")));
  }
  // Whatever step still waits is taken here; tombstones take room too.
  while (!core_->sweeper.Step()->victims.empty()) {
  }
  EXPECT_LE(StoredBytes(), 6000u);
  EXPECT_GT(Count(Counter::evictions), 0u);
  EXPECT_GT(Count(Counter::evicted_bytes), 0u);
}

TEST_F(SweeperTest, MakesRoomForSomeWritesWhereOnePassedTheLimit) {
  RestartWith([](Config& config) {
    config.gc_grace_s = 0;
    config.store_entries_max = 2048;
  });
  for (uint64_t i = 1; i <= 2048; ++i) {
    ASSERT_TRUE(store_->Put(Table::kEntries, {i, 7}, AsBytes("worth little"), {}));
  }
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  // Stopping runs what was asked for.
  StopServer();
  EXPECT_EQ(store_->TotalsOf()[static_cast<size_t>(Table::kEntries)].count, 2046u);
}

TEST_F(SweeperTest, SaysThatAnEntryWasEvictedAlsoAfterARestart) {
  RestartWith([](Config& config) {
    config.gc_grace_s = 0;
    config.store_entries_max = 1;
  });
  {
    const auto connection = Connect();
    ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
    ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph g 4")));
    ASSERT_TRUE(core_->sweeper.Step());
  }
  RestartWith([](Config&) {});
  const auto connection = Connect();
  const bool f_is_left = connection->Lookup(*MakeKey("f"))->reply.found;
  const std::string gone = f_is_left ? "g" : "f";
  EXPECT_TRUE(connection->Lookup(*MakeKey(f_is_left ? "f" : "g"))->reply.found);
  auto miss = connection->Lookup(*MakeKey(gone));
  ASSERT_FALSE(miss->reply.found);
  EXPECT_TRUE(miss->reply.why.starts_with("evicted ")) << miss->reply.why;
  EXPECT_TRUE(miss->reply.why.ends_with("to keep store_entries_max")) << miss->reply.why;
  const json why = json::parse(*connection->Query("why-miss", json{{"key", gone}}.dump()));
  EXPECT_EQ(why["reason"], "evicted");
  EXPECT_EQ(why["function"], gone);
  EXPECT_EQ(connection->Query("inspect", json{{"key", gone}}.dump()).error().code(), Code::kNotFound);
  // Compiling it again makes it an entry like any other.
  ASSERT_TRUE(connection->Compile(MakeCompile(gone, "graph " + gone + " 4")));
  EXPECT_TRUE(connection->Lookup(*MakeKey(gone))->reply.found);
}

TEST_F(SweeperTest, SaysThatAnArtifactWasEvicted) {
  const auto connection = Connect();
  auto compiled = connection->Compile(MakeCompile("f", "graph f 4"));
  const Digest artifact{compiled->reply.variant->artifact_low, compiled->reply.variant->artifact_high};
  ASSERT_TRUE(store_->Delete(Table::kArtifacts, artifact, {}));
  core_->artifacts.Forget(artifact);
  core_->tombstones.Add({{Table::kArtifacts, artifact, proto::Reason::Bytes, 0, ""}});
  auto miss = connection->Lookup(*MakeKey("f"));
  EXPECT_FALSE(miss->reply.found);
  EXPECT_EQ(miss->reply.why,
            "stored, but its artifacts are gone: evicted 1970-01-01 00:00 UTC to keep store_bytes_max");
  const json why = json::parse(*connection->Query("why-miss", R"({"key":"f"})"));
  EXPECT_EQ(why["reason"], "artifact_gone");
  const json entry = json::parse(*connection->Query("inspect", R"({"key":"f"})"));
  EXPECT_TRUE(entry["variants"][0]["trouble"].get<std::string>().starts_with("evicted "));
}

TEST_F(SweeperTest, SparesPinnedEntriesAndTheirArtifacts) {
  {
    const auto connection = Connect();
    ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
    ASSERT_TRUE(connection->Query("pin", R"({"key":"f"})"));
  }
  RestartWith([](Config& config) {
    config.gc_grace_s = 0;
    config.store_bytes_max = 1;
    config.gc_interval_s = 0;
  });
  while (core_->sweeper.Step()->more) {
  }
  const auto connection = Connect();
  EXPECT_TRUE(connection->Lookup(*MakeKey("f"))->reply.found);
}

TEST(Tombstones, KeepsTheNewestWithinItsBound) {
  cache::MemoryStore store;
  Tombstones stones(store, 3);
  for (uint64_t i = 1; i <= 5; ++i) {
    stones.Add({{Table::kEntries, {i, 0}, proto::Reason::Age, 0, "f" + std::to_string(i)}});
  }
  EXPECT_FALSE(stones.Find(Table::kEntries, {2, 0}));
  EXPECT_TRUE(stones.Find(Table::kEntries, {3, 0}));
  EXPECT_FALSE(stones.Find(Table::kArtifacts, {3, 0}));
  EXPECT_EQ(stones.FindEntry("f5")->key, (Digest{5, 0}));
  Tombstones read(store, 3);
  EXPECT_TRUE(read.Find(Table::kEntries, {5, 0}));
  EXPECT_FALSE(read.FindEntry("f1"));
}

TEST(Tombstones, SayWhenInAnyCalendar) {
  Tombstone stone{Table::kEntries, {1, 0}, proto::Reason::Hand, 0, "f"};
  EXPECT_EQ(stone.ToText(), "evicted 1970-01-01 00:00 UTC by `ingot evict`");
  stone.when = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(stone.ToText(), "evicted at an unknown time by `ingot evict`");
}

}  // namespace
}  // namespace ingot::daemon
