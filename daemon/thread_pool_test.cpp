// SPDX-License-Identifier: Apache-2.0
#include "daemon/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "base/priority.h"

namespace ingot::daemon {
namespace {

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
  EXPECT_GT(ran, 0);
  EXPECT_FALSE(pool.Post([&] { ++ran; }));
  pool.Stop();
}

}  // namespace
}  // namespace ingot::daemon
