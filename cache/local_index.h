// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "cache/index.h"
#include "cache/waiter.h"

namespace ingot::cache {

struct LocalIndexOptions {
  /// Of the first lease: one that is larger than all that were given before.
  uint64_t first_fence = 1;
  /// Leases held at one time; a further one is refused with kExhausted.
  size_t leases_max = 1u << 20;
};

/// The records of this machine's store as an index. Leases live in memory and end with this process. Thread-safe; works
/// on the thread of whoever awaits it.
class LocalIndex final : public Index {
 public:
  explicit LocalIndex(Store& store, const LocalIndexOptions& options = {})
      : store_(store), leases_max_(options.leases_max), next_fence_(options.first_fence) {}

  Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) override;
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts, Until until) override;
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override;
  Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                        Until until) override;
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override;
  Task<Record> Changed(RecordKey key, uint64_t seen, Until until) override;
  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override;
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override;
  Task<void> Release(Digest key, uint64_t fence, Until until) override;
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override;
  std::string Describe() const override { return store_.Describe(); }

 private:
  struct Held {
    uint64_t fence = 0;
    std::string holder;
    std::string progress;
    SteadyTime ends;
  };
  using Waiters = std::multimap<Digest, std::weak_ptr<Waiter>>;
  static constexpr size_t kSweepMin = 1024;

  Result<Record> ReadRecord(const RecordKey& key);
  /// What holds now; a lease that has ended is forgotten.
  Lease LeaseOf(const Digest& key) REQUIRES(mutex_);
  void Wake(Waiters LocalIndex::*waiters, const Digest& key);
  static WaiterRef Enlist(Waiters& waiters, const Digest& key);
  /// Forgets leases that have ended and waiters that are gone, also of keys that nobody asks for again: each time that
  /// there are twice as many as the last time.
  void Sweep() REQUIRES(mutex_);

  Store& store_;
  const size_t leases_max_;
  Mutex mutex_;
  std::unordered_map<Digest, Held> leases_ GUARDED_BY(mutex_);
  uint64_t next_fence_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = kSweepMin;
  Waiters record_waiters_ GUARDED_BY(mutex_);
  Waiters lease_waiters_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
