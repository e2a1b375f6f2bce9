// SPDX-License-Identifier: Apache-2.0
#include "daemon/thread_pool.h"

#include <algorithm>

namespace ingot::daemon {

ThreadPool::ThreadPool(size_t threads, size_t queue_max) : queue_max_(queue_max) {
  for (size_t i = 0; i < std::max<size_t>(1, threads); ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

bool ThreadPool::Post(std::function<void()> task) { return Push(std::move(task), true); }
bool ThreadPool::PostAlways(std::function<void()> task) { return Push(std::move(task), false); }

bool ThreadPool::Push(std::function<void()> task, bool bounded) {
  MutexLock lock(mutex_);
  if (stopping_ || (bounded && queue_.size() >= queue_max_)) return false;
  queue_.push_back(std::move(task));
  wake_.NotifyOne();
  return true;
}

void ThreadPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::Loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace ingot::daemon
