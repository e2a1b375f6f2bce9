// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/store/store.h"
#include "daemon/state/entries.h"

namespace ingot::daemon {

/// What a compile has cost, by what is known of it before it is made.
struct CompileCost {
  uint64_t graph_bytes = 0;  ///< Of the graph's text.
  bool has_gears = false;    ///< It made code for gears as well.
  double seconds = 0;
};

/// How long a compile is likely to take, by what alike ones have taken: stored ones of the same function, else those of
/// graphs of about the same size that this daemon has made. Where there are none nobody knows. Thread-safe.
class CompileTimeEstimator {
 public:
  CompileTimeEstimator(cache::Store& store, Entries& entries) : store_(store), entries_(entries) {}

  void Learn(const CompileCost& cost);
  /// Seconds. None: nothing alike is known.
  Task<std::optional<double>> SecondsFor(std::string function, uint64_t graph_bytes, bool has_gears, Until until);

 private:
  Task<std::vector<CompileCost>> CostsOf(std::string function, Until until);

  cache::Store& store_;
  Entries& entries_;
  Mutex mutex_;
  std::deque<CompileCost> newest_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
