// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace ingot::daemon {

/// Calls a function again and again on a thread of its own, first after one period, until it is destroyed.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds period, std::function<void()> tick)
      : thread_([this, period, tick = std::move(tick)](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!changed_.wait_for(lock, stop, period, [] { return false; }) && !stop.stop_requested()) tick();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // Declared last, so it ends first.
};

}  // namespace ingot::daemon
