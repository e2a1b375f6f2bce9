// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/until.h"
#include "cache/async/task.h"

namespace ingot::support {

/// Threads on which a test's coroutines run.
class Runner {
 public:
  explicit Runner(size_t threads = 2) : pool_(threads) {}
  ~Runner() { pool_.join(); }

  template <typename T>
  std::future<Result<T>> Go(cache::Task<T> task) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    boost::asio::co_spawn(pool_, Keep(std::move(task), promise), boost::asio::detached);
    return promise->get_future();
  }
  template <typename T>
  Result<T> Await(cache::Task<T> task) {
    return Go(std::move(task)).get();
  }
  boost::asio::thread_pool& pool() { return pool_; }

 private:
  template <typename T>
  static boost::asio::awaitable<void> Keep(cache::Task<T> task, std::shared_ptr<std::promise<Result<T>>> promise) {
    promise->set_value(co_await std::move(task));
  }

  boost::asio::thread_pool pool_;
};

/// An io_context and the thread that runs it.
class IoThread {
 public:
  IoThread() : thread_([this] { io_.run(); }) {}
  /// What still waits is dropped.
  ~IoThread() { Stop(); }
  /// Nothing runs any more after it.
  void Stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  boost::asio::io_context& io() { return io_; }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

/// Long enough for whatever should happen, on a machine that does other things too.
inline Until Patient(std::stop_token stop = {}) { return Until::In(std::chrono::seconds(60), std::move(stop)); }

}  // namespace ingot::support
