// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <stop_token>

#include "base/result.h"
#include "base/steady_time.h"

namespace ingot {

/// How long somebody waits for an answer: until a point in time, or until nobody wants it any more.
///
/// Every call that may take longer than memory does is given one, and hands it on to the calls it makes: what is
/// left of the time is left to all of them together. A value; cheap to copy.
struct Until {
  SteadyTime time = SteadyTime::max();
  std::stop_token stop;

  /// For work that nobody waits for and that bounds itself. Say so where it is used.
  static Until Done() { return {}; }
  static Until In(std::chrono::nanoseconds left, std::stop_token stop = {}) {
    return {SteadyNow() + left, std::move(stop)};
  }
  /// The sooner of this and `left` from now, for a step that must not use up all the time.
  Until AtMost(std::chrono::nanoseconds left) const { return {std::min(time, SteadyNow() + left), stop}; }
  /// What is left; zero when nothing is.
  std::chrono::nanoseconds Left() const {
    if (time == SteadyTime::max()) return std::chrono::nanoseconds::max();
    return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(time - SteadyNow()));
  }
  /// kCancelled: nobody wants the answer; kTimeout: the time is over; success: go on.
  Status Check() const {
    if (stop.stop_requested()) return Error(Code::kCancelled, "nobody waits for the answer any more");
    if (time != SteadyTime::max() && SteadyNow() >= time) {
      return Error(Code::kTimeout, "no answer before the deadline");
    }
    return {};
  }
};

}  // namespace ingot
