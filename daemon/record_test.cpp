// SPDX-License-Identifier: Apache-2.0
// Records that verify against their checksum and yet make no sense: whatever the store returns,
// the daemon answers and never serves bytes that are not what their digest says.
#include <nlohmann/json.hpp>

#include "daemon/state/convert.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

using cache::Table;

class RecordTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    connection_ = Connect();
    ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
    entry_ = ToKey(*MakeKey("f")).ToDigest();
    const auto record = RunTask(core_->entries.Get(entry_, Until::Done()));
    ASSERT_TRUE(record);
    const proto::StoredVariantT& stored = *(*record)->record.variants.at(0);
    graph_key_ = {stored.graph_key_low, stored.graph_key_high};
  }

  /// Calls `check` with every truncation and every single-bit flip of what the table holds.
  void ForEachDamage(Table table, const Digest& key, const std::function<void(const Buffer&)>& check) {
    const Result<cache::Value> stored = store_->Get(table, key);
    ASSERT_TRUE(stored);
    const Buffer& whole = stored->bytes;
    for (size_t size = 0; size < whole.size(); ++size) {
      check(Buffer(whole.begin(), whole.begin() + static_cast<long>(size)));
    }
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      Buffer flipped = whole;
      flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
      check(flipped);
    }
  }

  std::unique_ptr<client::Connection> connection_;
  Digest entry_;
  Digest graph_key_;
};

TEST_F(RecordTest, KeepsWhatIsServedInMemoryWhenAllAreListed) {
  connection_.reset();
  StopServer();
  config_.entries_cached_max = 1;
  StartServer();
  connection_ = Connect();
  for (int i = 0; i < 8; ++i) {
    const std::string name = "other" + std::to_string(i);
    ASSERT_TRUE(connection_->Compile(MakeCompile(name, "graph " + name + " 4")));
  }
  ASSERT_TRUE(connection_->Lookup(*MakeKey("f"))->reply.found);
  for (const char* verb : {"list", "doctor", "gc", "verify"}) ASSERT_TRUE(connection_->Query(verb)) << verb;
  EXPECT_FALSE(connection_->Lookup(*MakeKey("f", "GELU"))->reply.found);
  EXPECT_NE(core_->entries.Peek(entry_), nullptr);
}

TEST_F(RecordTest, CountsNamedArtifactsWithoutUnpackingAnEntry) {
  size_t variants = 0;
  const auto count = [&](const Digest& digest, const proto::EntryRecord& record) {
    EXPECT_EQ(digest, entry_);
    variants += record.variants()->size();
    return true;
  };
  // As memory holds it, and as the store does.
  ASSERT_TRUE(RunTask(core_->entries.ForEachRecord(count, Until::Done())));
  core_->entries.Forget(entry_);
  ASSERT_TRUE(RunTask(core_->entries.ForEachRecord(count, Until::Done())));
  EXPECT_EQ(variants, 2u);
  // One that is no record names nothing, and goes.
  ASSERT_TRUE(store_->Put(Table::kEntries, entry_, Buffer(64, 0xFF), {}));
  uint64_t unread = 0;
  ASSERT_TRUE(RunTask(core_->entries.ForEachRecord(count, Until::Done(), &unread)));
  EXPECT_EQ(variants, 2u);
  EXPECT_EQ(unread, 0u);
  EXPECT_FALSE(store_->Get(Table::kEntries, entry_));
}

TEST_F(RecordTest, SurvivesEveryDamageOfAnEntry) {
  const auto lookup = MakeKey("f");
  size_t found = 0;
  ForEachDamage(Table::kEntries, entry_, [&](const Buffer& damaged) {
    ASSERT_TRUE(store_->Put(Table::kEntries, entry_, damaged, {}));
    core_->entries.Forget(entry_);
    auto answer = connection_->Lookup(*lookup);
    ASSERT_TRUE(answer) << answer.error().ToText();
    for (const auto& variant : answer->reply.variants) {
      ++found;
      const UniqueFd& file = answer->files.at(static_cast<size_t>(variant->descriptor));
      const std::string bytes = ReadAll(file);
      EXPECT_EQ(DigestOf(bytes), (Digest{variant->artifact_low, variant->artifact_high}));
    }
    ASSERT_TRUE(connection_->Query("list"));
  });
  EXPECT_GT(found, 0u);  // Flips in unused bytes leave a good record.
  auto again = connection_->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(again) << again.error().ToText();
}

TEST_F(RecordTest, RefusesAnEntryOfAnotherKey) {
  const Result<cache::Value> record = store_->Get(Table::kEntries, entry_);
  const Digest other = ToKey(*MakeKey("g")).ToDigest();
  ASSERT_TRUE(store_->Put(Table::kEntries, other, record->bytes, {}));
  auto answer = connection_->Lookup(*MakeKey("g"));
  EXPECT_FALSE(answer->reply.found);
  EXPECT_EQ(answer->reply.why, "corrupt: the entry record is of another key");
}

TEST_F(RecordTest, SurvivesEveryDamageOfAGraphRecordWithAFailure) {
  ASSERT_FALSE(connection_->Compile(MakeCompile("bad", "graph bad 4")));
  const Digest failed = GraphKey(DigestOf("graph bad 4"), *compilers_->Facts()).ToDigest();
  ForEachDamage(Table::kGraphs, failed, [&](const Buffer& damaged) {
    ASSERT_TRUE(store_->Put(Table::kGraphs, failed, damaged, {}));
    auto answer = connection_->Compile(MakeCompile("bad", "graph bad 4"));
    EXPECT_FALSE(answer);
    ASSERT_TRUE(connection_->Query("doctor"));
  });
}

TEST_F(RecordTest, SurvivesEveryDamageOfAGraphRecord) {
  ForEachDamage(Table::kGraphs, graph_key_, [&](const Buffer& damaged) {
    ASSERT_TRUE(store_->Put(Table::kGraphs, graph_key_, damaged, {}));
    Ignore(RunTask(core_->entries.Delete(entry_, Until::Done())), "it may be absent");
    auto answer = connection_->Compile(MakeCompile("f", "graph f 4"));
    if (!answer) return;
    EXPECT_EQ(ReadAll(answer->file), "artifact of graph f 4");
  });
}

TEST_F(RecordTest, SurvivesEveryDamageOfTheTombstones) {
  ASSERT_TRUE(connection_->Query("evict", R"({"key":"f"})"));
  const Digest key = DigestOf(std::string_view("tombstones"));
  ForEachDamage(Table::kStats, key, [&](const Buffer& damaged) {
    cache::MemoryStore store;
    ASSERT_TRUE(store.Put(Table::kStats, key, damaged, {}));
    Tombstones stones(store, 8);
    const auto stone = stones.Find(Table::kEntries, entry_);
    EXPECT_TRUE(!stone || !stone->ToText().empty());
    stones.Add({{Table::kEntries, {1, 2}, proto::Reason::Age, 0, ""}});
    EXPECT_TRUE(stones.Find(Table::kEntries, {1, 2}));
  });
}

TEST_F(RecordTest, SurvivesEveryDamageOfTheWorkload) {
  Workload counted(config_, SystemClock());
  for (int i = 0; i < 9; ++i) counted.Hit(entry_, "f");
  counted.Miss(entry_, "f", "evicted", true);
  counted.Save(*store_);
  const Digest key = DigestOf(std::string_view("workload"));
  ForEachDamage(Table::kStats, key, [&](const Buffer& damaged) {
    cache::MemoryStore store;
    ASSERT_TRUE(store.Put(Table::kStats, key, damaged, {}));
    Workload next(config_, SystemClock());
    next.Restore(store);
    next.Miss(entry_, "f", "evicted", true);
    for (const FallingFunction& fell : next.Falling()) EXPECT_LE(fell.hits_now, fell.lookups_now);
    next.Save(store);
  });
}

}  // namespace
}  // namespace ingot::daemon
