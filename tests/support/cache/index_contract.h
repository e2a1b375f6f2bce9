// SPDX-License-Identifier: Apache-2.0
// What every Index must do, whatever it is made of. A test program includes this once and names its kinds:
//   INSTANTIATE_TEST_SUITE_P(All, IndexContract, testing::Values(IndexKind{"memory", MakeMemory}), NameOfKind);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cache/index/index.h"
#include "tests/support/await.h"
#include "tests/support/linearizability.h"
#include "tests/support/register_history.h"

namespace ingot::cache {

/// One store and its clients.
class IndexWorld {
 public:
  virtual ~IndexWorld() = default;
  /// Clients of one store, as of several machines; a store within a process gives the same for all.
  virtual Index& client(size_t which) = 0;
};

struct IndexKind {
  std::string name;
  std::function<std::unique_ptr<IndexWorld>()> make;
  /// False: of two who write one record at once both may be told that they were first.
  bool is_linearizable = true;
};
inline void PrintTo(const IndexKind& kind, std::ostream* out) { *out << kind.name; }
inline std::string NameOfKind(const ::testing::TestParamInfo<IndexKind>& info) { return info.param.name; }

class IndexContract : public ::testing::TestWithParam<IndexKind> {
 protected:
  static constexpr size_t kClients = 3;
  static constexpr std::chrono::milliseconds kLong{600000};

  Index& index(size_t which = 0) { return world_->client(which % kClients); }
  template <typename T>
  T Must(Task<T> task) {
    Result<T> result = runner_.Await(std::move(task));
    if (!result) {
      ADD_FAILURE() << result.error().ToText();
      // What follows would make no sense.
      std::abort();
    }
    if constexpr (!std::is_void_v<T>) return std::move(result).value();
  }
  template <typename T>
  Code Refused(Task<T> task) {
    Result<T> result = runner_.Await(std::move(task));
    return result ? Code{} : result.error().code();
  }

  static RecordKey KeyOf(std::string_view name, Table table = Table::kEntries) { return {table, DigestOf(name)}; }
  static Buffer Text(std::string_view text) { return Buffer(text.begin(), text.end()); }
  Record Get(const RecordKey& key, size_t which = 0) { return Must(index(which).Get({key}, testing_until())).at(0); }
  uint64_t Set(const RecordKey& key, uint64_t expected, Buffer value, RecordFacts facts = {}, size_t which = 0) {
    return Must(index(which).CompareAndSet(key, expected, std::move(value), std::move(facts), testing_until()));
  }
  bool Delete(const RecordKey& key, uint64_t expected) {
    return Must(index().CompareAndDelete(key, expected, testing_until()));
  }
  /// All pages.
  std::vector<RecordPage::Row> ListAll(Table table, std::optional<std::string> group, size_t limit, size_t which = 0) {
    std::vector<RecordPage::Row> rows;
    std::string after;
    do {
      RecordPage page = Must(index(which).List(table, group, after, limit, testing_until()));
      EXPECT_LE(page.rows.size(), limit);
      rows.insert(rows.end(), page.rows.begin(), page.rows.end());
      after = page.next;
    } while (!after.empty());
    return rows;
  }
  std::vector<std::string> GroupsOf(Table table, size_t limit) {
    std::vector<std::string> groups;
    std::string after;
    do {
      Index::GroupPage page = Must(index().Groups(table, after, limit, testing_until()));
      EXPECT_LE(page.groups.size(), limit);
      groups.insert(groups.end(), page.groups.begin(), page.groups.end());
      after = page.next;
    } while (!after.empty());
    return groups;
  }
  static std::vector<Digest> DigestsOf(const std::vector<RecordPage::Row>& rows) {
    std::vector<Digest> digests;
    for (const auto& row : rows) digests.push_back(row.digest);
    return digests;
  }
  static Until testing_until() { return ingot::support::Patient(); }

  std::unique_ptr<IndexWorld> world_ = GetParam().make();
  ingot::support::Runner runner_{4};
};

TEST_P(IndexContract, AbsentRecordHasVersionZero) {
  const Record record = Get(KeyOf("a"));
  EXPECT_FALSE(record.exists());
  EXPECT_TRUE(record.value.empty());
  EXPECT_EQ(Must(index().Get({}, testing_until())).size(), 0u);
}

TEST_P(IndexContract, SetsWhereTheVersionIsExpected) {
  const RecordKey key = KeyOf("a");
  EXPECT_EQ(Set(key, 7, Text("early")), 0u);
  EXPECT_FALSE(Get(key).exists());
  const uint64_t first = Set(key, 0, Text("one"));
  ASSERT_NE(first, 0u);
  EXPECT_EQ(Set(key, 0, Text("late")), 0u);
  EXPECT_EQ(Get(key, 1).value, Text("one"));
  EXPECT_EQ(Get(key, 1).version, first);
  const uint64_t second = Set(key, first, Text("two"), {}, 1);
  ASSERT_NE(second, 0u);
  EXPECT_NE(second, first);
  EXPECT_EQ(Set(key, first, Text("late")), 0u);
  EXPECT_EQ(Get(key).value, Text("two"));
  EXPECT_EQ(Get(key).version, second);
}

TEST_P(IndexContract, TablesAreApart) {
  const uint64_t version = Set(KeyOf("a", Table::kEntries), 0, Text("entry"));
  EXPECT_FALSE(Get(KeyOf("a", Table::kGraphs)).exists());
  EXPECT_NE(Set(KeyOf("a", Table::kGraphs), 0, Text("graph")), 0u);
  EXPECT_EQ(Get(KeyOf("a", Table::kEntries)).version, version);
  EXPECT_EQ(Get(KeyOf("a", Table::kGraphs)).value, Text("graph"));
}

TEST_P(IndexContract, GetsManyInOrder) {
  std::vector<RecordKey> keys;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(KeyOf(std::to_string(i)));
    if (i % 3 != 0) Set(keys.back(), 0, Text(std::to_string(i)));
  }
  keys.push_back(keys[1]);
  const std::vector<Record> records = Must(index(1).Get(keys, testing_until()));
  ASSERT_EQ(records.size(), keys.size());
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(records[i].exists(), i % 3 != 0) << i;
    EXPECT_EQ(records[i].value, i % 3 ? Text(std::to_string(i)) : Buffer()) << i;
  }
  EXPECT_EQ(records[200].version, records[1].version);
}

TEST_P(IndexContract, DeletesWhereTheVersionIsExpected) {
  const RecordKey key = KeyOf("a");
  EXPECT_FALSE(Delete(key, 0));
  EXPECT_FALSE(Delete(key, 3));
  const uint64_t first = Set(key, 0, Text("one"));
  EXPECT_FALSE(Delete(key, 0));
  EXPECT_FALSE(Delete(key, first + 1));
  EXPECT_TRUE(Delete(key, first));
  EXPECT_FALSE(Delete(key, first));
  EXPECT_FALSE(Get(key).exists());
  EXPECT_TRUE(ListAll(key.table, std::nullopt, 10).empty());
}

TEST_P(IndexContract, VersionsNeverComeAgain) {
  const RecordKey key = KeyOf("a");
  std::set<uint64_t> versions;
  for (int i = 0; i < 30; ++i) {
    uint64_t version = Set(key, 0, Text("same"));
    EXPECT_TRUE(versions.insert(version).second) << version;
    version = Set(key, version, Text("same"));
    EXPECT_TRUE(versions.insert(version).second) << version;
    ASSERT_TRUE(Delete(key, version));
  }
  EXPECT_FALSE(versions.contains(0));
}

TEST_P(IndexContract, KeepsValuesOfAllBytesAndSizes) {
  Buffer all(256);
  std::iota(all.begin(), all.end(), uint8_t{0});
  Buffer large(size_t{1} << 20);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  std::vector<RecordKey> keys;
  std::vector<Buffer> values;
  const std::vector<Digest> digests = {{0, 0}, {~0ull, ~0ull}, {0, ~0ull}, {0x0a0d002a24253a00, 0x7f80ff0000ff0d0a}};
  for (const Digest& digest : digests) {
    for (const Buffer& value : {Buffer(), all, large}) {
      // Artifacts are named by their bytes.
      const Table tables[] = {Table::kEntries, Table::kGraphs, Table::kStats};
      keys.push_back({tables[values.size() % 3], digest});
      values.push_back(value);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_NE(Set(keys[i], 0, values[i]), 0u) << i;
  const std::vector<Record> records = Must(index(1).Get(keys, testing_until()));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(records[i].exists()) << i;
    EXPECT_TRUE(records[i].value == values[i]) << i;
  }
}

TEST_P(IndexContract, RefusesWhatIsOverALimit) {
  const RecordKey key = KeyOf("a");
  EXPECT_EQ(Refused(index().CompareAndSet(key, 0, Buffer(kRecordBytesMax + 1), {}, testing_until())), Code::kInvalid);
  RecordFacts facts;
  facts.group = std::string(kGroupBytesMax + 1, 'g');
  EXPECT_EQ(Refused(index().CompareAndSet(key, 0, Text("x"), facts, testing_until())), Code::kInvalid);
  facts.group = std::string(kGroupBytesMax, 'g');
  facts.summary = Buffer(kSummaryBytesMax + 1);
  EXPECT_EQ(Refused(index().CompareAndSet(key, 0, Text("x"), facts, testing_until())), Code::kInvalid);
  EXPECT_FALSE(Get(key).exists());
  facts.summary = Buffer(kSummaryBytesMax, 0xff);
  EXPECT_NE(Set(key, 0, Buffer(kRecordBytesMax, 7), facts), 0u);
  EXPECT_EQ(Get(key).value.size(), kRecordBytesMax);
  const auto rows = ListAll(key.table, facts.group, 2);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].summary, facts.summary);
}

TEST_P(IndexContract, WritersOfOneRecordLoseNothing) {
  if (!GetParam().is_linearizable) GTEST_SKIP() << "a lost race may be told as won";
  const RecordKey key = KeyOf("counter");
  constexpr int kWriters = 8;
  constexpr int kEach = 20;
  const auto add = [](Index& index, RecordKey key) -> Task<int> {
    int lost = 0;
    for (int done = 0; done < kEach;) {
      CO_TRY_ASSIGN(const std::vector<Record> records, co_await index.Get({1, key}, testing_until()));
      const std::string text(records[0].value.begin(), records[0].value.end());
      const std::string next = std::to_string((text.empty() ? 0 : std::stoi(text)) + 1);
      CO_TRY_ASSIGN(const uint64_t version,
                    co_await index.CompareAndSet(key, records[0].version, Text(next), RecordFacts(), testing_until()));
      version != 0 ? ++done : ++lost;
    }
    co_return lost;
  };
  std::vector<std::future<Result<int>>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(runner_.Go(add(index(i), key)));
  for (auto& writer : writers) {
    const Result<int> lost = writer.get();
    ASSERT_TRUE(lost) << lost.error().ToText();
  }
  EXPECT_EQ(Get(key).value, Text(std::to_string(kWriters * kEach)));
}

TEST_P(IndexContract, ListsATableInTheOrderOfDigests) {
  std::map<std::string, std::pair<Digest, size_t>> written;
  for (size_t i = 0; i < 57; ++i) {
    const RecordKey key = KeyOf("row" + std::to_string(i), Table::kGraphs);
    RecordFacts facts;
    if (i % 2) facts.group = "odd";
    facts.summary = Text(std::to_string(i));
    ASSERT_NE(Set(key, 0, Buffer(i), facts), 0u);
    written[key.digest.ToHex()] = {key.digest, i};
  }
  Set(KeyOf("elsewhere", Table::kStats), 0, Text("x"));
  for (const size_t limit : {size_t{1}, size_t{7}, size_t{57}, size_t{1000}}) {
    const auto rows = ListAll(Table::kGraphs, std::nullopt, limit, 1);
    ASSERT_EQ(rows.size(), written.size()) << limit;
    auto at = written.begin();
    for (const auto& row : rows) {
      EXPECT_EQ(row.digest, at->second.first);
      EXPECT_GT(row.created, 1700000000);
      ++at;
    }
  }
}

TEST_P(IndexContract, ListsAGroupTheNewestFirst) {
  const RecordKey old = KeyOf("old");
  const RecordKey young = KeyOf("young");
  const std::string group("g\0\xff:~", 5);
  RecordFacts facts;
  facts.group = group;
  facts.summary = Text("first");
  ASSERT_NE(Set(old, 0, Text("x"), facts), 0u);
  facts.summary = Text("second");
  // Seconds are what counts, so it is written until the next one has come.
  uint64_t version = 0;
  std::vector<RecordPage::Row> rows;
  do {
    version = Set(young, version, Text("y"), facts);
    ASSERT_NE(version, 0u);
    rows = ListAll(Table::kEntries, group, 10);
    ASSERT_EQ(rows.size(), 2u);
  } while (rows[0].created == rows[1].created);
  EXPECT_THAT(DigestsOf(rows), ::testing::ElementsAre(young.digest, old.digest));
  EXPECT_GT(rows[0].created, rows[1].created);
  EXPECT_EQ(rows[0].summary, Text("second"));
  EXPECT_EQ(ListAll(Table::kEntries, group, 1).size(), 2u);
  EXPECT_TRUE(ListAll(Table::kEntries, "g", 10).empty());
  EXPECT_TRUE(ListAll(Table::kGraphs, group, 10).empty());
}

TEST_P(IndexContract, RowsOfOneSecondAppearOnceEach) {
  std::set<Digest> written;
  RecordFacts facts;
  facts.group = "many";
  for (int i = 0; i < 60; ++i) {
    const RecordKey key = KeyOf("m" + std::to_string(i));
    Set(key, 0, Text("x"), facts);
    written.insert(key.digest);
  }
  for (const size_t limit : {size_t{1}, size_t{7}, size_t{60}, size_t{100}}) {
    const auto rows = ListAll(Table::kEntries, "many", limit);
    const std::vector<Digest> digests = DigestsOf(rows);
    EXPECT_EQ(std::set<Digest>(digests.begin(), digests.end()), written) << limit;
    EXPECT_EQ(digests.size(), written.size()) << limit;
    EXPECT_TRUE(
        std::is_sorted(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.created > b.created; }));
  }
}

TEST_P(IndexContract, ARecordIsInTheGroupOfItsLastWrite) {
  const RecordKey key = KeyOf("a");
  RecordFacts facts;
  facts.group = "one";
  uint64_t version = Set(key, 0, Text("x"), facts);
  facts.group = "two";
  version = Set(key, version, Text("x"), facts);
  EXPECT_TRUE(ListAll(Table::kEntries, "one", 10).empty());
  EXPECT_EQ(ListAll(Table::kEntries, "two", 10).size(), 1u);
  version = Set(key, version, Text("x"));
  EXPECT_TRUE(ListAll(Table::kEntries, "two", 10).empty());
  EXPECT_EQ(ListAll(Table::kEntries, std::nullopt, 10).size(), 1u);
  facts.group = "three";
  version = Set(key, version, Text("x"), facts);
  ASSERT_TRUE(Delete(key, version));
  EXPECT_TRUE(ListAll(Table::kEntries, "three", 10).empty());
}

TEST_P(IndexContract, NamesGroupsOnceEach) {
  std::set<std::string> names;
  for (int i = 0; i < 40; ++i) {
    RecordFacts facts;
    facts.group = "group " + std::to_string(i % 20);
    names.insert(facts.group);
    Set(KeyOf("a" + std::to_string(i)), 0, Text("x"), facts);
  }
  for (const size_t limit : {size_t{1}, size_t{7}, size_t{20}, size_t{100}}) {
    const std::vector<std::string> groups = GroupsOf(Table::kEntries, limit);
    EXPECT_EQ(groups.size(), names.size()) << limit;
    EXPECT_EQ(std::set<std::string>(groups.begin(), groups.end()), names) << limit;
  }
  EXPECT_TRUE(GroupsOf(Table::kGraphs, 10).empty());
}

TEST_P(IndexContract, RefusesPlacesThatAreNoneOfItsOwn) {
  for (const char* after : {"x", "12", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "\xff\xff", ":::"}) {
    EXPECT_EQ(Refused(index().List(Table::kEntries, std::nullopt, after, 10, testing_until())), Code::kInvalid)
        << after;
    EXPECT_EQ(Refused(index().List(Table::kEntries, "g", after, 10, testing_until())), Code::kInvalid) << after;
  }
}

TEST_P(IndexContract, WhatStaysIsListedOnceWhileOthersComeAndGo) {
  std::set<Digest> stays;
  RecordFacts facts;
  facts.group = "g";
  for (int i = 0; i < 60; ++i) {
    const RecordKey key = KeyOf("stays" + std::to_string(i));
    Set(key, 0, Text("x"), facts);
    stays.insert(key.digest);
  }
  std::atomic<bool> stop{false};
  const auto churn = [](Index& index, int seed, std::atomic<bool>& stop) -> Task<void> {
    RecordFacts facts;
    facts.group = "g";
    for (int i = 0; !stop; ++i) {
      const RecordKey key = KeyOf("goes" + std::to_string(seed * 1000 + i % 40));
      CO_TRY_ASSIGN(const std::vector<Record> records, co_await index.Get({1, key}, testing_until()));
      if (records[0].exists()) {
        CO_TRY(co_await index.CompareAndDelete(key, records[0].version, testing_until()));
      } else {
        CO_TRY(co_await index.CompareAndSet(key, 0, Text("y"), facts, testing_until()));
      }
    }
    co_return Status();
  };
  std::vector<std::future<Status>> writers;
  for (int i = 0; i < 2; ++i) writers.push_back(runner_.Go(churn(index(i), i, stop)));
  for (int round = 0; round < 6; ++round) {
    for (const bool by_group : {false, true}) {
      std::map<Digest, int> times;
      const auto group = by_group ? std::optional<std::string>("g") : std::nullopt;
      for (const auto& row : ListAll(Table::kEntries, group, 7, 2)) ++times[row.digest];
      for (const Digest& digest : stays) EXPECT_EQ(times[digest], 1) << digest.ToHex() << " by group " << by_group;
    }
  }
  stop = true;
  for (auto& writer : writers) {
    const Status status = writer.get();
    EXPECT_TRUE(status) << status.error().ToText();
  }
}

TEST_P(IndexContract, EveryCallEndsByItsUntil) {
  const RecordKey key = KeyOf("a");
  std::stop_source source;
  source.request_stop();
  for (const auto& [until, code] : {std::pair(Until::In(std::chrono::nanoseconds(0)), Code::kTimeout),
                                    std::pair(Until::In(kLong, source.get_token()), Code::kCancelled)}) {
    EXPECT_EQ(Refused(index().Get({key}, until)), code);
    EXPECT_EQ(Refused(index().CompareAndSet(key, 0, Text("x"), {}, until)), code);
    EXPECT_EQ(Refused(index().CompareAndDelete(key, 1, until)), code);
    EXPECT_EQ(Refused(index().List(Table::kEntries, std::nullopt, "", 1, until)), code);
    EXPECT_EQ(Refused(index().Groups(Table::kEntries, "", 1, until)), code);
    EXPECT_EQ(Refused(index().Changed(key, 0, until)), code);
    EXPECT_EQ(Refused(index().Acquire(key.digest, "me", kLong, until)), code);
    EXPECT_EQ(Refused(index().Renew(key.digest, 1, "", kLong, until)), code);
    EXPECT_EQ(Refused(index().Release(key.digest, 1, until)), code);
    EXPECT_EQ(Refused(index().Watch(key.digest, 0, "", until)), code);
  }
  // None of them was done.
  EXPECT_FALSE(Get(key).exists());
  EXPECT_TRUE(Must(index().Acquire(key.digest, "me", kLong, testing_until())).is_ours);
}

TEST_P(IndexContract, WaitsEndByTheirUntil) {
  const RecordKey key = KeyOf("a");
  EXPECT_EQ(Refused(index().Changed(key, 0, Until::In(std::chrono::milliseconds(30)))), Code::kTimeout);
  EXPECT_EQ(Refused(index().Watch(key.digest, 0, "", Until::In(std::chrono::milliseconds(30)))), Code::kTimeout);
  std::stop_source source;
  auto changed = runner_.Go(index().Changed(key, 0, Until::In(kLong, source.get_token())));
  auto watched = runner_.Go(index(1).Watch(key.digest, 0, "", Until::In(kLong, source.get_token())));
  // However far they are.
  source.request_stop();
  const auto record = changed.get();
  const auto lease = watched.get();
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code(), Code::kCancelled);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Code::kCancelled);
}

TEST_P(IndexContract, ChangesWakeThoseWhoWait) {
  const RecordKey key = KeyOf("a");
  std::vector<std::future<Result<Record>>> waiters;
  for (int i = 0; i < 6; ++i) waiters.push_back(runner_.Go(index(i).Changed(key, 0, testing_until())));
  const uint64_t version = Set(key, 0, Text("there"));
  for (auto& waiter : waiters) {
    const auto record = waiter.get();
    ASSERT_TRUE(record) << record.error().ToText();
    EXPECT_EQ(record->version, version);
    EXPECT_EQ(record->value, Text("there"));
  }
  EXPECT_EQ(Must(index(1).Changed(key, 0, testing_until())).version, version);
  auto gone = runner_.Go(index(1).Changed(key, version, testing_until()));
  ASSERT_TRUE(Delete(key, version));
  const auto record = gone.get();
  ASSERT_TRUE(record) << record.error().ToText();
  EXPECT_FALSE(record->exists());
}

TEST_P(IndexContract, OneHoldsALease) {
  const Digest key = DigestOf("work");
  std::vector<std::future<Result<Lease>>> racers;
  for (int i = 0; i < 16; ++i) {
    racers.push_back(runner_.Go(index(i).Acquire(key, "racer " + std::to_string(i), kLong, testing_until())));
  }
  uint64_t fence = 0;
  std::string holder;
  std::vector<Lease> others;
  for (auto& racer : racers) {
    const auto lease = racer.get();
    ASSERT_TRUE(lease) << lease.error().ToText();
    if (!lease->is_ours) {
      others.push_back(*lease);
      continue;
    }
    EXPECT_EQ(fence, 0u) << "two hold it";
    fence = lease->fence;
    holder = lease->holder;
  }
  ASSERT_NE(fence, 0u);
  EXPECT_EQ(others.size(), 15u);
  for (const Lease& lease : others) {
    EXPECT_EQ(lease.fence, fence);
    EXPECT_EQ(lease.holder, holder);
    EXPECT_GT(lease.left.count(), 0);
    EXPECT_LE(lease.left, kLong);
  }
}

TEST_P(IndexContract, FencesGrowAndStaleOnesDoNothing) {
  const Digest key = DigestOf("work");
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    const Lease lease = Must(index(i).Acquire(key, "me", kLong, testing_until()));
    ASSERT_TRUE(lease.is_ours);
    EXPECT_GT(lease.fence, last);
    if (last != 0) {
      EXPECT_FALSE(Must(index().Renew(key, last, "late", kLong, testing_until())));
      Must(index().Release(key, last, testing_until()));
    }
    const Lease seen = Must(index(i + 1).Acquire(key, "other", kLong, testing_until()));
    EXPECT_FALSE(seen.is_ours);
    EXPECT_EQ(seen.fence, lease.fence);
    EXPECT_EQ(seen.holder, "me");
    EXPECT_EQ(seen.progress, "");
    last = lease.fence;
    Must(index(i).Release(key, last, testing_until()));
  }
  EXPECT_FALSE(Must(index().Renew(key, last, "late", kLong, testing_until())));
  EXPECT_FALSE(Must(index().Renew(DigestOf("never held"), 1, "", kLong, testing_until())));
  EXPECT_FALSE(Must(index().Renew(DigestOf("never held"), 0, "", kLong, testing_until())));
}

TEST_P(IndexContract, RenewalsSayHowFarTheWorkIs) {
  const Digest key = DigestOf("work");
  const std::string far("40 %\0\xff", 6);
  const Lease mine = Must(index().Acquire(key, "me", kLong, testing_until()));
  auto watch = runner_.Go(index(1).Watch(key, mine.fence, "", testing_until()));
  EXPECT_TRUE(Must(index().Renew(key, mine.fence, far, kLong, testing_until())));
  const auto seen = watch.get();
  ASSERT_TRUE(seen) << seen.error().ToText();
  EXPECT_EQ(seen->fence, mine.fence);
  EXPECT_EQ(seen->holder, "me");
  EXPECT_EQ(seen->progress, far);
  EXPECT_FALSE(seen->is_ours);
  EXPECT_EQ(Must(index(2).Acquire(key, "other", kLong, testing_until())).progress, far);
}

TEST_P(IndexContract, ReleaseAndTakingWakeThoseWhoWatch) {
  const Digest key = DigestOf("work");
  auto nobody = runner_.Go(index(1).Watch(key, 0, "", testing_until()));
  const Lease mine = Must(index().Acquire(key, "me", kLong, testing_until()));
  const auto taken = nobody.get();
  ASSERT_TRUE(taken) << taken.error().ToText();
  EXPECT_EQ(taken->fence, mine.fence);
  std::vector<std::future<Result<Lease>>> watchers;
  for (int i = 0; i < 6; ++i) watchers.push_back(runner_.Go(index(i).Watch(key, mine.fence, "", testing_until())));
  Must(index().Release(key, mine.fence, testing_until()));
  for (auto& watcher : watchers) {
    const auto seen = watcher.get();
    ASSERT_TRUE(seen) << seen.error().ToText();
    EXPECT_EQ(seen->fence, 0u);
  }
}

TEST_P(IndexContract, ALeaseEndsWithItsTime) {
  const Digest key = DigestOf("work");
  const Lease dead = Must(index().Acquire(key, "dead", std::chrono::milliseconds(50), testing_until()));
  ASSERT_TRUE(dead.is_ours);
  const Lease after = Must(index(1).Watch(key, dead.fence, "", testing_until()));
  EXPECT_EQ(after.fence, 0u);
  const Lease mine = Must(index(1).Acquire(key, "heir", kLong, testing_until()));
  EXPECT_TRUE(mine.is_ours);
  EXPECT_GT(mine.fence, dead.fence);
  EXPECT_FALSE(Must(index().Renew(key, dead.fence, "late", kLong, testing_until())));
  EXPECT_EQ(Must(index().Acquire(key, "other", kLong, testing_until())).holder, "heir");
}

TEST_P(IndexContract, RenewalsKeepALease) {
  const Digest key = DigestOf("work");
  const Lease mine = Must(index().Acquire(key, "me", std::chrono::seconds(30), testing_until()));
  ASSERT_TRUE(Must(index().Renew(key, mine.fence, "", kLong, testing_until())));
  const Lease seen = Must(index(1).Acquire(key, "other", kLong, testing_until()));
  EXPECT_EQ(seen.fence, mine.fence);
  EXPECT_GT(seen.left, std::chrono::seconds(30));
}

TEST_P(IndexContract, HistoriesOfARecordAreLinearizable) {
  if (!GetParam().is_linearizable) GTEST_SKIP() << "a lost race may be told as won";
  for (int round = 0; round < 20; ++round) {
    const RecordKey key = KeyOf("history" + std::to_string(round));
    ingot::support::CheckRegister(runner_, {&index(0), &index(1), &index(2), &index(0)}, key, kLong);
  }
}

/// A call of a history of one lease; holders are numbers, 0: nobody.
struct LeaseCall {
  enum class Kind : uint8_t { kAcquire, kRenew, kRelease };
  Kind kind = Kind::kAcquire;
  uint64_t fence = 0;     ///< asked with, or given
  bool is_done = false;   ///< given, renewed
};

TEST_P(IndexContract, HistoriesOfALeaseAreLinearizable) {
  using Observed = ingot::support::Observed<LeaseCall>;
  for (int round = 0; round < 20; ++round) {
    const Digest key = DigestOf("lease" + std::to_string(round));
    Mutex mutex;
    std::vector<Observed> history;
    const auto work = [](Index& index, Digest key, Mutex& mutex, std::vector<Observed>& history) -> Task<void> {
      const auto note = [&](Observed observed) {
        observed.returned = std::chrono::steady_clock::now();
        MutexLock lock(mutex);
        history.push_back(observed);
      };
      for (int i = 0; i < 5; ++i) {
        Observed observed;
        observed.called = std::chrono::steady_clock::now();
        CO_TRY_ASSIGN(const Lease lease, co_await index.Acquire(key, "me", kLong, testing_until()));
        observed.op = {LeaseCall::Kind::kAcquire, lease.fence, lease.is_ours};
        note(observed);
        // The fence of another is as stale as one can be.
        observed.called = std::chrono::steady_clock::now();
        CO_TRY_ASSIGN(const bool renewed, co_await index.Renew(key, lease.fence, "", kLong, testing_until()));
        observed.op = {LeaseCall::Kind::kRenew, lease.fence, renewed};
        note(observed);
        if (!lease.is_ours) continue;
        observed.called = std::chrono::steady_clock::now();
        CO_TRY(co_await index.Release(key, lease.fence, testing_until()));
        observed.op = {LeaseCall::Kind::kRelease, lease.fence, true};
        note(observed);
      }
      co_return Status();
    };
    std::vector<std::future<Status>> workers;
    for (int i = 0; i < 4; ++i) workers.push_back(runner_.Go(work(index(i), key, mutex, history)));
    for (auto& worker : workers) {
      const Status status = worker.get();
      ASSERT_TRUE(status) << status.error().ToText();
    }
    // Who holds it now, and the largest fence so far.
    using State = std::pair<uint64_t, uint64_t>;
    MutexLock lock(mutex);
    EXPECT_TRUE((ingot::support::IsLinearizable<State, LeaseCall>(
        history, State{0, 0}, [](const State& now, const LeaseCall& call) -> std::vector<State> {
          const bool holds = now.first != 0 && now.first == call.fence;
          switch (call.kind) {
            case LeaseCall::Kind::kAcquire:
              if (!call.is_done) return holds ? std::vector{now} : std::vector<State>();
              if (now.first != 0 || call.fence <= now.second) return {};
              return {State{call.fence, call.fence}};
            case LeaseCall::Kind::kRenew: return holds == call.is_done ? std::vector{now} : std::vector<State>();
            case LeaseCall::Kind::kRelease: return {holds ? State{0, now.second} : now};
          }
          return {};
        })));
  }
}

}  // namespace ingot::cache
