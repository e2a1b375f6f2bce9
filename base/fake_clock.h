// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/clock.h"

namespace ingot {

/// A Clock that stands still until a test moves it. Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(int64_t now_s = 1'700'000'000) : start_s_(now_s) {}

  int64_t now_s() const override { return start_s_ + steady_ns() / 1'000'000'000; }
  int64_t steady_ns() const override { return passed_ns_.load(std::memory_order_relaxed); }
  void AdvanceSeconds(int64_t seconds) { AdvanceNs(seconds * 1'000'000'000); }
  void AdvanceNs(int64_t ns) { passed_ns_.fetch_add(ns, std::memory_order_relaxed); }

 private:
  const int64_t start_s_;
  std::atomic<int64_t> passed_ns_{0};
};

}  // namespace ingot
