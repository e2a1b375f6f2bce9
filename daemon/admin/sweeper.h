// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "base/result.h"
#include "cache/store/evict.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

struct Core;

/// Keeps the store within its limits, in bounded steps on the pool: lookups that memory answers
/// never wait for it. Thread-safe.
class Sweeper {
 public:
  explicit Sweeper(Core& core);

  /// Takes a step soon, unless one waits already. It makes a little more room than the limits ask for.
  void Ask();
  /// As Ask, where a limit does not hold any more.
  void Wrote();
  /// One step, here: evicts, leaves tombstones, and forgets what memory held. `dry_run`: says what would go.
  Result<cache::EvictReport> Step(bool dry_run = false);

 private:
  cache::EvictLimits Limits() const;
  cache::EvictLimits LimitsWithRoom() const;
  Result<cache::EvictReport> Sweep(const cache::EvictLimits& limits, bool dry_run);

  Core& core_;
  Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;
  /// One step at a time.
  Mutex step_mutex_;
  cache::Evictor evictor_ GUARDED_BY(step_mutex_);
};

}  // namespace ingot::daemon
