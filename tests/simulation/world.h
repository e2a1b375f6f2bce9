// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/index/blob_store.h"
#include "cache/index/indexed_blobs.h"
#include "cache/index/local_index.h"
#include "cache/store/memory_store.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/virtual_time.h"

namespace ingot::simulation {

/// What a node is to the network.
struct Place {
  bool is_alive = true;
  bool is_cut = false;   ///< Among those that do not reach the index for a while.
  double distance = 1;   ///< Its latencies are so much longer.
  std::string name;
};
using PlaceRef = std::shared_ptr<Place>;

/// The server of the index: takes calls one after the other.
class Server {
 public:
  Server(VirtualTime& time, Chance& chance);

  /// When a call that comes now is done.
  SteadyTime Serve();
  cache::LocalIndex& index() { return *index_; }
  /// Forgets all.
  void Clear();
  cache::WaiterRef Listen(const Digest& lease);
  /// Wakes whoever listens, each after its time on the way.
  void Say(const Digest& lease);

  bool is_lost = false;
  bool is_cut_off = false;  ///< From the nodes that are cut.
  bool was_lost = false;
  double slow = 1;
  /// Keys whose lease was given and not given back.
  std::unordered_set<Digest> held;
  std::vector<uint32_t> calls_by_s;

 private:
  VirtualTime& time_;
  Chance& chance_;
  NodeClock clock_{0};
  std::unique_ptr<cache::MemoryStore> store_;
  std::unique_ptr<cache::LocalIndex> index_;
  SteadyTime busy_until_;
  std::unordered_map<Digest, std::vector<std::weak_ptr<cache::Waiter>>> listeners_;
};

/// Blobs that all nodes share.
struct BlobServer {
  bool is_lost = false;
  struct Blob {
    Buffer body;         ///< Says only which it is.
    uint64_t bytes = 0;  ///< It would have.
  };
  std::unordered_map<Digest, Blob> blobs;
  uint64_t reads = 0, writes = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
};

/// Everything between nodes, and what is counted there.
struct World {
  World(const Scenario& scenario, const Scale& scale);

  const Scenario& scenario;
  const Scale scale;
  VirtualTime time;
  const NodeClock clock{0};  ///< The right one.
  Chance chance;
  Server server;
  BlobServer blobs;

  uint64_t takeovers = 0;
  /// Waits for the holder of a lease: now, and at most at one time.
  uint64_t waiters = 0, waiters_max = 0;

  /// On the way from a node to the server of the index, one way.
  Duration Latency(const Place& place);
  /// A whole call to the store of blobs that moves so many bytes.
  Duration BlobTime(const Place& place, uint64_t bytes);
  bool Reaches(const Place& place) const { return !server.is_lost && !(place.is_cut && server.is_cut_off); }
};

/// The server of the index as one node sees it.
class Link final : public cache::Index {
 public:
  Link(World& world, PlaceRef place) : world_(world), server_(world.server), place_(std::move(place)) {}

  cache::Task<std::vector<cache::Record>> Get(std::vector<cache::RecordKey> keys, Until until) override;
  cache::Task<uint64_t> CompareAndSet(cache::RecordKey key, uint64_t expected, Buffer value, cache::RecordFacts facts,
                                      Until until) override;
  cache::Task<bool> CompareAndDelete(cache::RecordKey key, uint64_t expected, Until until) override;
  cache::Task<cache::RecordPage> List(cache::Table table, std::optional<std::string> group, std::string after,
                                      size_t limit, Until until) override;
  cache::Task<GroupPage> Groups(cache::Table table, std::string after, size_t limit, Until until) override;
  cache::Task<cache::Record> Changed(cache::RecordKey key, uint64_t seen, Until until) override;
  cache::Task<cache::Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl,
                                    Until until) override;
  cache::Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                          Until until) override;
  cache::Task<void> Release(Digest key, uint64_t fence, Until until) override;
  cache::Task<cache::Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override;
  std::string Describe() const override { return "index"; }

 private:
  /// One call: there, done when its turn comes, and back. A server that is lost says nothing: that ends as the client
  /// of Redis ends it, after its silence_max.
  cache::Task<void> There(Until until);
  cache::Task<void> Back(Until until);
  cache::Task<cache::Lease> Look(Digest key, Until until);

  World& world_;
  Server& server_;
  const PlaceRef place_;
};

/// Small blobs as records of the index, as daemons without a store of blobs keep them. Bodies here say only which they
/// are: what is too large is told by the size it would have.
class SmallBlobs final : public cache::BlobStore {
 public:
  SmallBlobs(World& world, std::shared_ptr<cache::Index> index, uint64_t bytes_max)
      : world_(world), bytes_max_(bytes_max), records_(std::move(index), bytes_max) {}
  cache::Task<cache::SealedRef> Get(Digest digest, Until until) override;
  cache::Task<bool> Put(Digest digest, cache::SealedRef blob, double cost_s, Until until) override;
  cache::Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  cache::Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override { return records_.Describe(); }

 private:
  World& world_;
  const uint64_t bytes_max_;
  cache::IndexedBlobs records_;
};

/// The shared blobs as one node sees them.
class BlobLink final : public cache::BlobStore {
 public:
  BlobLink(World& world, PlaceRef place) : world_(world), place_(std::move(place)) {}
  cache::Task<cache::SealedRef> Get(Digest digest, Until until) override;
  cache::Task<bool> Put(Digest digest, cache::SealedRef blob, double cost_s, Until until) override;
  cache::Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  cache::Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override { return "blobs"; }

 private:
  cache::Task<void> Pass(uint64_t bytes, Until until);
  World& world_;
  const PlaceRef place_;
};

}  // namespace ingot::simulation
