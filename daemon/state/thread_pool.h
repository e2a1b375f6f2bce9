// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

namespace ingot::daemon {

/// A few threads for work that may block: disk, import, hashing. Coroutines run on them as well and take no thread
/// while they wait. Thread-safe.
///
/// Not asio's: that one holds a lock while it wakes a thread, and wakes by a condition variable, where glibc before
/// 2.41 has the waker wait for those woken before that have no processor yet. Here whoever gives work waits for nobody,
/// and a task wakes one thread.
class ThreadPool {
 public:
  /// `begin`, if there is one, is what each thread does first: it says how it is to be scheduled (priority.h). With
  /// `elsewhere` it has no threads: somebody else sees to what it is given, and Stop waits for nothing.
  ThreadPool(size_t threads, size_t queue_max, std::function<void()> begin = {},
             boost::asio::any_io_executor elsewhere = {});
  ~ThreadPool();

  /// False when the queue is full or the pool stops; the task is then not run.
  bool Post(std::function<void()> task);
  /// Runs a coroutine from its first step on; false as Post.
  bool Spawn(boost::asio::awaitable<void> work);
  /// As Spawn, over the bound: for what follows from work that was admitted before.
  bool SpawnAlways(boost::asio::awaitable<void> work);
  /// Runs what is queued and waits for coroutines under way, whose waits must end; then joins. Not from a task.
  void Stop();

 private:
  class Threads;
  class Executor;

  bool Admit(bool bounded);
  void Launch(boost::asio::awaitable<void> work);

  const size_t queue_max_;
  std::atomic<size_t> queued_{0};
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Threads> threads_;
  boost::asio::any_io_executor executor_;
};

}  // namespace ingot::daemon
