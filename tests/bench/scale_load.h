// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/bench/scale_store.h"

namespace ingot::bench {

/// Clients that look up one key after another: each asks, reads the whole answer with its files, thinks, asks again.
struct Load {
  std::string socket;
  size_t clients = 64;
  /// Thinks evenly long between these; both zero: asks again at once.
  std::chrono::microseconds think_min{1000}, think_max{5000};
  /// Of a hundred look-ups so many ask for any entry of the population, others for one of the first `hot`.
  uint64_t cold_percent = 5;
  uint64_t hot = 400;
  std::chrono::milliseconds time{10'000};
};

struct LoadResult {
  std::vector<float> hot_us, cold_us;  ///< Of every look-up, from its send to the last byte of its answer.
  uint64_t found = 0, missed = 0, refused = 0;
  std::string refusal;  ///< What the first of them said.
  double seconds = 0;
  /// p99 of the second that had the least: what others on the machine disturbed least.
  double quiet_p99_us = 0;

  std::vector<float> all_us() const;
};

/// One thread serves all clients. An error: a connection could not be made or was lost.
Result<LoadResult> Run(const Load& load, const Population& population);

/// The value below which `percent` of a hundred are.
double Percentile(std::vector<float> values, double percent);
/// "p50 12.3 us, p99 80.1 us, p99.9 ..., max ..., N"
std::string Describe(const std::vector<float>& values);

/// Connects, says hello, looks one key up, closes; without a thread or a library in between.
Status RunSession(const std::string& socket, const Population& population, uint64_t number);

}  // namespace ingot::bench
