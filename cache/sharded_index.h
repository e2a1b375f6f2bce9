// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/circuit_breaker.h"
#include "cache/index.h"

namespace ingot::cache {

/// One of several indexes that share the keys among them.
struct IndexShard {
  std::string name;  ///< Keys are dealt out by it (cache/rendezvous.h): the same for all who share.
  std::shared_ptr<Index> index;
};

struct ShardedIndexOptions {
  BreakerLimits breaker;
  /// No answer takes so long: a shard that is silent for this time has failed, and the next is asked. Whoever calls has
  /// more time than that, or learns nothing while a shard is silent.
  std::chrono::milliseconds answer_max{500};
};

/// Several indexes as one. A key lives in the first of its rendezvous order that answers: where that one is away, the
/// next takes its keys, so that losing a shard loses what was in it and nothing else. One breaker for each shard.
///
/// While clients disagree about which shards are away, a key may have two records and two leases: records merge when
/// they are read and written again, and work under a lease may be done twice. A record that is absent is also looked
/// for in the next shard, so that one written while a shard was away is found when it is back. Versions and fences say
/// which shard they are of, and are good there only.
class ShardedIndex final : public Index {
 public:
  /// Two at least. `listing`: answers List and Groups over all of them.
  ShardedIndex(std::vector<IndexShard> shards, std::shared_ptr<Index> listing, const Clock& clock,
               const ShardedIndexOptions& options = {});

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
  std::string Describe() const override;
  /// Of all shards together: open once every one is left alone.
  std::optional<CircuitBreaker::Facts> breaker() const override;

 private:
  /// Where a key may be: as many of its order as are ever asked for it.
  static constexpr size_t kChoicesMax = 3;
  /// What a shard's own numbers are multiplied by, to make room for the place in the order.
  static constexpr uint64_t kPlaces = 4;
  static uint64_t Mark(uint64_t number, size_t place) { return number == 0 ? 0 : number * kPlaces + place; }
  static uint64_t NumberOf(uint64_t marked) { return marked / kPlaces; }
  /// A number that no shard has given is nobody's.
  bool IsOfNone(uint64_t marked) const { return marked % kPlaces >= shards_.size(); }

  struct Shard {
    Shard(const Clock& clock, const BreakerLimits& limits) : breaker(limits, clock) {}
    std::shared_ptr<Index> index;
    CircuitBreaker breaker;
  };
  template <typename T>
  using Calls = std::function<Task<T>(Index&, Until)>;

  Shard& At(const Digest& key, size_t place) const;
  /// A call to one shard: tried again where its connection was cut, while its breaker lets it.
  template <typename T>
  Task<T> CallAt(size_t place, Digest key, Calls<T> call, Until until);
  /// A call to the first shard that answers, and its place.
  template <typename T>
  Task<std::pair<T, size_t>> CallFirst(Digest key, Calls<T> call, Until until);
  Task<Record> GetOne(RecordKey key, Until until);

  const ShardedIndexOptions options_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Shard>> shards_;
  const std::shared_ptr<Index> listing_;
};

}  // namespace ingot::cache
