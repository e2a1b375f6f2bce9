// SPDX-License-Identifier: Apache-2.0
#include "daemon/thread_pool.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <latch>
#include <memory>
#include <utility>

namespace ingot::daemon {

namespace asio = boost::asio;

ThreadPool::ThreadPool(size_t threads, size_t queue_max, std::function<void()> begin, asio::any_io_executor elsewhere)
    : queue_max_(queue_max), executor_(std::move(elsewhere)) {
  if (!executor_) Start(threads, std::move(begin));
}

void ThreadPool::Start(size_t threads, std::function<void()> begin) {
  threads = std::max<size_t>(1, threads);
  pool_.emplace(threads);
  executor_ = pool_->get_executor();
  if (!begin) return;
  // Each thread takes one of these, since none ends before all have begun.
  const auto all = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(threads));
  for (size_t i = 0; i < threads; ++i) {
    asio::post(*pool_, [all, begin] {
      begin();
      all->arrive_and_wait();
    });
  }
}

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
  MutexLock lock(stop_mutex_);
  stopping_ = true;
  if (pool_) pool_->join();
}

}  // namespace ingot::daemon
