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

/// The records of this machine's store as an index. Leases live in memory: they are among the tasks of one process, and
/// end with it. Thread-safe; works on the thread of whoever awaits it.
class LocalIndex final : public Index {
 public:
  explicit LocalIndex(Store& store) : store_(store) {}

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

  Result<Record> ReadRecord(const RecordKey& key);
  /// What holds now; a lease that has ended is forgotten.
  Lease LeaseOf(const Digest& key) REQUIRES(mutex_);
  void Wake(Waiters LocalIndex::*waiters, const Digest& key);
  static WaiterRef Enlist(Waiters& waiters, const Digest& key);

  Store& store_;
  Mutex mutex_;
  std::unordered_map<Digest, Held> leases_ GUARDED_BY(mutex_);
  uint64_t next_fence_ GUARDED_BY(mutex_) = 1;
  Waiters record_waiters_ GUARDED_BY(mutex_);
  Waiters lease_waiters_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
