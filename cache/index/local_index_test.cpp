// SPDX-License-Identifier: Apache-2.0
#include "cache/index/local_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_dir.h"
#include "cache/store/memory_store.h"
#include "cache/store/rocks_store.h"
#include "tests/support/cache/index_contract.h"
#include "tests/support/register_history.h"

namespace ingot::cache {
namespace {

using ingot::support::IsLinearizable;
using ingot::support::IsRegister;
using ingot::support::Observed;
using ingot::support::RegisterCall;
using ingot::support::RegisterHistory;

class LocalWorld final : public IndexWorld {
 public:
  explicit LocalWorld(std::unique_ptr<Store> store) : store_(std::move(store)), index_(*store_) {}
  Index& client(size_t) override { return index_; }

 private:
  std::unique_ptr<Store> store_;
  LocalIndex index_;
};

std::unique_ptr<IndexWorld> Memory() { return std::make_unique<LocalWorld>(std::make_unique<MemoryStore>()); }

class RocksWorld final : public IndexWorld {
 public:
  RocksWorld() {
    RocksStoreOptions options;
    options.disk_free_bytes_min = 0;
    auto store = OpenRocksStore(dir_ / "db", options);
    if (!store) ADD_FAILURE() << store.error().ToText();
    local_ = std::make_unique<LocalWorld>(std::move(store).value());
  }
  Index& client(size_t which) override { return local_->client(which); }

 private:
  TempDir dir_;
  std::unique_ptr<LocalWorld> local_;
};
std::unique_ptr<IndexWorld> Rocks() { return std::make_unique<RocksWorld>(); }

INSTANTIATE_TEST_SUITE_P(Local, IndexContract,
                         ::testing::Values(IndexKind{"memory", Memory}, IndexKind{"rocks", Rocks}), NameOfKind);

// The checker itself: a register whose calls write a value, or read one.

struct Call {
  bool is_write;
  int value;
};

Observed<Call> At(int called, int returned, Call call, bool is_unknown = false) {
  const auto time = [](int at) { return std::chrono::steady_clock::time_point(std::chrono::seconds(at)); };
  return {call, time(called), time(returned), is_unknown};
}

bool Holds(const std::vector<Observed<Call>>& history) {
  return IsLinearizable<int, Call>(history, 0, [](const int& now, const Call& call) {
    if (call.is_write) return std::vector{call.value};
    return now == call.value ? std::vector{now} : std::vector<int>();
  });
}

TEST(LinearizabilityTest, AcceptsWhatAnOrderExplains) {
  EXPECT_TRUE(Holds({}));
  EXPECT_TRUE(Holds({At(0, 1, {true, 1}), At(2, 3, {false, 1})}));
  // Together: the read may be before or after.
  EXPECT_TRUE(Holds({At(0, 5, {true, 1}), At(1, 2, {false, 0}), At(3, 4, {false, 1})}));
  // A write without an answer may be done late, or never.
  EXPECT_TRUE(Holds({At(0, 1, {true, 1}, true), At(2, 3, {false, 0}), At(4, 5, {false, 1})}));
  EXPECT_TRUE(Holds({At(0, 1, {true, 1}, true), At(2, 3, {false, 0})}));
}

TEST(LinearizabilityTest, RefusesWhatNoneExplains) {
  EXPECT_FALSE(Holds({At(0, 1, {false, 1})}));
  EXPECT_FALSE(Holds({At(0, 1, {true, 1}), At(2, 3, {false, 0})}));
  // Seen, and then not any more.
  EXPECT_FALSE(Holds({At(0, 9, {true, 1}), At(1, 2, {false, 1}), At(3, 4, {false, 0})}));
  EXPECT_FALSE(Holds({At(0, 1, {true, 1}, true), At(2, 3, {false, 1}), At(4, 5, {false, 0})}));
}

TEST(LinearizabilityTest, RefusesALostUpdateOfARecord) {
  const auto time = [](int at) { return std::chrono::steady_clock::time_point(std::chrono::seconds(at)); };
  RegisterHistory history;
  // Two writers from one version, both told that they were first.
  history.push_back({{RegisterCall::Kind::kSet, 0, 10, 1}, time(0), time(5)});
  history.push_back({{RegisterCall::Kind::kSet, 0, 20, 2}, time(1), time(4)});
  EXPECT_FALSE(IsRegister(history));
  history[1].op.version = 0;
  EXPECT_TRUE(IsRegister(history));
  // A version that comes again with another value.
  history.push_back({{RegisterCall::Kind::kGet, 0, 30, 1}, time(6), time(7)});
  EXPECT_FALSE(IsRegister(history));
}

}  // namespace
}  // namespace ingot::cache
