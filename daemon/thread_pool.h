// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>

#include "base/mutex.h"

namespace ingot::daemon {

/// A few threads for work that may block: disk, import, hashing. Coroutines run on them as well and take no thread
/// while they wait. Thread-safe.
class ThreadPool {
 public:
  /// With `elsewhere` it has no threads: somebody else sees to what it is given, and Stop waits for nothing.
  ThreadPool(size_t threads, size_t queue_max, boost::asio::any_io_executor elsewhere);
  /// `nice`: by how much its threads give way to the process's other ones where processors are short.
  ThreadPool(size_t threads, size_t queue_max, int nice = 0);
  ~ThreadPool() { Stop(); }

  /// False when the queue is full or the pool stops; the task is then not run.
  bool Post(std::function<void()> task);
  /// Runs a coroutine from its first step on; false as Post.
  bool Spawn(boost::asio::awaitable<void> work);
  /// As Spawn, over the bound: for what follows from work that was admitted before.
  bool SpawnAlways(boost::asio::awaitable<void> work);
  /// Runs what is queued and waits for coroutines under way, whose waits must end; then joins. Not from a task.
  void Stop();

 private:
  void Start(size_t threads, int nice);
  bool Admit(bool bounded);
  void Launch(boost::asio::awaitable<void> work);

  const size_t queue_max_;
  std::atomic<size_t> queued_{0};
  std::atomic<bool> stopping_{false};
  Mutex stop_mutex_;
  std::optional<boost::asio::thread_pool> pool_;
  boost::asio::any_io_executor executor_;
};

}  // namespace ingot::daemon
