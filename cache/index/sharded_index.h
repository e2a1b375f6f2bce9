// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cache/index/index.h"
#include "cache/index/shards.h"

namespace ingot::cache {

using IndexShard = Shards<Index>::Shard;

/// Several indexes as one. A key lives in the first of its rendezvous order that answers: where that one is away, the
/// next takes its keys, so that losing a shard loses what was in it and nothing else. Listings need all shards.
///
/// While clients disagree about which shards are away, a key may have two records and two leases: records merge when
/// they are read and written again, and work under a lease may be done twice. A record that is absent is also looked
/// for in the next shard, so that one written while a shard was away is found when it is back. Versions and fences say
/// which shard they are of, and are good there only.
class ShardedIndex final : public Index {
 public:
  /// Two at least.
  ShardedIndex(std::vector<IndexShard> shards, const Clock& clock, const ShardLimits& limits = {})
      : shards_(std::move(shards), clock, limits) {}

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
  std::string Describe() const override { return shards_.Describe(); }
  /// Of all shards together: open once every one is left alone.
  std::optional<CircuitBreaker::Facts> breaker() const override { return shards_.breakers(); }

 private:
  /// What a shard's own numbers are multiplied by, to make room for the place in the order.
  static constexpr uint64_t kPlaces = 4;
  static uint64_t Mark(uint64_t number, size_t place) { return number == 0 ? 0 : number * kPlaces + place; }
  static uint64_t NumberOf(uint64_t marked) { return marked / kPlaces; }
  /// A number that no shard has given is nobody's.
  bool IsOfNone(uint64_t marked) const { return marked % kPlaces >= shards_.size(); }

  Task<Record> GetOne(RecordKey key, Until until);

  Shards<Index> shards_;
};

}  // namespace ingot::cache
