// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/thread_pool.h"

#include <semaphore.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "daemon/state/task_stack.h"

namespace ingot::daemon {

namespace asio = boost::asio;

/// Runs tasks, in the order of their posts, until it is told to end and no work is left.
class ThreadPool::Threads {
 public:
  Threads(size_t count, const std::function<void()>& begin) : count_(count), timers_work_(timers_.get_executor()) {
    sem_init(&ready_, 0, 0);
    const auto run = [this, begin](void (Threads::*what)()) {
      return std::thread([this, begin, what] {
        if (begin) begin();
        (this->*what)();
      });
    };
    timers_thread_ = run(&Threads::RunTimers);
    while (threads_.size() < count_) threads_.push_back(run(&Threads::RunTasks));
  }
  ~Threads() {
    Stop();
    sem_destroy(&ready_);
  }

  void Post(TaskStack::TaskRef task) {
    Hold();
    given_.Push(std::move(task));
    sem_post(&ready_);
  }
  bool IsHere() const { return here_ == this; }
  /// Timers and the like of those that run here: they wait in a context of their own.
  asio::io_context& context() { return timers_; }

  /// Work that is under way and may post more.
  void Hold() { ++work_; }
  void Release() {
    if (--work_ != 0) return;
    // Each thread takes one of these for its end.
    for (size_t left = count_; left > 0; --left) sem_post(&ready_);
  }

  void Stop() {
    MutexLock lock(stop_mutex_);
    if (std::exchange(is_stopped_, true)) return;
    Release();
    for (std::thread& thread : threads_) thread.join();
    timers_work_.reset();
    timers_.stop();
    timers_thread_.join();
  }

 private:
  void RunTimers() { timers_.run(); }

  void RunTasks() {
    here_ = this;
    while (true) {
      while (sem_wait(&ready_) != 0 && errno == EINTR) {
      }
      const TaskStack::TaskRef task = Next();
      // Each task is given before it is said to be ready: what is ready and no task is the end.
      if (task == nullptr) return;
      task->Run();
      Release();
    }
  }

  TaskStack::TaskRef Next() {
    MutexLock lock(take_mutex_);
    if (taken_ == nullptr) taken_ = given_.TakeAll();
    return taken_ == nullptr ? nullptr : TaskStack::TakeFirst(taken_);
  }

  static thread_local const Threads* here_;

  const size_t count_;
  TaskStack given_;
  /// How many tasks nobody has taken. Of POSIX: libstdc++ 12 wakes nobody for what comes while it is not zero.
  sem_t ready_;
  /// Tasks, those that hold, and ourselves until we are told to end.
  std::atomic<size_t> work_{1};
  /// Only of those that take.
  Mutex take_mutex_;
  TaskStack::Task* taken_ GUARDED_BY(take_mutex_) = nullptr;
  Mutex stop_mutex_;
  bool is_stopped_ GUARDED_BY(stop_mutex_) = false;
  asio::io_context timers_{1};
  asio::executor_work_guard<asio::io_context::executor_type> timers_work_;
  std::thread timers_thread_;
  std::vector<std::thread> threads_;
};

thread_local const ThreadPool::Threads* ThreadPool::Threads::here_ = nullptr;

/// The threads as asio asks for them (its `executor` concept, with the properties of its own contexts).
class ThreadPool::Executor {
 public:
  explicit Executor(Threads& threads) : Executor(threads, true, false) {}
  Executor(const Executor& other) noexcept : Executor(*other.threads_, other.may_run_here_, other.is_tracked_) {}
  Executor& operator=(const Executor&) = delete;
  ~Executor() {
    if (is_tracked_) threads_->Release();
  }

  asio::execution_context& query(asio::execution::context_t) const noexcept { return threads_->context(); }
  asio::execution::blocking_t query(asio::execution::blocking_t) const noexcept {
    return may_run_here_ ? asio::execution::blocking_t(asio::execution::blocking.possibly)
                         : asio::execution::blocking_t(asio::execution::blocking.never);
  }
  asio::execution::outstanding_work_t query(asio::execution::outstanding_work_t) const noexcept {
    return is_tracked_ ? asio::execution::outstanding_work_t(asio::execution::outstanding_work.tracked)
                       : asio::execution::outstanding_work_t(asio::execution::outstanding_work.untracked);
  }
  Executor require(asio::execution::blocking_t::possibly_t) const noexcept { return {*threads_, true, is_tracked_}; }
  Executor require(asio::execution::blocking_t::never_t) const noexcept { return {*threads_, false, is_tracked_}; }
  Executor require(asio::execution::outstanding_work_t::tracked_t) const noexcept {
    return {*threads_, may_run_here_, true};
  }
  Executor require(asio::execution::outstanding_work_t::untracked_t) const noexcept {
    return {*threads_, may_run_here_, false};
  }

  template <typename Call>
  void execute(Call&& call) const {
    if (!may_run_here_ || !threads_->IsHere()) return threads_->Post(TaskStack::TaskOf(std::forward<Call>(call)));
    // One of its own: what it is called with may end while it runs.
    std::decay_t<Call> kept(std::forward<Call>(call));
    kept();
  }

  bool operator==(const Executor& other) const noexcept {
    return threads_ == other.threads_ && may_run_here_ == other.may_run_here_ && is_tracked_ == other.is_tracked_;
  }
  bool operator!=(const Executor& other) const noexcept { return !(*this == other); }

 private:
  Executor(Threads& threads, bool may_run_here, bool is_tracked) noexcept
      : threads_(&threads), may_run_here_(may_run_here), is_tracked_(is_tracked) {
    if (is_tracked_) threads_->Hold();
  }

  Threads* const threads_;
  const bool may_run_here_;
  const bool is_tracked_;
};

ThreadPool::ThreadPool(size_t threads, size_t queue_max, std::function<void()> begin, asio::any_io_executor elsewhere)
    : queue_max_(queue_max), executor_(std::move(elsewhere)) {
  if (executor_) return;
  threads_ = std::make_unique<Threads>(std::max<size_t>(1, threads), begin);
  executor_ = Executor(*threads_);
}

ThreadPool::~ThreadPool() { Stop(); }

bool ThreadPool::Admit(bool bounded) {
  if (stopping_) return false;
  if (queued_.fetch_add(1) < queue_max_ || !bounded) return true;
  --queued_;
  return false;
}

bool ThreadPool::Post(std::function<void()> task) {
  if (!Admit(true)) return false;
  asio::post(executor_, [this, task = std::move(task)] {
    --queued_;
    task();
  });
  return true;
}

void ThreadPool::Launch(asio::awaitable<void> work) {
  const auto started = [](ThreadPool* pool, asio::awaitable<void> work) -> asio::awaitable<void> {
    --pool->queued_;
    co_await std::move(work);
  };
  // What is thrown here (no memory) has no one to hear it; it ends the process as anywhere else.
  asio::co_spawn(executor_, started(this, std::move(work)), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

bool ThreadPool::Spawn(asio::awaitable<void> work) {
  if (!Admit(true)) return false;
  Launch(std::move(work));
  return true;
}

bool ThreadPool::SpawnAlways(asio::awaitable<void> work) {
  if (!Admit(false)) return false;
  Launch(std::move(work));
  return true;
}

void ThreadPool::Stop() {
  stopping_ = true;
  if (threads_) threads_->Stop();
}

}  // namespace ingot::daemon
