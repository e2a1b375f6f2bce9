// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::cache {

struct BreakerLimits {
  /// Failures one after the other that open it.
  uint32_t failures_max = 3;
  /// Failures that come closer together than this are one: a connection that is cut ends all calls that were under
  /// way on it, and those that come before it is made anew.
  int64_t apart_ms_min = 25;
  /// How long it stays open: doubled each time that the call which tries again fails.
  int64_t pause_ms_min = 500;
  int64_t pause_ms_max = 30'000;
};

/// Keeps calls from something that does not answer: after a few failures none is let through for a while, then one,
/// and all again once that one succeeded. Time is steady. Thread-safe.
class CircuitBreaker {
 public:
  enum class State : uint8_t { kClosed, kOpen, kTrying };

  CircuitBreaker(const BreakerLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  /// False: do not call now. True must be followed by Succeeded, Failed or GaveUp.
  bool Allow() {
    MutexLock lock(mutex_);
    if (state_ == State::kClosed) return true;
    if (state_ == State::kTrying || clock_.steady_ns() < open_until_ns_) {
      ++refused_;
      return false;
    }
    state_ = State::kTrying;
    return true;
  }
  void Succeeded() {
    MutexLock lock(mutex_);
    state_ = State::kClosed;
    failures_ = 0;
    pause_ms_ = 0;
  }
  void Failed(const std::string& why) {
    MutexLock lock(mutex_);
    why_ = why;
    const int64_t now_ns = clock_.steady_ns();
    if (failures_ == 0 || now_ns - counted_ns_ >= limits_.apart_ms_min * 1'000'000) {
      ++failures_;
      counted_ns_ = now_ns;
    }
    if (state_ != State::kTrying && failures_ < limits_.failures_max) return;
    if (state_ == State::kClosed) ++opened_;
    pause_ms_ = std::clamp(pause_ms_ * 2, limits_.pause_ms_min, limits_.pause_ms_max);
    open_until_ns_ = now_ns + pause_ms_ * 1'000'000;
    state_ = State::kOpen;
  }
  /// The caller left before it was clear: another may try.
  void GaveUp() {
    MutexLock lock(mutex_);
    if (state_ == State::kTrying) state_ = State::kOpen;
  }

  struct Facts {
    State state = State::kClosed;
    uint64_t opened = 0;   ///< Times.
    uint64_t refused = 0;  ///< Calls that were not made.
    std::string why;       ///< The last failure; empty: none yet.
  };
  Facts facts() const {
    MutexLock lock(mutex_);
    return {state_, opened_, refused_, why_};
  }

 private:
  const BreakerLimits limits_;
  const Clock& clock_;
  mutable Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kClosed;
  uint32_t failures_ GUARDED_BY(mutex_) = 0;
  int64_t counted_ns_ GUARDED_BY(mutex_) = 0;  ///< When the last of them came.
  int64_t pause_ms_ GUARDED_BY(mutex_) = 0;
  int64_t open_until_ns_ GUARDED_BY(mutex_) = 0;
  uint64_t opened_ GUARDED_BY(mutex_) = 0;
  uint64_t refused_ GUARDED_BY(mutex_) = 0;
  std::string why_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
