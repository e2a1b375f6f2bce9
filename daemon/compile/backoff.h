// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace ingot::daemon {

/// How long to wait before something that failed is tried again: not at all after the first failure in a row, then
/// longer each time, up to a limit. Belongs to one lock.
class Backoff {
 public:
  static constexpr uint64_t kFirstMs = 100;

  Backoff(const Clock& clock, uint64_t ms_max) : clock_(clock), ms_max_(ms_max) {}

  void Failed() {
    ++failures_;
    uint64_t pause_ms = 0;
    if (failures_ > 1) pause_ms = std::min(kFirstMs << std::min<uint64_t>(failures_ - 2, 32), ms_max_);
    until_ns_ = clock_.steady_ns() + static_cast<int64_t>(pause_ms) * 1'000'000;
  }
  void Succeeded() {
    failures_ = 0;
    until_ns_ = 0;
  }
  /// Failures since the last success.
  uint64_t failures() const { return failures_; }
  /// Milliseconds, rounded up, before the next attempt; 0 when it may come now.
  uint64_t wait_ms() const {
    if (failures_ == 0) return 0;
    const int64_t left_ns = until_ns_ - clock_.steady_ns();
    return left_ns <= 0 ? 0 : static_cast<uint64_t>((left_ns + 999'999) / 1'000'000);
  }

 private:
  const Clock& clock_;
  const uint64_t ms_max_;
  uint64_t failures_ = 0;
  int64_t until_ns_ = 0;
};

}  // namespace ingot::daemon
