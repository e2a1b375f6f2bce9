// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "base/priority.h"
#include "cache/async/waiter.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

int PriorityHere() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

int PriorityIn(ThreadPool& pool) {
  std::promise<int> priority;
  EXPECT_TRUE(pool.Post([&] { priority.set_value(PriorityHere()); }));
  return priority.get_future().get();
}

TEST(ThreadPool, GivesWayByAsMuchAsItIsTold) {
  ThreadPool pool(1, 8);
  ThreadPool niced(1, 8, [] { GiveWay(7); });
  EXPECT_EQ(PriorityIn(pool), PriorityHere());
  EXPECT_EQ(PriorityIn(niced), std::min(19, PriorityHere() + 7));
}

TEST(ThreadPool, RunsWhatIsQueuedBeforeItStops) {
  std::atomic<int> ran{0};
  ThreadPool pool(2, 100);
  for (int i = 0; i < 100; ++i) pool.Post([&] { ++ran; });
  pool.Stop();
  EXPECT_EQ(ran, 100);
  EXPECT_FALSE(pool.Post([&] { ++ran; }));
  pool.Stop();
}

TEST(ThreadPool, TasksOfOneThreadRunInTheOrderOfTheirPosts) {
  constexpr int kTasks = 1000;
  std::vector<int> order;
  ThreadPool pool(1, kTasks);
  for (int i = 0; i < kTasks; ++i) pool.Post([&order, i] { order.push_back(i); });
  pool.Stop();
  ASSERT_EQ(order.size(), kTasks);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

/// Each task needs all the others under way: no wake-up may be lost, however the posts fall together.
TEST(ThreadPool, AsManyTasksRunAtOnceAsItHasThreads) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads, 100);
  for (int round = 0; round < 300; ++round) {
    std::latch all(kThreads);
    std::latch done(kThreads);
    std::vector<std::thread> posting;
    for (int i = 0; i < kThreads; ++i) {
      posting.emplace_back([&] {
        pool.Post([&] {
          all.arrive_and_wait();
          done.count_down();
        });
      });
    }
    for (std::thread& one : posting) one.join();
    done.wait();
  }
}

TEST(ThreadPool, RefusesWhatIsMoreThanItsQueueHolds) {
  ThreadPool pool(1, 2);
  std::promise<void> begun;
  std::promise<void> go;
  ASSERT_TRUE(pool.Post([&] {
    begun.set_value();
    go.get_future().wait();
  }));
  begun.get_future().wait();
  std::atomic<int> ran{0};
  const auto count = [&ran]() -> asio::awaitable<void> {
    ++ran;
    co_return;
  };
  EXPECT_TRUE(pool.Post([&] { ++ran; }));
  EXPECT_TRUE(pool.Spawn(count()));
  EXPECT_FALSE(pool.Post([&] { ++ran; }));
  EXPECT_FALSE(pool.Spawn(count()));
  EXPECT_TRUE(pool.SpawnAlways(count()));
  go.set_value();
  pool.Stop();
  EXPECT_EQ(ran, 3);
}

/// Threads that coroutines ran on, in turn.
class Trace {
 public:
  void Here() {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::this_thread::get_id());
  }
  const std::vector<std::thread::id>& threads() const { return threads_; }

 private:
  std::mutex mutex_;
  std::vector<std::thread::id> threads_;
};

TEST(ThreadPool, CoroutinesGoOnInItAfterTimersAndWaiters) {
  ThreadPool pool(1, 10);
  Trace trace;
  const auto waiter = std::make_shared<cache::Waiter>();
  const auto work = [&]() -> asio::awaitable<void> {
    trace.Here();
    asio::steady_timer timer(co_await asio::this_coro::executor, milliseconds(5));
    co_await timer.async_wait(asio::use_awaitable);
    trace.Here();
    const Status woken = co_await cache::Waiter::Wait(waiter, Until());
    EXPECT_TRUE(woken);
    trace.Here();
    const Status late = co_await cache::Waiter::Wait(std::make_shared<cache::Waiter>(), Until::In(milliseconds(5)));
    EXPECT_FALSE(late);
    trace.Here();
  };
  pool.Post([&] { trace.Here(); });
  ASSERT_TRUE(pool.Spawn(work()));
  waiter->Wake();
  pool.Stop();
  ASSERT_EQ(trace.threads().size(), 5u);
  for (const std::thread::id thread : trace.threads()) EXPECT_EQ(thread, trace.threads().front());
  EXPECT_NE(trace.threads().front(), std::this_thread::get_id());
}

TEST(ThreadPool, StopWaitsForCoroutinesThatWait) {
  const auto waiter = std::make_shared<cache::Waiter>();
  std::atomic<bool> ended{false};
  ThreadPool pool(2, 10);
  const auto work = [&]() -> asio::awaitable<void> {
    const Status woken = co_await cache::Waiter::Wait(waiter, Until());
    EXPECT_TRUE(woken);
    ended = true;
  };
  ASSERT_TRUE(pool.Spawn(work()));
  std::thread waking([&] {
    // It takes nothing any more once it is told to end.
    EXPECT_TRUE(support::Eventually([&] { return !pool.Post([] {}); }));
    waiter->Wake();
  });
  pool.Stop();
  EXPECT_TRUE(ended);
  waking.join();
}

TEST(ThreadPool, DispatchRunsAtOnceAndPostLater) {
  ThreadPool pool(1, 10);
  std::vector<int> order;
  const auto work = [&]() -> asio::awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::post(executor, [&] { order.push_back(3); });
    asio::dispatch(executor, [&] { order.push_back(1); });
    order.push_back(2);
  };
  ASSERT_TRUE(pool.Spawn(work()));
  pool.Stop();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace ingot::daemon
