// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace ingot::proto {

/// The moment at which a wait gives up: a point in time, so that a peer who sends or takes a byte now and then does not
/// put it off. There is no default: whoever waits says for how long.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline AfterMs(uint64_t ms) {
    // Beyond any machine's life, and below what the clock can count.
    constexpr uint64_t kMsMax = 1ull << 40;
    return Deadline(Clock::now() + std::chrono::milliseconds(std::min(ms, kMsMax)));
  }
  static Deadline AfterS(uint64_t s) { return AfterMs(std::min<uint64_t>(s, 1ull << 30) * 1000); }
  static Deadline At(Clock::time_point at) { return Deadline(at); }
  /// Waits as long as the peer lives: only where its end is the end of whoever waits.
  static Deadline Never() { return Deadline(Clock::time_point::max()); }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }
  /// What poll() wants: milliseconds left, rounded up; 0 once passed, -1 for Never.
  int poll_ms() const {
    if (is_never()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace ingot::proto
