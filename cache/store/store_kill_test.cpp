// SPDX-License-Identifier: Apache-2.0
// A process that writes to a store and is killed (kill -9), at random and at each call to the disk of a publish.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_dir.h"
#include "cache/store/rocks_store.h"
#include "cache/store/rows_audit.h"
#include "tests/support/cache/test_publish.h"

namespace ingot::cache {
namespace {

class StoreKill : public testing::Test {
 protected:
  StoreKill() { std::filesystem::create_directory(path_); }

  /// Runs a writer, which ends itself at the call `kill_at` or is killed once it said `lines` lines (0: never). True
  /// where it was killed.
  bool Write(uint32_t round, uint64_t kill_at, uint32_t writes, size_t lines) {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const std::string texts[] = {std::to_string(round), std::to_string(kill_at), std::to_string(writes)};
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(pipe[1], STDOUT_FILENO);
      ::execl(INGOT_STORE_WRITER, INGOT_STORE_WRITER, path_.c_str(), texts[0].c_str(), texts[1].c_str(),
              texts[2].c_str(), nullptr);
      ::_exit(127);
    }
    ::close(pipe[1]);
    std::string said;
    char buffer[256];
    for (ssize_t n = 0; (n = ::read(pipe[0], buffer, sizeof buffer)) > 0;) {
      said.append(buffer, static_cast<size_t>(n));
      if (lines != 0 && static_cast<size_t>(std::count(said.begin(), said.end(), '\n')) >= lines) {
        ::kill(child, SIGKILL);
      }
    }
    ::close(pipe[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "the writer ended with " << WEXITSTATUS(status);
    std::istringstream words(said);
    std::string what;
    for (uint32_t n = 0; words >> what >> n;) {
      const Publish publish = PublishOf(round, n);
      auto& states = states_[{publish.table, publish.key}];
      if (what == "try") {
        if (states.empty()) states.insert(Buffer());
        states.insert(publish.value);
        continue;
      }
      uint64_t version = 0;
      words >> version;
      EXPECT_NE(version, 0u);
      states = {publish.value};
      ++acknowledged_;
    }
    return WIFSIGNALED(status);
  }

  void ExpectWhole(const std::string& what) {
    SCOPED_TRACE(what);
    Result<std::unique_ptr<Store>> store = OpenRocksStore(path_, PublishOptions());
    ASSERT_TRUE(store) << store.error().ToText();
    for (const auto& [name, states] : states_) {
      const Result<Value> got = (*store)->Get(name.first, name.second);
      if (got) {
        EXPECT_TRUE(states.contains(got->bytes)) << name.second.ToHex() << " has bytes that were not written";
      } else {
        EXPECT_EQ(got.error().code(), Code::kNotFound) << got.error().ToText();
        EXPECT_TRUE(states.contains(Buffer())) << name.second.ToHex() << " is lost";
      }
    }
    store->reset();
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_, PublishOptions().db);
    ASSERT_TRUE(db) << db.error().ToText();
    const Result<RowsReport> report = AuditRows(**db, {});
    ASSERT_TRUE(report) << report.error().ToText();
    EXPECT_EQ(report->faults, 0u) << testing::PrintToString(report->texts);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "db";
  std::map<std::pair<Table, Digest>, std::set<Buffer>> states_;  // what each may be; no bytes: absent
  size_t acknowledged_ = 0;
};

// Every call to the disk while a store is made, three values are published and the database is closed.
TEST_F(StoreKill, AtEachCallOfAPublish) {
  uint64_t k = 1;
  while (Write(static_cast<uint32_t>(k), k, 3, 0)) {
    ASSERT_LT(k, 2000u);
    if (k % 8 == 0) ExpectWhole(fmt::format("killed at call {}", k));
    if (HasFailure()) return;
    ++k;
  }
  ExpectWhole("not killed");
  EXPECT_GT(k, 30u);
  EXPECT_GE(acknowledged_, 3u);
}

TEST_F(StoreKill, AtRandom) {
  std::mt19937 random(20);
  for (uint32_t round = 0; round < 50; ++round) {
    EXPECT_TRUE(Write(5000 + round, 0, 1'000'000, 1 + random() % 40));
    ExpectWhole(fmt::format("round {}", round));
    if (HasFailure()) return;
  }
  EXPECT_GT(acknowledged_, 50u);
}

}  // namespace
}  // namespace ingot::cache
