// SPDX-License-Identifier: Apache-2.0
// A store over a disk that fails at every call in turn, or loses its power there: what was acknowledged is there, what
// was not is there as a whole or not at all, and everything beside the values agrees with them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "cache/store/evict.h"
#include "cache/store/log_watch.h"
#include "cache/store/rocks_store.h"
#include "cache/store/rows_audit.h"
#include "tests/support/cache/test_publish.h"
#include "tests/support/eventually.h"
#include "tests/support/faulty_disk.h"

namespace ingot::cache {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using How = DiskFault::How;
using Loss = FaultyDisk::Loss;

constexpr uint64_t kDiskChunk = 4096;

/// A store on a faulty disk, with a memory of what it acknowledged.
class World {
 public:
  enum class Start : uint8_t {
    kMade,  ///< from an empty store, since making one takes most of the calls, which are much the same
    kNew,
  };
  explicit World(Start start = Start::kMade) : path_(MakeDirectory(dir_ / "db", start)) {
    options_.db.disk = std::make_shared<FaultyEnv>(disk_);
    options_.db.clock = &clock_;
    options_.clock = &clock_;
    options_.metrics = &metrics_;
  }

  Status Open() {
    store_.reset();
    TRY_ASSIGN(store_, OpenRocksStore(path_, options_));
    return {};
  }
  void Close() { store_.reset(); }
  bool is_open() const { return store_ != nullptr; }

  bool Put(Table table, uint64_t name, size_t size, const std::string& group = "", bool is_durable = true) {
    if (!is_open()) return false;
    const uint32_t seed = ++seed_;
    const Digest key = table == Table::kArtifacts ? DigestOf(TestValue(size, seed)) : Digest{name, 1};
    const auto result = store_->Put(table, key, TestValue(size, seed),
                                    {.cost_s = 1.0 + static_cast<double>(seed % 7),
                                     .group = group,
                                     .summary = Buffer(8, uint8_t{1}),
                                     .is_durable = is_durable});
    auto& states = states_[{table, key}];
    if (states.empty()) states.insert(kAbsent);
    unsettled_.erase({table, key});
    if (result && !is_durable) {
      EXPECT_NE(*result, 0u);
      states.insert({seed, size});
      versions_.erase({table, key});
      unsettled_[{table, key}] = {seed, size};
    } else if (result) {
      EXPECT_NE(*result, 0u);
      states = {{seed, size}};
      versions_[{table, key}] = *result;
      Settle();
    } else {
      Complain(result.error());
      states.insert({seed, size});
      versions_.erase({table, key});
    }
    last_ = key;
    return result.has_value();
  }
  /// Replaces what is there, expecting its version.
  bool Replace(Table table, uint64_t name, size_t size) {
    if (!is_open()) return false;
    const Digest key{name, 1};
    const auto before = store_->StatOf(table, key);
    if (!before) return false;
    const uint32_t seed = ++seed_;
    const auto result = store_->Put(table, key, TestValue(size, seed), {.cost_s = 2, .expected = before->version});
    auto& states = states_[{table, key}];
    unsettled_.erase({table, key});
    if (result) {
      EXPECT_NE(*result, 0u) << "nobody else writes";
      states = {{seed, size}};
      versions_[{table, key}] = *result;
      Settle();
    } else {
      Complain(result.error());
      states.insert({seed, size});
      versions_.erase({table, key});
    }
    return result.has_value();
  }
  void Delete(Table table, const Digest& key) {
    if (!is_open()) return;
    const auto result = store_->Delete(table, key);
    if (!result && result.error().code() == Code::kNotFound) return;
    auto& states = states_[{table, key}];
    states.insert(kAbsent);
    versions_.erase({table, key});
    if (result) {
      unsettled_[{table, key}] = kAbsent;
    } else {
      Complain(result.error());
    }
  }
  void Touch(Table table, uint64_t name) {
    if (is_open()) store_->Touch(table, {name, 1});
  }
  void Pin(Table table, uint64_t name) {
    if (!is_open()) return;
    const Status pinned = store_->Pin(table, {name, 1}, true);
    if (pinned) Settle();
  }
  void Compact() {
    if (is_open()) Ignore(store_->Compact({}), "the disk may fail");
  }
  void Evict(uint64_t entries_max) {
    if (!is_open()) return;
    EvictLimits limits;
    limits.entries_max = entries_max;
    limits.grace_s = 0;
    const auto report = Evictor(*store_, clock_, metrics_).Step(limits);
    // Whatever it chose may be gone, whether it says so or not.
    for (auto& [name, states] : states_) {
      if (name.first != Table::kEntries) continue;
      if (report && std::none_of(report->victims.begin(), report->victims.end(),
                                 [&](const Victim& victim) { return victim.row.key == name.second; })) {
        continue;
      }
      states.insert(kAbsent);
      versions_.erase(name);
      if (report) unsettled_[name] = kAbsent;
    }
  }
  void Advance(int64_t seconds) { clock_.AdvanceSeconds(seconds); }

  /// Reads are right while the disk fails: what is there now is one of the states.
  void ExpectReadable(const std::string& what) {
    if (!is_open()) return;
    for (const auto& [name, states] : states_) ExpectState(name, states, what);
  }

  /// Looks at everything, after a fresh opening on a disk that works, and closes it.
  void ExpectWhole(const std::string& what) {
    SCOPED_TRACE(what);
    disk_->Work();
    const Status opened = Open();
    ASSERT_TRUE(opened) << opened.error().ToText();
    EXPECT_EQ(store_->Trouble(), "");
    const auto totals = store_->TotalsOf();
    size_t listed = 0;
    for (size_t t = 0; t < kTables; ++t) {
      const auto page = store_->List(static_cast<Table>(t), "", 1000);
      ASSERT_TRUE(page);
      listed += page->rows.size();
      for (const StoreRow& row : page->rows) {
        EXPECT_TRUE(states_.contains({row.table, row.key})) << "a value that nobody wrote";
      }
    }
    size_t found = 0;
    for (auto& [name, states] : states_) {
      found += ExpectState(name, states, what);
      // From here on it is known.
      const Result<Value> now = store_->Get(name.first, name.second);
      std::erase_if(states, [&](const State& state) {
        return now ? TestValue(state.second, state.first) != now->bytes || state == kAbsent : state != kAbsent;
      });
      if (now) versions_[name] = now->version;
    }
    unsettled_.clear();
    EXPECT_EQ(found, listed);
    EXPECT_EQ(metrics_.Get(Counter::store_corrupt), 0u);
    Close();
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_, options_.db);
    ASSERT_TRUE(db) << db.error().ToText();
    const Result<RowsReport> report = AuditRows(**db, {});
    ASSERT_TRUE(report) << report.error().ToText();
    EXPECT_EQ(report->faults, 0u) << testing::PrintToString(report->texts);
    for (size_t t = 0; t < kTables; ++t) {
      EXPECT_EQ(totals[t].count, report->totals[t].count);
      EXPECT_EQ(totals[t].bytes, report->totals[t].bytes);
    }
  }

  /// Reads are spoiled: RocksDB may say so.
  void AllowCorrupt() { may_be_corrupt_ = true; }
  const std::shared_ptr<FaultyDisk>& disk() const { return disk_; }
  Store& store() { return *store_; }
  FakeClock& clock() { return clock_; }
  const std::string& path() const { return path_; }
  RocksStoreOptions& options() { return options_; }
  /// What was put last.
  const Digest& last() const { return last_; }
  const std::vector<Error>& errors() const { return errors_; }
  /// Values that are certainly there.
  size_t certain() const { return versions_.size(); }

 private:
  static std::string MakeDirectory(const std::string& path, Start start) {
    static const TempDir made;
    static const bool is_made = OpenRocksStore(made / "db", PublishOptions()).has_value();
    EXPECT_TRUE(is_made);
    if (start == Start::kNew) {
      std::filesystem::create_directory(path);
    } else {
      std::filesystem::copy(made / "db", path);
    }
    return path;
  }

  using Name = std::pair<Table, Digest>;
  using State = std::pair<uint32_t, size_t>;  // seed and size
  static constexpr State kAbsent{0, 0};

  void Complain(const Error& error) {
    errors_.push_back(error);
    if (may_be_corrupt_ && error.code() == Code::kCorrupt) return;
    EXPECT_THAT(error.code(), AnyOf(Code::kExhausted, Code::kUnavailable)) << error.ToText();
  }
  /// What was done before a synced write is on the disk too.
  void Settle() {
    for (const auto& [name, state] : unsettled_) states_[name] = {state};
    unsettled_.clear();
  }
  /// 1 where the value is there.
  size_t ExpectState(const Name& name, const std::set<State>& states, const std::string& what) {
    const uint64_t failed_before = may_be_corrupt_ ? disk_->failed() : UINT64_MAX;
    const Result<Value> got = store_->Get(name.first, name.second);
    const std::string text = fmt::format("{}: {} {}", what, NameOf(name.first), name.second.ToHex());
    if (!got && got.error().code() == Code::kUnavailable && disk_->failed() > failed_before) return 0;  // honest
    if (!got) {
      EXPECT_EQ(got.error().code(), Code::kNotFound) << text << ": " << got.error().ToText();
      EXPECT_TRUE(states.contains(kAbsent)) << text << " is lost";
      return 0;
    }
    bool known = false;
    for (const auto& [seed, size] : states) known |= size == got->bytes.size() && TestValue(size, seed) == got->bytes;
    EXPECT_TRUE(known) << text << " has bytes that were not written";
    const auto version = versions_.find(name);
    if (version != versions_.end()) {
      EXPECT_EQ(got->version, version->second) << text;
    }
    return 1;
  }

  TempDir dir_;
  const std::string path_;
  FakeClock clock_;
  Metrics metrics_;
  std::shared_ptr<FaultyDisk> disk_ = std::make_shared<FaultyDisk>(path_);
  RocksStoreOptions options_ = PublishOptions();
  std::unique_ptr<Store> store_;
  uint32_t seed_ = 0;
  Digest last_;
  std::map<Name, std::set<State>> states_;  // what each may be
  std::map<Name, uint64_t> versions_;       // where it is known
  std::map<Name, State> unsettled_;         // what was done since the last synced write
  std::vector<Error> errors_;
  bool may_be_corrupt_ = false;
};

/// Each kind of change once, with what is below it in RocksDB: logs that are switched, flushes, compactions, reopening.
/// `go_on`: called after each step; false ends it.
void RunScript(World& world, const std::function<bool()>& go_on = [] { return true; }) {
  bool goes_on = true;
  const auto step = [&](auto&& call) {
    if (!goes_on) return;
    call();
    goes_on = go_on();
  };
  step([&] { Ignore(world.Open(), "the disk may fail"); });
  step([&] { world.Put(Table::kEntries, 1, 100, "g"); });
  step([&] { world.Put(Table::kArtifacts, 0, 5 * kDiskChunk + 1); });
  const Digest large = world.last();
  step([&] { world.Put(Table::kEntries, 2, 3 * kDiskChunk, "g"); });
  step([&] { world.Put(Table::kArtifacts, 0, 2 * kDiskChunk, "", /*is_durable=*/false); });
  step([&] { world.Put(Table::kGraphs, 6, 70, "", /*is_durable=*/false); });
  step([&] { world.Replace(Table::kEntries, 1, 4 * kDiskChunk); });
  step([&] { world.Touch(Table::kEntries, 2); });
  step([&] { world.Put(Table::kGraphs, 3, 50); });
  step([&] { world.Pin(Table::kEntries, 2); });
  step([&] { world.Put(Table::kEntries, 4, 200, "h"); });
  step([&] { world.Delete(Table::kArtifacts, large); });
  step([&] { world.Put(Table::kArtifacts, 0, 9 * kDiskChunk); });
  step([&] { world.Compact(); });
  step([&] { world.Put(Table::kEntries, 2, 60, "h"); });
  step([&] { world.Evict(2); });
  step([&] {
    world.Close();
    Ignore(world.Open(), "the disk may fail");
  });
  step([&] { world.Put(Table::kEntries, 5, 2 * kDiskChunk, "g"); });
  step([&] { world.Delete(Table::kGraphs, {3, 1}); });
  step([&] { world.Put(Table::kGraphs, 7, 2 * kDiskChunk, "", /*is_durable=*/false); });
}

/// How many calls the script makes that `fault` could fail.
uint64_t CallsOf(DiskFault fault) {
  World world;
  fault.first = UINT64_MAX;
  world.disk()->Fail(fault);
  RunScript(world);
  world.Close();
  return world.disk()->matched();
}

/// Every call in turn, in parts that can run side by side; odd, so that each part meets every kind of fault.
constexpr uint64_t kStripes = 7;
class StoreDiskSweep : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Stripes, StoreDiskSweep, testing::Range(uint64_t{1}, kStripes + 1));

TEST(StoreDisk, TheScriptIsWholeWithoutFaults) {
  World world;
  RunScript(world);
  EXPECT_TRUE(world.errors().empty());
  world.ExpectWhole("no fault");
  EXPECT_GE(world.certain(), 3u);
}

TEST_P(StoreDiskSweep, PowerLostAtAnyCall) {
  const uint64_t calls = CallsOf({});
  ASSERT_GT(calls, 100u);
  for (uint64_t k = GetParam(); k <= calls + kStripes; k += kStripes) {
    World world;
    world.disk()->Fail({.first = k});
    RunScript(world, [&] { return world.disk()->failed() == 0; });
    world.Close();
    const auto loss = static_cast<Loss>(k % 3);
    world.disk()->LosePower(loss, k);
    world.ExpectWhole(fmt::format("power lost at call {} of {} ({})", k, calls, k % 3));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StoreDisk, AWriteThatNeedNotBeDurableWaitsForNoDisk) {
  World world;
  ASSERT_TRUE(world.Open());
  world.disk()->Fail({.first = 1, .calls = 1u << static_cast<int>(DiskCall::kSync)});
  EXPECT_TRUE(world.Put(Table::kEntries, 1, 100, "", /*is_durable=*/false));
  EXPECT_TRUE(world.Put(Table::kArtifacts, 0, 3 * kDiskChunk, "", /*is_durable=*/false));
  EXPECT_EQ(world.disk()->failed(), 0u);
  EXPECT_FALSE(world.Put(Table::kEntries, 2, 100));
  world.Close();
  world.disk()->LosePower(Loss::kUnsynced, 1);
  world.ExpectWhole("power lost before anything was durable");
}

/// The disk works again: so does the store, without being opened again.
void ExpectWritesGoOn(World& world, const std::string& what) {
  SCOPED_TRACE(what);
  world.disk()->Work();
  world.Advance(60);
  if (!world.is_open()) {
    ASSERT_TRUE(world.Open());
  }
  EXPECT_TRUE(world.Put(Table::kEntries, 77, 3 * kDiskChunk, "g"));
  EXPECT_TRUE(world.Put(Table::kStats, 78, 10));
  EXPECT_EQ(world.store().Trouble(), "");
  EXPECT_THAT(world.store().Describe(), HasSubstr("writable"));
  world.Compact();
}

TEST_P(StoreDiskSweep, AnyCallFailsOnce) {
  const uint64_t calls = CallsOf({});
  for (uint64_t k = GetParam(); k <= calls + kStripes; k += kStripes) {
    World world;
    const auto how = static_cast<How>(k % 4);
    world.disk()->Fail({.first = k, .count = 1, .how = how});
    RunScript(world);
    const std::string what = fmt::format("call {} of {} failed once ({})", k, calls, static_cast<int>(how));
    ExpectWritesGoOn(world, what);
    world.ExpectReadable(what);
    world.Close();
    if (k % 2 == 0) world.disk()->LosePower(Loss::kUnsynced, k);
    world.ExpectWhole(what);
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(StoreDiskSweep, AllCallsFailFromAnyOnAndThenNoMore) {
  const uint64_t calls = CallsOf({});
  for (uint64_t k = GetParam(); k <= calls; k += kStripes) {
    World world;
    const auto how = static_cast<How>(k % 4);
    const std::string what = fmt::format("calls failed from {} of {} on ({})", k, calls, static_cast<int>(how));
    world.disk()->Fail({.first = k, .how = how});
    RunScript(world, [&] {
      world.ExpectReadable(what);
      return !testing::Test::HasFailure();
    });
    ExpectWritesGoOn(world, what);
    world.ExpectReadable(what);
    world.Close();
    world.ExpectWhole(what);
    if (testing::Test::HasFailure()) return;
  }
}

// Families are made one after the other, by the same calls; one fault a call is enough.
TEST_P(StoreDiskSweep, AnyCallFailsWhileAStoreIsMade) {
  const auto run = [](World& world) {
    Ignore(world.Open(), "the disk may fail");
    world.Put(Table::kEntries, 1, 100, "g");
  };
  World whole(World::Start::kNew);
  whole.disk()->Fail({.first = UINT64_MAX});
  run(whole);
  const uint64_t calls = whole.disk()->matched();
  ASSERT_GT(calls, 40u);
  for (uint64_t k = GetParam(); k <= calls; k += kStripes) {
    World world(World::Start::kNew);
    std::mt19937_64 random(k);
    const auto how = static_cast<How>(random() % 4);
    const bool once = random() % 2 == 0;
    const bool power = random() % 2 == 0;
    const std::string what = fmt::format("call {} of {} failed ({}){}{}", k, calls, static_cast<int>(how),
                                         once ? " once" : "", power ? ", then power" : "");
    world.disk()->Fail({.first = k, .count = once ? 1 : UINT64_MAX, .how = how});
    run(world);
    if (!power) ExpectWritesGoOn(world, what);
    world.Close();
    if (power) world.disk()->LosePower(static_cast<Loss>(random() % 3), k);
    world.ExpectWhole(what);
    if (testing::Test::HasFailure()) return;
  }
}

// Long runs: all kinds of faults, one after another, over a store that goes on with what the one before left.
TEST(StoreDisk, RandomFaultsOneAfterAnother) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    World world;
    for (int phase = 0; phase < 6; ++phase) {
      DiskFault fault;
      if (!world.is_open()) {
        ASSERT_TRUE(world.Open());
      }
      fault.first = 1 + random() % 60;
      fault.count = random() % 2 == 0 ? UINT64_MAX : 1 + random() % 4;
      fault.how = static_cast<How>(random() % 4);
      if (random() % 3 == 0) fault.files = 1u << random() % 6;
      world.disk()->Fail(fault);
      for (int i = 0; i < 16; ++i) {
        const auto table = static_cast<Table>(random() % kTables);
        const uint64_t name = random() % 6;
        switch (random() % 10) {
          case 0: world.Delete(table, {name, 1}); break;
          case 1: world.Touch(table, name); break;
          case 2: world.Pin(Table::kEntries, name); break;
          case 3: world.Replace(Table::kEntries, name, random() % (6 * kDiskChunk)); break;
          case 4: world.Evict(3); break;
          case 5: world.Compact(); break;
          case 6: world.Advance(15); break;
          case 7:
            if (random() % 4 == 0) {
              world.Close();
              Ignore(world.Open(), "the disk may fail");
            }
            break;
          default: world.Put(table, name, random() % (6 * kDiskChunk), random() % 2 == 0 ? "g" : ""); break;
        }
      }
      const std::string what = fmt::format("seed {} phase {}", seed, phase);
      if (random() % 2 == 0) ExpectWritesGoOn(world, what);
      world.Close();
      const uint64_t end = random() % 4;
      if (end != 3) world.disk()->LosePower(static_cast<Loss>(end), seed);
      world.ExpectWhole(what);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Reads that fail, come short or come wrong once: no wrong byte is given, and nothing is given up for it.
TEST(StoreDisk, AnyReadIsSpoiledOnce) {
  DiskFault reads;
  reads.calls = 1u << static_cast<int>(DiskCall::kRead);
  // Of a log whose bytes changed, all up to there is kept: no reader can tell it from one that was cut.
  reads.files = 1u << static_cast<int>(DiskFile::kTable) | 1u << static_cast<int>(DiskFile::kBlob);
  const uint64_t calls = CallsOf(reads);
  ASSERT_GT(calls, 20u);
  for (uint64_t k = 1; k <= calls; ++k) {
    World world;
    reads.first = k;
    reads.count = 1;
    reads.how = std::array{How::kError, How::kShort, How::kFlipped}[k % 3];
    world.disk()->Fail(reads);
    world.AllowCorrupt();
    const std::string what = fmt::format("read {} of {} spoiled ({})", k, calls, static_cast<int>(reads.how));
    RunScript(world, [&] {
      world.ExpectReadable(what);
      return !testing::Test::HasFailure();
    });
    ExpectWritesGoOn(world, what);
    world.Close();
    world.ExpectWhole(what);
    if (testing::Test::HasFailure()) return;
  }
}

class StoreDiskFull : public testing::TestWithParam<How> {};

TEST_P(StoreDiskFull, ReadsGoOnAndWritesToo) {
  World world;
  ASSERT_TRUE(world.Open());
  ASSERT_TRUE(world.Put(Table::kEntries, 1, 5 * kDiskChunk, "g"));
  world.disk()->Fail({.first = 1, .how = GetParam()});
  EXPECT_FALSE(world.Put(Table::kEntries, 2, 5 * kDiskChunk, "g"));
  const Code code = GetParam() == How::kNoSpace ? Code::kExhausted : Code::kUnavailable;
  ASSERT_EQ(world.errors().size(), 1u);
  EXPECT_EQ(world.errors()[0].code(), code);
  EXPECT_THAT(world.errors()[0].message(), HasSubstr(world.path()));
  EXPECT_NE(world.store().Trouble(), "");
  EXPECT_THAT(world.store().Describe(), HasSubstr("read only: "));
  world.ExpectReadable("while the disk fails");
  // Tries become rarer, so that a disk that is gone costs nothing.
  const uint64_t before = world.disk()->failed();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(world.Put(Table::kEntries, 2, 100));
  EXPECT_EQ(world.disk()->failed(), before);
  EXPECT_THAT(world.errors().back().message(), HasSubstr("tried again in"));
  world.Advance(1);
  EXPECT_FALSE(world.Put(Table::kEntries, 2, 100));
  EXPECT_GT(world.disk()->failed(), before);
  ExpectWritesGoOn(world, "the disk works again");
  world.Close();
  world.ExpectWhole("after all");
}

// A disk that is full when the daemon starts is one that it can read.
TEST_P(StoreDiskFull, OpensForReadingAndWritesOnceItCan) {
  World world;
  RunScript(world);
  world.Close();
  world.disk()->Fail({.first = 1, .how = GetParam()});
  ASSERT_TRUE(world.Open());
  EXPECT_NE(world.store().Trouble(), "");
  world.ExpectReadable("opened on a disk that fails");
  EXPECT_FALSE(world.Put(Table::kEntries, 2, 100));
  ExpectWritesGoOn(world, "the disk works again");
  world.Close();
  world.ExpectWhole("after all");
}

INSTANTIATE_TEST_SUITE_P(Hows, StoreDiskFull, testing::Values(How::kNoSpace, How::kError, How::kRetryable, How::kTorn));

/// The families' rows "000", "001", ... that are there.
std::set<std::string> RowsOf(RocksDb& db) {
  std::set<std::string> rows;
  EXPECT_TRUE(db.Scan(Family::kStats, "", [&](Bytes key, Bytes) { return rows.emplace(AsText(key)).second; }));
  return rows;
}

// A log is changed for another before it is synced, and the disk keeps the newer of the two.
TEST(RocksDbDisk, NothingIsKeptThatFollowsAHole) {
  TempDir dir;
  const std::string path = dir / "db";
  std::filesystem::create_directory(path);
  const auto disk = std::make_shared<FaultyDisk>(path);
  RocksDbOptions options = PublishOptions().db;
  options.disk = std::make_shared<FaultyEnv>(disk);
  std::vector<std::string> rows;
  {
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path, options);
    ASSERT_TRUE(db) << db.error().ToText();
    DiskFault fault{.first = 1};
    fault.calls = 1u << static_cast<int>(DiskCall::kSync);
    fault.files = 1u << static_cast<int>(DiskFile::kLog);
    disk->Fail(fault);
    const Buffer value = TestValue(4000, 1);
    for (bool written = true; written && rows.size() < 1000;) {
      const RowChange row{RowChange::Kind::kPut, Family::kStats, fmt::format("{:03}", rows.size()), value};
      written = (*db)->Apply({&row, 1}, /*sync=*/false).has_value();
      if (written) rows.push_back(row.key);
    }
  }
  ASSERT_GT(disk->failed(), 0u) << "no log was changed for another";
  disk->Work();
  disk->LosePower(Loss::kNewestLog, 1);
  Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path, options);
  ASSERT_TRUE(db) << db.error().ToText();
  const std::set<std::string> found = RowsOf(**db);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(found.contains(rows[i]), i < found.size()) << rows[i] << " of " << rows.size();
  }
}

// What was left in a log is read again, after an error of RocksDB's own threads too.
TEST(RocksDbDisk, IsOpenedAnewAfterAFailedFlushAndAFailedWrite) {
  TempDir dir;
  const std::string path = dir / "db";
  std::filesystem::create_directory(path);
  const auto disk = std::make_shared<FaultyDisk>(path);
  FakeClock clock;
  RocksDbOptions options = PublishOptions().db;
  options.disk = std::make_shared<FaultyEnv>(disk);
  options.clock = &clock;
  Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path, options);
  ASSERT_TRUE(db) << db.error().ToText();
  uint64_t opening = (*db)->opening();
  const RowChange row{RowChange::Kind::kPut, Family::kStats, "000", AsBytes("x")};
  ASSERT_TRUE((*db)->Apply({&row, 1}, /*sync=*/true));
  DiskFault fault{.first = 1, .how = How::kNoSpace};
  fault.files = 1u << static_cast<int>(DiskFile::kTable);
  disk->Fail(fault);
  EXPECT_EQ((*db)->Compact({}).error().code(), Code::kExhausted);
  EXPECT_NE((*db)->Trouble(), "");
  disk->Work();
  clock.AdvanceSeconds(60);
  ASSERT_TRUE((*db)->Mend());
  EXPECT_EQ((*db)->Trouble(), "");
  EXPECT_NE((*db)->opening(), opening);
  opening = (*db)->opening();

  fault.files = 1u << static_cast<int>(DiskFile::kLog);
  disk->Fail(fault);
  const RowChange next{RowChange::Kind::kPut, Family::kStats, "001", AsBytes("y")};
  EXPECT_EQ((*db)->Apply({&next, 1}, /*sync=*/true).error().code(), Code::kExhausted);
  disk->Work();
  ASSERT_TRUE((*db)->Mend());
  EXPECT_NE((*db)->opening(), opening);
  // What was made from rows of another opening is refused.
  EXPECT_EQ((*db)->Apply({&next, 1}, /*sync=*/true, opening).error().code(), Code::kUnavailable);
  EXPECT_TRUE((*db)->Apply({&next, 1}, /*sync=*/true));
  EXPECT_EQ(RowsOf(**db), (std::set<std::string>{"000", "001"}));
}

// What is damaged is given up: facts of a value, or the value. So one look is not enough.
TEST(RocksDbDisk, ARowThatIsReadWrongOnceIsReadAgain) {
  TempDir dir;
  const std::string path = dir / "db";
  std::filesystem::create_directory(path);
  const auto disk = std::make_shared<FaultyDisk>(path);
  RocksDbOptions options = PublishOptions().db;
  options.disk = std::make_shared<FaultyEnv>(disk);
  DiskFault fault{.count = 1, .how = How::kFlipped};
  fault.calls = 1u << static_cast<int>(DiskCall::kRead);
  fault.files = 1u << static_cast<int>(DiskFile::kTable);
  for (bool failed = true; failed; failed = disk->failed() > 0) {
    ++fault.first;
    disk->Work();
    const Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path, options);
    ASSERT_TRUE(db) << db.error().ToText();
    const RowChange row{RowChange::Kind::kPut, Family::kStats, "000", AsBytes("x")};
    if (fault.first == 1) {
      ASSERT_TRUE((*db)->Apply({&row, 1}, /*sync=*/true));
      ASSERT_TRUE((*db)->Compact({}));
    }
    disk->Fail(fault);
    const Status read = (*db)->Read(Family::kStats, "000", [](Bytes) { return Status(); });
    EXPECT_TRUE(read) << fault.first << ": " << read.error().ToText();
  }
  EXPECT_GT(fault.first, 1u) << "no read was spoiled";
}

TEST(LogWatch, ALogBeginsOnceTheOneBeforeIsSynced) {
  TempDir dir;
  const std::string path = dir / "db";
  std::filesystem::create_directory(path);
  const auto disk = std::make_shared<FaultyDisk>(path);
  FaultyEnv env(disk);
  {
    LogWatch watch(env, [](const rocksdb::IOStatus& error) { ADD_FAILURE() << error.ToString(); });
    std::vector<std::unique_ptr<rocksdb::FSWritableFile>> logs(3);
    for (size_t i = 0; i < logs.size(); ++i) {
      const std::string name = fmt::format("{}/{}.log", path, i);
      const auto& files = watch.disk()->GetFileSystem();
      ASSERT_TRUE(files->NewWritableFile(name, rocksdb::FileOptions(), &logs[i], nullptr).ok());
      ASSERT_TRUE(logs[i]->Append("abc", rocksdb::IOOptions(), nullptr).ok());
    }
  }
  disk->LosePower(Loss::kNewestLog, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::filesystem::file_size(fmt::format("{}/{}.log", path, i)), 3u);
}

/// Whether a thread of this process waits for something.
bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_ends = line.rfind(") ");
  return name_ends != std::string::npos && line.at(name_ends + 2) == 'S';
}

/// A database on a disk whose syncs of logs fail.
class RocksDbLog : public testing::Test {
 protected:
  RocksDbLog() {
    std::filesystem::create_directory(path_);
    options_.disk = std::make_shared<FaultyEnv>(disk_);
    options_.clock = &clock_;
  }
  std::unique_ptr<RocksDb> Open() {
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_, options_);
    EXPECT_TRUE(db) << db.error().ToText();
    return db ? std::move(db).value() : nullptr;
  }
  void FailSyncs(uint64_t first, uint64_t count = UINT64_MAX) {
    DiskFault fault{.first = first, .count = count, .how = How::kNoSpace};
    fault.calls = 1u << static_cast<int>(DiskCall::kSync);
    fault.files = 1u << static_cast<int>(DiskFile::kLog);
    disk_->Fail(fault);
  }
  static Status Put(RocksDb& db, const std::string& key, bool sync) {
    const RowChange row{RowChange::Kind::kPut, Family::kStats, key, AsBytes("x")};
    return db.Apply({&row, 1}, sync);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "db";
  FakeClock clock_;
  std::shared_ptr<FaultyDisk> disk_ = std::make_shared<FaultyDisk>(path_);
  RocksDbOptions options_ = PublishOptions().db;
};

// RocksDB syncs such a log once more for the write, and aborts where it was built with assertions.
TEST_F(RocksDbLog, AWriteMeetsALogWhoseSyncFailsInAFlush) {
  for (const uint64_t nth : {1, 2}) {  // when the log is changed for another; in the flush itself
    SCOPED_TRACE(nth);
    const std::unique_ptr<RocksDb> db = Open();
    ASSERT_NE(db, nullptr);
    const uint64_t opening = db->opening();
    ASSERT_TRUE(Put(*db, "000", /*sync=*/false));
    FailSyncs(nth, 1);
    std::thread writer;
    std::atomic<pid_t> writing{0};
    Status written;
    disk_->OnFault([&] {
      if (writer.joinable()) return;
      writer = std::thread([&] {
        writing = gettid();
        writing.notify_one();
        written = Put(*db, "001", /*sync=*/true);
      });
      writing.wait(0);
      // It waits for this sync, behind where RocksDB looks whether it may write.
      EXPECT_TRUE(support::Eventually([&] { return IsAsleep(writing); }));
    });
    const Status compacted = db->Compact({});
    disk_->OnFault({});
    ASSERT_TRUE(writer.joinable());
    writer.join();
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code(), Code::kExhausted);
    EXPECT_THAT(db->Trouble(), HasSubstr("No space"));
    disk_->Work();
    clock_.AdvanceSeconds(60);
    ASSERT_TRUE(db->Mend());
    EXPECT_EQ(db->Trouble(), "");
    EXPECT_NE(db->opening(), opening);
    EXPECT_TRUE(Put(*db, "001", /*sync=*/true));
    EXPECT_EQ(RowsOf(*db), (std::set<std::string>{"000", "001"}));
  }
}

TEST_F(RocksDbLog, NobodyIsToldThatAWriteIsSyncedThatIsNot) {
  std::array<std::vector<std::string>, 4> acknowledged;
  {
    const std::unique_ptr<RocksDb> db = Open();
    ASSERT_NE(db, nullptr);
    FailSyncs(20);
    std::vector<std::thread> writers;
    for (size_t w = 0; w < acknowledged.size(); ++w) {
      writers.emplace_back([&, w] {
        for (int i = 0; i < 1000; ++i) {
          const std::string key = fmt::format("{} {:03}", w, i);
          if (!Put(*db, key, /*sync=*/true)) return;
          acknowledged[w].push_back(key);
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_NE(db->Trouble(), "");
  }
  ASSERT_GT(disk_->failed(), 0u);
  disk_->Work();
  disk_->LosePower(Loss::kUnsynced, 1);
  const std::unique_ptr<RocksDb> db = Open();
  ASSERT_NE(db, nullptr);
  const std::set<std::string> found = RowsOf(*db);
  for (const auto& keys : acknowledged) {
    for (const std::string& key : keys) EXPECT_TRUE(found.contains(key)) << key << " is lost";
  }
}

// Tables are written family by family: one that counts on a log that is lost would be ahead of the others.
TEST_F(RocksDbLog, NoTableIsWrittenAfterALogThatMayBeLost) {
  {
    const std::unique_ptr<RocksDb> db = Open();
    ASSERT_NE(db, nullptr);
    ASSERT_TRUE(Put(*db, "000", /*sync=*/true));
    ASSERT_TRUE(Put(*db, "001", /*sync=*/false));
    FailSyncs(1);
    const Status compacted = db->Compact({});
    ASSERT_FALSE(compacted);
    EXPECT_EQ(compacted.error().code(), Code::kExhausted);
    EXPECT_THAT(db->Trouble(), HasSubstr("No space"));
  }
  disk_->Work();
  disk_->LosePower(Loss::kUnsynced, 1);
  const std::unique_ptr<RocksDb> db = Open();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(RowsOf(*db), (std::set<std::string>{"000"}));
}

// The log that was not synced is still in the machine's memory: what is read from there must be on the disk before
// anybody goes on from it.
TEST_F(RocksDbLog, WhatIsReadAfterAFailedSyncIsOnTheDisk) {
  {
    const std::unique_ptr<RocksDb> db = Open();
    ASSERT_NE(db, nullptr);
    FailSyncs(1);
    EXPECT_FALSE(Put(*db, "000", /*sync=*/true));
    EXPECT_FALSE(Put(*db, "001", /*sync=*/true)) << "refused until it is mended";
    disk_->Work();
    ASSERT_TRUE(db->Mend());
    EXPECT_EQ(RowsOf(*db), (std::set<std::string>{"000"}));
    // From here on nothing reaches the disk.
    disk_->Fail({.first = 1});
    EXPECT_FALSE(Put(*db, "002", /*sync=*/true));
  }
  disk_->LosePower(Loss::kUnsynced, 1);
  disk_->Work();
  const std::unique_ptr<RocksDb> db = Open();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(RowsOf(*db), (std::set<std::string>{"000"}));
}

}  // namespace
}  // namespace ingot::cache
