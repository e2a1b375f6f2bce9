// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <chrono>

namespace ingot {
namespace {

class RealClock final : public Clock {
 public:
  int64_t now_s() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  }
  int64_t steady_ns() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
};

}  // namespace

const Clock& SystemClock() {
  static const RealClock clock;
  return clock;
}

}  // namespace ingot
