// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "cache/index/index.h"
#include "cache/redis/redis_client.h"

namespace ingot::cache {

/// Which server, and what is kept there (docs/format/redis.md).
struct RedisIndexOptions {
  std::string url;  ///< RedisUrl
  /// In front of all keys and channels, so that several may share a server.
  std::string prefix = "ingot:";
  /// Records of a table end so long after they were written; zero: never. At least a millisecond otherwise.
  std::array<std::chrono::milliseconds, kTables> ttl{};
  /// Whoever waits looks again after at most so long, also when no wake-up has come.
  std::chrono::milliseconds poll_max{1000};
  /// All but `url`.
  RedisClientOptions client;
};

/// The index and leases that machines share, on Redis 7. Never blocks: waits are for `io`'s thread.
///
/// Redis may forget (eviction, restart, time to live): a record forgotten is a miss, a lease forgotten may be taken by
/// another with a larger fence. Versions and fences grow with the server's clock, and beyond it where that stands
/// still, so that they grow also when Redis has forgotten the last one. A server that is away, or a node of a Redis
/// Cluster, makes all calls kUnavailable. A write that ended in kTimeout, kCancelled or kUnavailable may have been
/// done, or be done later.
class RedisIndex final : public Index {
 public:
  /// kInvalid: a URL that cannot be read or names a user without a password, a time to live below zero. Does not
  /// connect.
  /// `io` is run by somebody until all calls have come back.
  static Result<std::unique_ptr<RedisIndex>> Open(boost::asio::io_context& io, RedisIndexOptions options);
  ~RedisIndex() override;

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

 private:
  struct State;
  explicit RedisIndex(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace ingot::cache
