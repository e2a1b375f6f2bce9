// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "base/result.h"
#include "cache/evict.h"
#include "daemon/config.h"

namespace ingot::daemon {

struct Core;

/// Keeps the store within its limits, in bounded steps on the pool: lookups that memory answers
/// never wait for it. Thread-safe.
class Sweeper {
 public:
  explicit Sweeper(Core& core) : core_(core) {}

  /// Takes a step soon, unless one waits already.
  void Ask();
  /// As Ask, when what was written since the last step may break a limit.
  void Wrote(uint64_t bytes);
  /// One step, here: evicts, leaves tombstones, and forgets what memory held.
  Result<cache::EvictReport> Step();

 private:
  cache::EvictLimits Limits() const;

  Core& core_;
  Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;
  bool known_ GUARDED_BY(mutex_) = false;  ///< A step has looked at the store.
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t entries_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ingot::daemon
