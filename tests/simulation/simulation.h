// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/simulation/scenario.h"

namespace ingot::simulation {

/// What a run came to. Times are virtual seconds.
struct Report {
  std::string scenario;
  Scale scale;
  uint64_t first_calls = 0, hits = 0, failed = 0;
  uint64_t keys = 0;          ///< That anybody compiled.
  uint64_t keys_unfinished = 0;  ///< Begun by somebody and finished by nobody.
  uint64_t compiles = 0;      ///< Begun, those that died with their machine included.
  uint64_t killed = 0;
  uint64_t compiles_max = 0;  ///< Of one key.
  double compile_s = 0;       ///< Spent in compiling by all.
  std::map<std::string, uint64_t> again;  ///< Compiles of keys that were compiled already, by cause.
  uint64_t takeovers = 0, waiters_max = 0;
  std::vector<float> added_s, ready_s;    ///< In order.
  uint64_t index_calls = 0;
  std::vector<uint32_t> index_calls_by_s;
  uint64_t index_calls_by_s_max = 0;
  uint64_t blob_reads = 0, blob_writes = 0, blob_bytes_read = 0, blob_bytes_written = 0;
  uint64_t refused = 0, errors = 0, waits = 0;
  uint64_t events = 0;
  double end_s = 0;

  double compiles_a_key() const { return keys == 0 ? 0 : static_cast<double>(compiles) / static_cast<double>(keys); }
};

/// The value below which so large a part of an ordered list is; 0 for an empty one.
float Percentile(const std::vector<float>& ordered, double part);

/// Runs one scenario. Equal arguments give equal reports. kUnavailable: no scratch directory for a trust file.
Result<Report> Simulate(const Scenario& scenario, const Scale& scale);

}  // namespace ingot::simulation
