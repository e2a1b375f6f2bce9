// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ingot::client {

/// Calls of this process that native code does not serve, on all threads: while one is under way, or has just ended,
/// the program is busy with what has not been compiled yet.
class UnservedCall {
 public:
  UnservedCall() { open_.fetch_add(1, std::memory_order_relaxed); }
  UnservedCall(const UnservedCall&) = delete;
  UnservedCall& operator=(const UnservedCall&) = delete;
  ~UnservedCall() {
    ended_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    open_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// How long none has been under way; zero while one is.
  static std::chrono::nanoseconds Pause() {
    if (open_.load(std::memory_order_relaxed) > 0) return {};
    return Clock::now() - Clock::time_point(Clock::duration(ended_.load(std::memory_order_relaxed)));
  }
  /// In a child process: those of other threads do not end there.
  static void Forget() { open_.store(0, std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  static inline std::atomic<int64_t> open_{0};
  static inline std::atomic<Clock::rep> ended_{0};
};

}  // namespace ingot::client
