// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <random>

namespace ingot::cache {

/// What Jittered draws from on this thread; a simulation gives it a seed.
inline std::minstd_rand& JitterSource() {
  static thread_local std::minstd_rand random(std::random_device{}());
  return random;
}

/// Half to all of a time, at random: those who wait for one thing do not all ask at one moment.
inline std::chrono::nanoseconds Jittered(std::chrono::nanoseconds time) {
  return time / 100 * std::uniform_int_distribution<int>(50, 100)(JitterSource());
}

}  // namespace ingot::cache
