// SPDX-License-Identifier: Apache-2.0
#include "cache/waiter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/await.h"

namespace ingot::cache {
namespace {

using ingot::testing::Runner;
constexpr std::chrono::hours kLong{1};

TEST(WaiterTest, WhateverComesFirstEndsTheWait) {
  Runner runner;
  const auto woken = std::make_shared<Waiter>();
  woken->Wake();
  EXPECT_TRUE(runner.Await(Waiter::Wait(woken, Until::In(kLong))));
  const Status late = runner.Await(Waiter::Wait(std::make_shared<Waiter>(), Until::In(std::chrono::milliseconds(5))));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  std::stop_source source;
  auto stopped = runner.Go(Waiter::Wait(std::make_shared<Waiter>(), Until::In(kLong, source.get_token())));
  source.request_stop();
  const Status cancelled = stopped.get();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), Code::kCancelled);
}

TEST(WaiterTest, NothingOfAnEndedWaitKeepsItsExecutorBusy) {
  auto runner = std::make_unique<Runner>(4);
  std::vector<std::future<Status>> waits;
  for (int i = 0; i < 3000; ++i) {
    auto waiter = std::make_shared<Waiter>();
    waits.push_back(runner->Go(Waiter::Wait(waiter, Until::In(kLong))));
    // At any moment of its beginning.
    for (int turn = 0; turn < i % 8; ++turn) std::this_thread::yield();
    waiter->Wake();
  }
  for (auto& wait : waits) EXPECT_TRUE(wait.get());
  // Its threads end when nothing is left to do, not when an hour is over.
  auto ended = std::make_shared<std::promise<void>>();
  auto end = ended->get_future();
  std::thread([ended, runner = std::move(runner)]() mutable {
    runner.reset();
    ended->set_value();
  }).detach();
  EXPECT_EQ(end.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace ingot::cache
