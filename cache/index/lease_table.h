// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "cache/async/waiters.h"
#include "cache/index/index.h"

namespace ingot::cache {

struct LeaseTableOptions {
  /// Of the first lease: one that is larger than all that were given before.
  uint64_t first_fence = 1;
  /// Leases held at one time; a further one is refused with kExhausted.
  size_t leases_max = 1u << 20;
};

/// Leases in the memory of this process, as the calls of cache/index/index.h of the same names: they end with it, and
/// hold for those who share the table alone. Thread-safe.
class LeaseTable {
 public:
  explicit LeaseTable(const LeaseTableOptions& options = {})
      : leases_max_(options.leases_max), next_fence_(options.first_fence) {}

  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until);
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl, Until until);
  Task<void> Release(Digest key, uint64_t fence, Until until);
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until);

 private:
  struct Held {
    uint64_t fence = 0;
    std::string holder;
    std::string progress;
    SteadyTime ends;
  };
  static constexpr size_t kSweepMin = 1024;

  /// What holds now; a lease that has ended is forgotten.
  Lease LeaseOf(const Digest& key) REQUIRES(mutex_);
  /// Forgets leases that have ended, each time that there are twice as many as the last time.
  void Sweep() REQUIRES(mutex_);

  const size_t leases_max_;
  Mutex mutex_;
  std::unordered_map<Digest, Held> leases_ GUARDED_BY(mutex_);
  uint64_t next_fence_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = kSweepMin;
  Waiters waiters_;
};

}  // namespace ingot::cache
