// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// The last while of this daemon, for people who watch it: the newest misses, and samples of the counters that say how
/// well it serves. In memory only; bounded by web_misses_max and web_samples_max. Thread-safe.
class Recent {
 public:
  /// Counters since the start, and flights at that time.
  struct Sample {
    int64_t when = 0;  ///< Unix seconds.
    uint64_t hits = 0, misses = 0, compiles = 0, requests = 0, flights = 0;
  };
  struct Miss {
    int64_t when = 0;  ///< Unix seconds.
    Digest key;
    std::string function, reason, why;
  };

  Recent(const Config& config, const Clock& clock) : config_(config), clock_(clock) {}

  /// Adds a sample of the process's counters.
  void Take(size_t flights);
  /// Its texts are cut where they are long.
  void Missed(Miss miss);

  std::vector<Sample> samples() const;  ///< The oldest first.
  std::vector<Miss> misses() const;     ///< The newest first.

 private:
  const Config& config_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Sample> samples_ GUARDED_BY(mutex_);
  std::deque<Miss> misses_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
