// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ingot::compiler {

/// Seconds since it was made.
class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace ingot::compiler
