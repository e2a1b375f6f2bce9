// SPDX-License-Identifier: Apache-2.0
#include "cache/async/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/await.h"

namespace ingot::cache {
namespace {

using ingot::support::Runner;
constexpr std::chrono::hours kHour{1};

TEST(WaiterTest, WhateverComesFirstEndsTheWait) {
  Runner runner;
  const auto woken = std::make_shared<Waiter>();
  woken->Wake();
  EXPECT_TRUE(runner.Await(Waiter::Wait(woken, Until::In(kHour))));
  const Status late = runner.Await(Waiter::Wait(std::make_shared<Waiter>(), Until::In(std::chrono::milliseconds(5))));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  std::stop_source source;
  auto stopped = runner.Go(Waiter::Wait(std::make_shared<Waiter>(), Until::In(kHour, source.get_token())));
  source.request_stop();
  const Status cancelled = stopped.get();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), Code::kCancelled);
}

/// Says that it is about to wait, and waits.
Task<void> WaitAfter(std::shared_ptr<Waiter> waiter, std::atomic<bool>& begun) {
  begun = true;
  co_return co_await Waiter::Wait(std::move(waiter), Until::In(kHour));
}

TEST(WaiterTest, NothingOfAnEndedWaitKeepsItsExecutorBusy) {
  auto runner = std::make_unique<Runner>(2);
  std::vector<std::thread> wakers;
  // More threads than cores, so that some are interrupted where it matters.
  for (int waker = 0; waker < 8; ++waker) {
    wakers.emplace_back([&] {
      for (int i = 0; i < 4000; ++i) {
        auto waiter = std::make_shared<Waiter>();
        std::atomic<bool> begun{false};
        auto wait = runner->Go(WaitAfter(waiter, begun));
        while (!begun) std::this_thread::yield();  // On purpose: a thread that sleeps comes too late.
        // At any moment of its beginning.
        for (std::atomic<int> turns{i % 200}; turns > 0; --turns) {
        }
        waiter->Wake();
        EXPECT_TRUE(wait.get());
      }
    });
  }
  for (std::thread& waker : wakers) waker.join();
  // Its threads end when nothing is left to do, not when an hour is over.
  auto ended = std::make_shared<std::promise<void>>();
  auto end = ended->get_future();
  std::thread([ended, runner = std::move(runner)]() mutable {
    runner.reset();
    ended->set_value();
  }).detach();
  EXPECT_EQ(end.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(WaiterTest, ExecutorIsNotDoneWhileSomebodyWaits) {
  for (int i = 0; i < 300; ++i) {
    // Gone as soon as it has nothing to do, while the other thread still ends the wait.
    auto io = std::make_unique<boost::asio::io_context>(1);
    auto waiter = std::make_shared<Waiter>();
    std::optional<Status> status;
    boost::asio::co_spawn(
        *io,
        [](std::shared_ptr<Waiter> waiter, std::optional<Status>& status, int i) -> boost::asio::awaitable<void> {
          Status woken = co_await Waiter::Wait(std::move(waiter), i % 2 ? Until::In(kHour) : Until());
          status = std::move(woken);
        }(waiter, status, i),
        boost::asio::detached);
    std::thread waker([waiter = std::move(waiter), i] {
      for (int turn = 0; turn < i % 8; ++turn) std::this_thread::yield();  // On purpose: ever later.
      waiter->Wake();
    });
    io->run();
    io.reset();
    waker.join();
    ASSERT_TRUE(status.has_value()) << "the executor ended before the wait";
    EXPECT_TRUE(*status);
  }
}

}  // namespace
}  // namespace ingot::cache
