// SPDX-License-Identifier: Apache-2.0
// Rows beside the values are damaged, each kind in turn: the audit says so, and gc makes them again from the values.
#include "cache/store/rows_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "cache/store/rocks_store.h"
#include "cache/store/row.h"
#include "tests/support/cache/test_publish.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using Kind = RowChange::Kind;

constexpr Table kTable = Table::kEntries;
const Digest kSmall{1, 2};
const Digest kLarge{3, 4};
const Digest kPinned{5, 6};

class RowsAudit : public testing::Test {
 protected:
  RowsAudit() {
    options_ = PublishOptions();
    options_.clock = &clock_;
    options_.metrics = &metrics_;
    std::filesystem::create_directory(path_);
    Open();
    EXPECT_TRUE(store_->Put(kTable, kSmall, TestValue(100, 1), {.cost_s = 3, .group = "g", .summary = Buffer(16)}));
    EXPECT_TRUE(store_->Put(kTable, kLarge, TestValue(20'000, 2), {.cost_s = 5, .group = "h"}));
    EXPECT_TRUE(store_->Put(kTable, kPinned, TestValue(10, 3), {.cost_s = 1}));
    EXPECT_TRUE(store_->Pin(kTable, kPinned, true));
    store_.reset();
  }

  void Open() {
    store_.reset();
    Result<std::unique_ptr<Store>> store = OpenRocksStore(path_, options_);
    ASSERT_TRUE(store) << store.error().ToText();
    store_ = std::move(store).value();
  }
  std::unique_ptr<RocksDb> Raw() {
    store_.reset();
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_, options_.db);
    EXPECT_TRUE(db) << db.error().ToText();
    return std::move(db).value();
  }
  RowsReport Report() {
    const Result<RowsReport> report = AuditRows(*Raw(), {});
    EXPECT_TRUE(report) << report.error().ToText();
    return *report;
  }
  std::vector<std::pair<std::string, Buffer>> Rows(Family family) {
    std::vector<std::pair<std::string, Buffer>> rows;
    EXPECT_TRUE(Raw()->Scan(family, "", [&](Bytes key, Bytes value) {
      rows.emplace_back(AsText(key), Buffer(value.begin(), value.end()));
      return true;
    }));
    return rows;
  }
  void Change(const std::vector<RowChange>& changes) { ASSERT_TRUE(Raw()->Apply(changes, /*sync=*/true)); }

  /// The audit finds `text`, gc mends it, and all values are what they were.
  void ExpectMended(const std::string& text) {
    RowsReport report = Report();
    EXPECT_THAT(report.texts, testing::Contains(HasSubstr(text)));
    Open();
    EXPECT_EQ(store_->Get(kTable, kSmall)->bytes, TestValue(100, 1));
    ASSERT_TRUE(store_->StatOf(kTable, kSmall));
    ASSERT_TRUE(store_->Compact({}));
    const auto totals = store_->TotalsOf()[static_cast<size_t>(kTable)];
    EXPECT_EQ(totals.count, 3u);
    EXPECT_EQ(totals.bytes, 20'110u);
    report = Report();
    EXPECT_EQ(report.faults, 0u) << testing::PrintToString(report.texts);
    Open();
    EXPECT_EQ(store_->Get(kTable, kSmall)->bytes, TestValue(100, 1));
    EXPECT_EQ(store_->Get(kTable, kLarge)->bytes, TestValue(20'000, 2));
    EXPECT_EQ(store_->Get(kTable, kPinned)->bytes, TestValue(10, 3));
    EXPECT_EQ(store_->Cheapest(kTable, "", 9)->rows.size(), 2u);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "db";
  FakeClock clock_;
  Metrics metrics_;
  RocksStoreOptions options_;
  std::unique_ptr<Store> store_;
};

TEST_F(RowsAudit, FindsNothingInAStoreThatIsWhole) {
  const RowsReport report = Report();
  EXPECT_EQ(report.faults, 0u) << testing::PrintToString(report.texts);
  EXPECT_EQ(report.totals[static_cast<size_t>(kTable)].count, 3u);
  EXPECT_EQ(report.totals[static_cast<size_t>(kTable)].bytes, 20'110u);
}

TEST_F(RowsAudit, MakesMissingFactsAgain) {
  Change({{Kind::kErase, Family::kFacts, FactsKey(kTable, kSmall), {}}});
  ExpectMended("facts are missing");
}

TEST_F(RowsAudit, MakesDamagedFactsAgain) {
  auto [key, facts] = Rows(Family::kFacts)[0];
  facts[20] ^= 1;
  Change({{Kind::kPut, Family::kFacts, FactsKey(kTable, kSmall), facts}});
  ExpectMended("facts are missing or not those of its record");
}

TEST_F(RowsAudit, DropsFactsOfNoValue) {
  const auto [key, facts] = Rows(Family::kFacts)[0];
  Change({{Kind::kPut, Family::kFacts, FactsKey(kTable, {9, 9}), facts}});
  ExpectMended("facts of no value");
}

TEST_F(RowsAudit, MakesTheOrderAgain) {
  Change({{Kind::kErasePrefix, Family::kOrder, std::string(1, '\0'), {}},
          {Kind::kPut, Family::kOrder, OrderKey(kTable, -5, kLarge), {}},
          {Kind::kPut, Family::kOrder, OrderKey(kTable, 1, kPinned), {}},
          {Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({1, 0})}});
  const RowsReport report = Report();
  EXPECT_THAT(report.texts, testing::Contains(HasSubstr("no row in the order")));
  ExpectMended("a row in the order that is not its own");
}

TEST_F(RowsAudit, MakesGroupsAgain) {
  const std::string key = GroupKey(kTable, DigestOf("g"), clock_.now_s(), kSmall);
  Change({{Kind::kErase, Family::kGroups, key, {}},
          {Kind::kPut, Family::kGroups, GroupKey(kTable, DigestOf("g"), 1, kLarge), {}},
          {Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({0, 5})}});
  const RowsReport report = Report();
  EXPECT_THAT(report.texts, testing::Contains(HasSubstr("listed in a group that it is not in")));
  ExpectMended("not listed in its group");
  const auto page = store_->ListGroup(kTable, "g", "", 9);
  ASSERT_EQ(page->rows.size(), 1u);
  EXPECT_EQ(page->rows[0].key, kSmall);
}

TEST_F(RowsAudit, AGroupWithoutANameIsNone) {
  Change({{Kind::kErase, Family::kGroupNames, GroupPrefix(kTable, DigestOf("g")), {}},
          {Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({0, 5})}});
  ExpectMended("its group has no name");
  EXPECT_EQ(*store_->GroupOf(kTable, kSmall), "");
}

TEST_F(RowsAudit, DropsChunksOfNoValue) {
  const Buffer chunk = TestValue(4096, 9);
  Change({{Kind::kPut, Family::kChunks, ChunkKey(kTable, {9, 9}, 7, 0), chunk},
          {Kind::kPut, Family::kChunks, ChunkKey(kTable, {9, 9}, 7, 1), chunk},
          {Kind::kPut, Family::kChunks, ChunkKey(kTable, kLarge, 7, 0), chunk},
          {Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({0, 5})}});
  EXPECT_EQ(Rows(Family::kChunks).size(), 5u + 3u);
  ExpectMended("chunks of no value");
  EXPECT_EQ(Rows(Family::kChunks).size(), 5u);
}

TEST_F(RowsAudit, CountsTotalsAgain) {
  Change({{Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({40, 77})}});
  ExpectMended("the totals say 43 of 20187");
}

TEST_F(RowsAudit, CountsTotalsAgainThatCannotBeRead) {
  Change({{Kind::kPut, Family::kTotals, std::string(1, '\0'), AsBytes("damaged")}});
  ExpectMended("the totals say 0 of 0");
}

TEST_F(RowsAudit, DropsRowsWhoseKeysAreNone) {
  Change({{Kind::kPut, Family::kOrder, "short", {}},
          {Kind::kPut, Family::kFacts, "x", {}},
          {Kind::kPut, Family::kEntries, "y", {}},
          {Kind::kPut, Family::kChunks, "z", {}},
          {Kind::kAdd, Family::kTotals, std::string(1, '\0'), EncodeTotalsRow({0, 5})}});
  ExpectMended("a row of family");
}

// A value whose facts are gone is written on, without waiting for gc.
TEST_F(RowsAudit, DamagedFactsDoNotStopWrites) {
  auto [key, facts] = Rows(Family::kFacts)[0];
  facts[40] ^= 8;
  Change({{Kind::kPut, Family::kFacts, FactsKey(kTable, kSmall), facts},
          {Kind::kErase, Family::kFacts, FactsKey(kTable, kLarge), {}}});
  Open();
  for (const Digest& name : {kSmall, kLarge}) {
    const Result<Value> read = store_->Get(kTable, name);
    ASSERT_TRUE(read);
    const auto wrong = store_->Put(kTable, name, AsBytes("next"), {.expected = read->version + 1});
    ASSERT_TRUE(wrong) << wrong.error().ToText();
    EXPECT_EQ(*wrong, 0u);
    const auto next = store_->Put(kTable, name, AsBytes("next"), {.expected = read->version});
    ASSERT_TRUE(next) << next.error().ToText();
    EXPECT_NE(*next, 0u);
    EXPECT_EQ(AsText(store_->Get(kTable, name)->bytes), "next");
  }
  EXPECT_THAT(store_->Describe(), HasSubstr("`ingot gc` sets them right"));
  ASSERT_TRUE(store_->Compact({}));
  EXPECT_THAT(store_->Describe(), testing::Not(HasSubstr("gc")));
  EXPECT_EQ(Report().faults, 0u);
}

TEST_F(RowsAudit, StopsWhenItIsTold) {
  std::stop_source stop;
  stop.request_stop();
  RowsAuditOptions options;
  options.stop = stop.get_token();
  const Result<RowsReport> report = AuditRows(*Raw(), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ingot::cache
