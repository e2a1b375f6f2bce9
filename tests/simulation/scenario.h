// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot::simulation {

/// What a run is about. Times are seconds from its beginning; shares are from 0 to 1.
struct Scenario {
  const char* name;
  const char* meaning;

  /// Nodes begin over so long; then each restarts once, in so many waves that come so often, with keys of which a
  /// share is new. 0 waves: none restarts.
  double start_s = 60;
  size_t waves = 0;
  double wave_gap_s = 60;
  double wave_start_s = 10;
  double first_wave_s = 600;
  double keys_new = 0.5;
  /// Of stores that are there after a restart.
  double stores_kept = 0.5;

  /// When the server of the index is lost, and is back with nothing in it.
  double lost_s = 1e9, back_s = 1e9;
  /// Its calls take so much longer.
  double slow_factor = 1;
  /// Of nodes that do not reach it, between these times.
  double nodes_cut = 0;
  double cut_s = 1e9, mended_s = 1e9;

  bool has_blobs = true;
  double blobs_lost_s = 1e9, blobs_back_s = 1e9;

  /// Of compiles whose machine dies in the middle, and comes back after half a minute.
  double compiles_killed = 0;
  /// Dates of machines are wrong by up to so much.
  double skew_s = 0;
};

std::span<const Scenario> Scenarios();
const Scenario* FindScenario(std::string_view name);

/// How large a run is.
struct Scale {
  size_t nodes = 1000;
  size_t keys = 2000;
  size_t keys_per_node = 12;
  uint64_t seed = 1;
};

}  // namespace ingot::simulation
