// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ingot::daemon {

/// A few threads for work that may block: disk, import, hashing. Thread-safe.
class ThreadPool {
 public:
  ThreadPool(size_t threads, size_t queue_max);
  ~ThreadPool() { Stop(); }

  /// False when the queue is full or the pool stops; the task is then not run.
  bool Post(std::function<void()> task);
  /// As Post, over the bound: for the second half of work that was admitted before.
  bool PostAlways(std::function<void()> task);
  /// Runs what is queued, then joins. Not from a task.
  void Stop();

 private:
  bool Push(std::function<void()> task, bool bounded);
  void Loop();

  const size_t queue_max_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace ingot::daemon
