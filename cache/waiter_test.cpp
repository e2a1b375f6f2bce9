// SPDX-License-Identifier: Apache-2.0
#include "cache/waiter.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>

namespace ingot::cache {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> WaitFor(WaiterRef waiter, Until until, Code* code) {
  Status waited = co_await Waiter::Wait(std::move(waiter), std::move(until));
  *code = waited ? Code::kInternal : waited.error().code();  // kInternal: woken.
}

/// Whenever the wake comes, the wait ends with it: no timer holds the executor, nothing is freed twice.
TEST(WaiterTest, AWakeAtAnyMomentEndsTheWait) {
  for (int round = 0; round < 2000; ++round) {
    asio::thread_pool pool(2);
    const auto waiter = std::make_shared<Waiter>();
    Code code = Code::kInvalid;
    asio::co_spawn(pool, WaitFor(waiter, Until::In(std::chrono::hours(1)), &code), asio::detached);
    std::thread waker([&] {
      for (int turn = 0; turn < round % 64; ++turn) std::this_thread::yield();
      waiter->Wake();
    });
    waker.join();
    pool.join();
    ASSERT_EQ(code, Code::kInternal);
    ASSERT_EQ(waiter.use_count(), 1);
  }
}

TEST(WaiterTest, EndsOnceByWhatComesFirst) {
  asio::io_context io;
  const auto early = std::make_shared<Waiter>();
  early->Wake();
  Code woken = Code::kInvalid;
  Code late = Code::kInvalid;
  Code stopped = Code::kInvalid;
  std::stop_source stop;
  asio::co_spawn(io, WaitFor(early, Until::In(std::chrono::hours(1)), &woken), asio::detached);
  asio::co_spawn(io, WaitFor(std::make_shared<Waiter>(), Until::In(std::chrono::milliseconds(5)), &late),
                 asio::detached);
  asio::co_spawn(io, WaitFor(std::make_shared<Waiter>(), {SteadyTime::max(), stop.get_token()}, &stopped),
                 asio::detached);
  std::thread stopper([&] { stop.request_stop(); });
  io.run();
  stopper.join();
  EXPECT_EQ(woken, Code::kInternal);
  EXPECT_EQ(late, Code::kTimeout);
  EXPECT_EQ(stopped, Code::kCancelled);
}

}  // namespace
}  // namespace ingot::cache
