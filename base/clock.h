// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot {

/// Where time comes from, so that tests decide what time it is. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Unix seconds; may jump when somebody sets the machine's clock.
  virtual int64_t now_s() const = 0;
  /// Nanoseconds from an arbitrary start; never goes back.
  virtual int64_t steady_ns() const = 0;
};

/// The machine's clock; lives for ever.
const Clock& SystemClock();

}  // namespace ingot
