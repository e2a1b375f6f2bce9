// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "base/mutex.h"
#include "cache/async/waiters.h"
#include "cache/index/index.h"
#include "cache/index/lease_table.h"

namespace ingot::cache {

/// The records of this machine's store as an index. Leases live in memory and end with this process. Thread-safe; works
/// on the thread of whoever awaits it.
class LocalIndex final : public Index {
 public:
  explicit LocalIndex(Store& store, const LeaseTableOptions& leases = {}) : store_(store), leases_(leases) {}

  Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) override;
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts, Until until) override;
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override;
  Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                        Until until) override;
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override;
  Task<Record> Changed(RecordKey key, uint64_t seen, Until until) override;
  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override {
    return leases_.Acquire(key, std::move(holder), ttl, std::move(until));
  }
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override {
    return leases_.Renew(key, fence, std::move(progress), ttl, std::move(until));
  }
  Task<void> Release(Digest key, uint64_t fence, Until until) override {
    return leases_.Release(key, fence, std::move(until));
  }
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override {
    return leases_.Watch(key, fence, std::move(progress), std::move(until));
  }
  std::string Describe() const override { return store_.Describe(); }

 private:
  Result<Record> ReadRecord(const RecordKey& key);

  Store& store_;
  LeaseTable leases_;
  Waiters waiters_;
};

}  // namespace ingot::cache
