// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/intra_op_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace ingot::client {
namespace {

using Pool = IntraOpPool;

/// Counts how often each row was computed.
struct Rows {
  explicit Rows(int64_t count) : times(static_cast<size_t>(count)) {}
  static void Compute(void* state, int64_t begin, int64_t end, int) {
    auto& rows = *static_cast<Rows*>(state);
    for (int64_t row = begin; row < end; ++row) rows.times[static_cast<size_t>(row)].fetch_add(1);
  }
  bool EachOnce() const {
    return std::ranges::all_of(times, [](const auto& n) { return n.load() == 1; });
  }
  std::vector<std::atomic<int>> times;
};

/// Pieces wait here until two threads have one: a pool that nobody wakes would never end.
class Meeting {
 public:
  void Join(int seat) {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        seats_.insert(seat);
        if (seats_.size() > 1) return;
      }
      std::this_thread::yield();  // On purpose: until there are two.
    }
  }
  void Forget() { seats_.clear(); }

 private:
  std::mutex mutex_;
  std::set<int> seats_;
};

TEST(IntraOpPool, ComputesEachRowOnce) {
  Pool pool;
  for (int threads = 1; threads <= 9; ++threads) {
    for (const int64_t count : {1, 2, 3, 7, 64, 1000, 4097}) {
      for (const int64_t grain : {1, 2, 5, 100, 5000}) {
        Rows rows(count);
        Pool::Call call(pool);
        call.Run(count, grain, threads, Pool::kThreadsMax, Rows::Compute, &rows);
        EXPECT_TRUE(rows.EachOnce()) << threads << " threads, " << count << " rows by " << grain;
      }
    }
  }
  EXPECT_LE(pool.started(), 8);
}

TEST(IntraOpPool, TakesRowsBeyondWhatATicketCounts) {
  Pool pool;
  const int64_t count = (int64_t{1} << 40) + 12345;
  struct Sum {
    std::atomic<int64_t> rows = 0, last = 0;
  } sum;
  const auto body = [](void* state, int64_t begin, int64_t end, int) {
    auto& of = *static_cast<Sum*>(state);
    of.rows += end - begin;
    if (end == (int64_t{1} << 40) + 12345) of.last += 1;
  };
  Pool::Call call(pool);
  call.Run(count, 1, 4, Pool::kThreadsMax, body, &sum);
  EXPECT_EQ(sum.rows, count);
  EXPECT_EQ(sum.last, 1);
}

TEST(IntraOpPool, GivesEachThreadASeatOfItsOwnBelowTheLimit) {
  Pool pool;
  for (const int seats : {1, 2, 3, 8}) {
    struct Seats {
      int limit;
      std::vector<std::atomic<bool>> taken = std::vector<std::atomic<bool>>(16);
      std::atomic<bool> is_shared = false, is_beyond = false;
    } state{seats};
    const auto body = [](void* given, int64_t, int64_t, int seat) {
      auto& of = *static_cast<Seats*>(given);
      if (seat >= of.limit) of.is_beyond = true;
      if (of.taken[static_cast<size_t>(seat)].exchange(true)) of.is_shared = true;
      std::this_thread::yield();  // On purpose: pieces meet, whatever the scheduler does.
      of.taken[static_cast<size_t>(seat)] = false;
    };
    Pool::Call call(pool);
    for (int i = 0; i < 200; ++i) call.Run(64, 1, 6, seats, body, &state);
    EXPECT_FALSE(state.is_shared) << seats;
    EXPECT_FALSE(state.is_beyond) << seats;
  }
}

// A thread of the pool that holds a piece of one call keeps nobody else waiting, and the piece alone keeps its own.
TEST(IntraOpPool, WaitsForNobodyWhoHasNotBegun) {
  Pool pool;
  struct Stuck {
    std::promise<void> begun;
    std::atomic<bool> is_told = false;
    std::atomic<bool> may_end = false;
    std::atomic<int64_t> rows = 0;
  } stuck;
  const auto hold = [](void* given, int64_t begin, int64_t end, int seat) {
    auto& of = *static_cast<Stuck*>(given);
    if (seat != 0 && !of.is_told.exchange(true)) {
      of.begun.set_value();
      while (!of.may_end) std::this_thread::yield();  // On purpose: pieces meet, whatever the scheduler does.
    }
    // The caller leaves something until somebody has taken a piece.
    while (seat == 0 && !of.is_told)
      std::this_thread::yield();  // On purpose: pieces meet, whatever the scheduler does.
    of.rows += end - begin;
  };
  std::thread first([&] {
    Pool::Call call(pool);
    call.Run(100, 1, 2, Pool::kThreadsMax, hold, &stuck);
  });
  stuck.begun.get_future().wait();
  // The pool's one thread is held; another call is done by whoever makes it.
  Rows rows(1000);
  {
    Pool::Call call(pool);
    call.Run(1000, 1, 2, 2, Rows::Compute, &rows);
  }
  EXPECT_TRUE(rows.EachOnce());
  stuck.may_end = true;
  first.join();
  EXPECT_EQ(stuck.rows, 100);
}

TEST(IntraOpPool, ServesManyCallersAtOnce) {
  Pool pool;
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  // More than there are teams.
  for (unsigned seed = 0; seed < 80; ++seed) {
    callers.emplace_back([&, seed] {
      std::minstd_rand random(seed);
      for (int i = 0; i < 5; ++i) {
        Pool::Call call(pool);
        for (int launch = 0; launch < 5; ++launch) {
          Rows rows(1 + static_cast<int64_t>(random() % 300));
          const int threads = 1 + static_cast<int>(random() % 5);
          call.Run(static_cast<int64_t>(rows.times.size()), 1 + static_cast<int64_t>(random() % 9), threads,
                   1 + static_cast<int>(random() % 6), Rows::Compute, &rows);
          if (!rows.EachOnce()) ++wrong;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(IntraOpPool, WakesThreadsThatSleep) {
  Pool pool;
  Meeting meeting;
  const auto body = [](void* given, int64_t, int64_t, int seat) { static_cast<Meeting*>(given)->Join(seat); };
  for (int i = 0; i < 20; ++i) {
    meeting.Forget();
    Pool::Call call(pool);
    call.Run(2, 1, 2, 2, body, &meeting);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // On purpose: until they sleep.
  }
  EXPECT_EQ(pool.started(), 1);
}

TEST(IntraOpPool, DoesWithoutThreadsThatCannotBeMade) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  // No address space has room for its stack.
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 48), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  Pool pool;
  for (int i = 0; i < 100; ++i) {
    Rows rows(100);
    Pool::Call(pool).Run(100, 1, 4, 4, Rows::Compute, &rows);
    EXPECT_TRUE(rows.EachOnce());
  }
  EXPECT_EQ(pool.started(), 0);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
  // It is tried again.
  EXPECT_TRUE(support::Eventually([&pool] {
    Rows rows(100);
    Pool::Call(pool).Run(100, 1, 4, 4, Rows::Compute, &rows);
    EXPECT_TRUE(rows.EachOnce());
    return pool.started() == 3;
  }));
}

TEST(IntraOpPool, ThreadsRoundAsTheirCallerDoes) {
  Pool pool;
  struct Modes {
    int expected;
    std::atomic<int> others = 0;
    Meeting meeting;
  } modes{FE_UPWARD};
  const auto body = [](void* given, int64_t, int64_t, int seat) {
    auto& of = *static_cast<Modes*>(given);
    const volatile float one = 1, little = 1e-30f;
    const volatile float sum = one + little;
    if ((sum > 1) != (of.expected == FE_UPWARD)) ++of.others;
    of.meeting.Join(seat);
  };
  for (const int mode : {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD, FE_TONEAREST}) {
    fesetround(mode);
    modes.expected = mode;
    modes.meeting.Forget();
    Pool::Call call(pool);
    call.Run(2, 1, 2, 2, body, &modes);
    fesetround(FE_TONEAREST);
    EXPECT_EQ(modes.others, 0) << mode;
  }
}

// What follows the threads of a program follows none into a child that makes some itself.
#if defined(__SANITIZE_THREAD__)
#define INGOT_FOLLOWS_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define INGOT_FOLLOWS_THREADS 1
#endif
#endif
#ifndef INGOT_FOLLOWS_THREADS
TEST(IntraOpPool, IsAnotherOneInAChildOfFork) {
  Rows before(1000);
  Pool::Call call(Pool::Instance());
  call.Run(1000, 1, 3, Pool::kThreadsMax, Rows::Compute, &before);
  EXPECT_TRUE(before.EachOnce());
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    // A call that was under way goes on, and new ones have threads of their own.
    Rows under_way(1000), fresh(1000);
    call.Run(1000, 1, 3, Pool::kThreadsMax, Rows::Compute, &under_way);
    Pool::Call another(Pool::Instance());
    another.Run(1000, 1, 3, Pool::kThreadsMax, Rows::Compute, &fresh);
    _exit(under_way.EachOnce() && fresh.EachOnce() && Pool::Instance().started() > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Rows after(1000);
  call.Run(1000, 1, 3, Pool::kThreadsMax, Rows::Compute, &after);
  EXPECT_TRUE(after.EachOnce());
}
#endif

}  // namespace
}  // namespace ingot::client
