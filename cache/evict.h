// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "cache/store.h"

namespace ingot::cache {

/// What a store may hold. A limit of 0 is no limit.
struct EvictLimits {
  /// Bytes of all values of all tables.
  uint64_t bytes_max = 10ull << 30;
  /// Values of kEntries.
  uint64_t entries_max = 100'000;
  /// Seconds since the last use.
  int64_t age_s_max = 90 * 86'400;
  /// Values written less than this ago stay: their first user is about to ask for them.
  int64_t grace_s = 600;
  /// Uses count half after this many seconds.
  int64_t use_half_life_s = 7 * 86'400;
  /// Values removed by one step.
  size_t victims_max = 64;
};

/// One value that might go.
struct Candidate {
  Table table = Table::kEntries;
  Digest key;
  Stat stat;
};

enum class EvictReason : uint8_t { kAge, kBytes, kEntries };
std::string_view NameOf(EvictReason reason);

struct Victim {
  Candidate candidate;
  EvictReason reason = EvictReason::kAge;
};

/// Seconds of compiling that keeping one byte saves: cost x recent use / bytes. Lower goes first.
double ValueOf(const Stat& stat, const EvictLimits& limits, int64_t now_s);

/// Chooses what to remove so that the limits hold: first what is too old, then by value, lowest
/// first. Never a pinned value or one in its grace. At most `victims_max`.
std::vector<Victim> ChooseVictims(std::span<const Candidate> candidates, const EvictLimits& limits,
                                  int64_t now_s);

struct EvictReport {
  uint64_t evicted = 0;
  uint64_t evicted_bytes = 0;
  uint64_t bytes = 0;    ///< left, in all tables
  uint64_t entries = 0;  ///< left in kEntries
  /// A limit does not hold yet and another step can help.
  bool more = false;
  /// What this step removed.
  std::vector<Victim> victims;
};

/// One bounded step: reads the facts of all values (not the values), removes at most
/// `victims_max`. Lookups go on meanwhile.
Result<EvictReport> EvictStep(Store& store, const EvictLimits& limits, const Clock& clock,
                              Metrics& metrics = GlobalMetrics());

}  // namespace ingot::cache
