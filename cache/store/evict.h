// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "cache/store/store.h"

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
  /// Values removed by one step, and values looked at.
  size_t victims_max = 64;
  size_t looks_max = 4096;
};

enum class EvictReason : uint8_t { kAge, kBytes, kEntries };
std::string_view NameOf(EvictReason reason);

struct Victim {
  StoreRow row;
  EvictReason reason = EvictReason::kAge;
  std::string group;  ///< Store::GroupOf
};

struct EvictReport {
  uint64_t evicted_bytes = 0;
  uint64_t bytes = 0;    ///< left, in all tables
  uint64_t entries = 0;  ///< left in kEntries
  /// A limit may not hold yet and another step can help.
  bool more = false;
  /// What this step removed, or would remove.
  std::vector<Victim> victims;
};

/// Holds a store to its limits in bounded steps: what is worth least goes first, by the order the store keeps, never
/// a pinned value or one in its grace; what is too old is met by walking through the store, a part in each step.
/// Thread-compatible.
class Evictor {
 public:
  Evictor(Store& store, const Clock& clock, Metrics& metrics = GlobalMetrics())
      : store_(store), clock_(clock), metrics_(metrics) {}

  /// One step. Lookups go on meanwhile. `dry_run`: says what would go and removes nothing.
  Result<EvictReport> Step(const EvictLimits& limits, bool dry_run = false);

 private:
  struct Plan;
  Status ChooseByAge(Plan& plan);
  Status ChooseByWorth(Plan& plan);

  Store& store_;
  const Clock& clock_;
  Metrics& metrics_;
  /// Where the walk goes on.
  size_t walk_table_ = 0;
  std::string walk_after_;
};

}  // namespace ingot::cache
