// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/world.h"

#include "cache/async/waiter.h"
#include "cache/index/lease_watch.h"
#include "cache/redis/redis_client.h"
#include "cache/redis/redis_index.h"

namespace ingot::simulation {
namespace {

using cache::Lease;
using cache::Record;
using cache::RecordKey;
using cache::Task;

/// A call of a server like Redis, a script included.
constexpr Duration kServe = std::chrono::microseconds(10);
constexpr double kLatencyMedianS = 0.00025, kLatencySpread = 0.5;
constexpr double kBlobMedianS = 0.015, kBlobSpread = 0.6, kBlobBytesPerS = 200e6;
constexpr double kBlobSilenceS = 1;
constexpr double kArtifactBytesMedian = 2e6, kTextBytesMedian = 2e4;

/// How large a blob would be: an artifact, or the text of a graph.
uint64_t RealBytes(const Digest& digest, Bytes body) {
  Chance chance(digest.low);
  const bool is_text = AsText(body).starts_with("graph ");
  return static_cast<uint64_t>(chance.LogNormal(is_text ? kTextBytesMedian : kArtifactBytesMedian, 1));
}

}  // namespace

Server::Server(VirtualTime& time, Chance& chance) : time_(time), chance_(chance) { Clear(); }

void Server::Clear() {
  cache::MemoryStoreOptions options;
  options.clock = &clock_;
  options.bytes_max = 64ull << 30;
  index_.reset();
  store_ = std::make_unique<cache::MemoryStore>(options);
  index_ = std::make_unique<cache::LocalIndex>(*store_);
  held.clear();
}

SteadyTime Server::Serve() {
  const auto second = static_cast<size_t>(time_.seconds());
  if (calls_by_s.size() <= second) calls_by_s.resize(second + 1);
  ++calls_by_s[second];
  const auto takes = Duration(static_cast<int64_t>(static_cast<double>(kServe.count()) * slow));
  busy_until_ = std::max(busy_until_, time_.Now()) + takes;
  return busy_until_;
}

cache::WaiterRef Server::Listen(const Digest& lease) {
  auto waiter = std::make_shared<cache::Waiter>();
  auto& all = listeners_[lease];
  if (all.size() % 64 == 63) std::erase_if(all, [](const auto& weak) { return weak.expired(); });
  all.push_back(waiter);
  return waiter;
}

void Server::Say(const Digest& lease) {
  const auto at = listeners_.find(lease);
  if (at == listeners_.end()) return;
  for (const auto& weak : at->second) {
    time_.In(Seconds(chance_.LogNormal(kLatencyMedianS, kLatencySpread)), [weak] {
      if (const auto waiter = weak.lock()) waiter->Wake();
    });
  }
  listeners_.erase(at);
}

World::World(const Scenario& scenario, const Scale& scale)
    : scenario(scenario), scale(scale), chance(scale.seed), server(time, chance) {}

Duration World::Latency(const Place& place) {
  return Seconds(place.distance * chance.LogNormal(kLatencyMedianS, kLatencySpread));
}

Duration World::BlobTime(const Place& place, uint64_t bytes) {
  return Seconds(place.distance * chance.LogNormal(kBlobMedianS, kBlobSpread) +
                 static_cast<double>(bytes) / kBlobBytesPerS);
}

Task<void> Link::There(Until until) {
  CO_TRY(until.Check());
  if (!place_->is_alive) co_return Error(Code::kCancelled, "the machine is gone");
  const Duration silence = cache::RedisClientOptions().silence_max;
  if (!world_.Reaches(*place_)) {
    CO_TRY(co_await Sleep(silence, until));
    co_return Error(Code::kUnavailable, "no byte came from the index");
  }
  CO_TRY(co_await Sleep(world_.Latency(*place_), until));
  const SteadyTime asked = SteadyNow();
  const SteadyTime done = server_.Serve();
  if (done - asked > silence) {
    CO_TRY(co_await Sleep(silence, until));
    co_return Error(Code::kUnavailable, "no byte came from the index");
  }
  CO_TRY(co_await Sleep(done - asked, until));
  if (!world_.Reaches(*place_)) {
    CO_TRY(co_await Sleep(silence, until));
    co_return Error(Code::kUnavailable, "no byte came from the index");
  }
  co_return Status();
}

Task<void> Link::Back(Until until) {
  CO_TRY(co_await Sleep(world_.Latency(*place_), until));
  if (!place_->is_alive) co_return Error(Code::kCancelled, "the machine is gone");
  co_return Status();
}

Task<std::vector<Record>> Link::Get(std::vector<RecordKey> keys, Until until) {
  CO_TRY(co_await There(until));
  auto answer = co_await server_.index().Get(std::move(keys), Until::Done());
  CO_TRY(co_await Back(until));
  co_return answer;
}

Task<uint64_t> Link::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, cache::RecordFacts facts,
                                   Until until) {
  CO_TRY(co_await There(until));
  auto answer =
      co_await server_.index().CompareAndSet(key, expected, std::move(value), std::move(facts), Until::Done());
  CO_TRY(co_await Back(until));
  co_return answer;
}

Task<bool> Link::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  CO_TRY(co_await There(until));
  auto answer = co_await server_.index().CompareAndDelete(key, expected, Until::Done());
  CO_TRY(co_await Back(until));
  co_return answer;
}

Task<cache::RecordPage> Link::List(cache::Table, std::optional<std::string>, std::string, size_t, Until) {
  co_return Error(Code::kUnsupported, "nobody lists the shared index");
}

Task<cache::Index::GroupPage> Link::Groups(cache::Table, std::string, size_t, Until) {
  co_return Error(Code::kUnsupported, "nobody lists the shared index");
}

Task<Record> Link::Changed(RecordKey, uint64_t, Until) {
  co_return Error(Code::kUnsupported, "nobody waits for a shared record");
}

Task<Lease> Link::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  CO_TRY(co_await There(until));
  auto lease = co_await server_.index().Acquire(key, std::move(holder), ttl, Until::Done());
  if (lease && lease->is_ours) {
    if (!server_.held.insert(key).second) ++world_.takeovers;
    server_.Say(key);
  }
  const Status back = co_await Back(until);
  if (!back && lease && lease->is_ours) {
    // As the client of Redis does with a lease that nobody waits for any more.
    if (place_->is_alive) {
      Ignore(co_await server_.index().Release(key, lease->fence, Until::Done()), "it ends by itself");
      server_.held.erase(key);
      server_.Say(key);
    }
    co_return back.error();
  }
  CO_TRY(back);
  co_return lease;
}

Task<bool> Link::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl, Until until) {
  CO_TRY(co_await There(until));
  auto answer = co_await server_.index().Renew(key, fence, std::move(progress), ttl, Until::Done());
  if (answer && *answer) server_.Say(key);
  CO_TRY(co_await Back(until));
  co_return answer;
}

Task<void> Link::Release(Digest key, uint64_t fence, Until until) {
  CO_TRY(co_await There(until));
  auto answer = co_await server_.index().Release(key, fence, Until::Done());
  server_.held.erase(key);
  server_.Say(key);
  CO_TRY(co_await Back(until));
  co_return answer;
}

Task<Lease> Link::Look(Digest key, Until until) {
  CO_TRY(co_await There(until));
  // Nobody has this fence: what holds comes at once.
  auto lease = co_await server_.index().Watch(key, ~0ull, "", Until::Done());
  CO_TRY(co_await Back(until));
  co_return lease;
}

Task<Lease> Link::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  cache::DistantLease lease;
  lease.read = [this, key](Until look) { return Look(key, std::move(look)); };
  lease.listen = [this, key] { return server_.Listen(key); };
  world_.waiters_max = std::max(world_.waiters_max, ++world_.waiters);
  auto now = co_await cache::WatchLease(std::move(lease), fence, std::move(progress),
                                        cache::RedisIndexOptions().poll_max, until);
  --world_.waiters;
  co_return now;
}

Task<cache::SealedRef> SmallBlobs::Get(Digest digest, Until until) {
  CO_TRY_ASSIGN(cache::SealedRef blob, co_await records_.Get(digest, until));
  ++world_.blobs.reads;
  world_.blobs.bytes_read += RealBytes(digest, blob->bytes());
  co_return blob;
}

Task<bool> SmallBlobs::Put(Digest digest, cache::SealedRef blob, double cost_s, Until until) {
  const uint64_t bytes = RealBytes(digest, blob->bytes());
  if (bytes > bytes_max_) co_return Error(Code::kUnsupported, "too large for the index");
  CO_TRY_ASSIGN(const bool is_new, co_await records_.Put(digest, std::move(blob), cost_s, until));
  ++world_.blobs.writes;
  if (is_new) world_.blobs.bytes_written += bytes;
  co_return is_new;
}

Task<std::vector<bool>> SmallBlobs::Has(std::vector<Digest> digests, Until until) {
  co_return co_await records_.Has(std::move(digests), until);
}

Task<bool> SmallBlobs::Delete(Digest digest, Until until) { co_return co_await records_.Delete(digest, until); }

Task<void> BlobLink::Pass(uint64_t bytes, Until until) {
  CO_TRY(until.Check());
  if (!place_->is_alive) co_return Error(Code::kCancelled, "the machine is gone");
  if (world_.blobs.is_lost) {
    CO_TRY(co_await Sleep(Seconds(kBlobSilenceS), until));
    co_return Error(Code::kUnavailable, "the store of blobs is away");
  }
  CO_TRY(co_await Sleep(world_.BlobTime(*place_, bytes), until));
  if (!place_->is_alive) co_return Error(Code::kCancelled, "the machine is gone");
  co_return Status();
}

Task<cache::SealedRef> BlobLink::Get(Digest digest, Until until) {
  const auto found = world_.blobs.blobs.find(digest);
  const uint64_t bytes = found == world_.blobs.blobs.end() ? 0 : found->second.bytes;
  CO_TRY(co_await Pass(bytes, until));
  ++world_.blobs.reads;
  world_.blobs.bytes_read += bytes;
  if (bytes == 0) co_return Error(Code::kNotFound, "no such blob");
  co_return cache::SealedFile::Copy(world_.blobs.blobs.at(digest).body);
}

Task<bool> BlobLink::Put(Digest digest, cache::SealedRef blob, double, Until until) {
  // As the S3 tier: what is there is not sent again.
  const Bytes body = blob->bytes();
  const uint64_t real = RealBytes(digest, body);
  const uint64_t bytes = world_.blobs.blobs.contains(digest) ? 0 : real;
  CO_TRY(co_await Pass(bytes, until));
  ++world_.blobs.writes;
  world_.blobs.bytes_written += bytes;
  BlobServer::Blob kept{Buffer(body.begin(), body.end()), real};
  co_return world_.blobs.blobs.try_emplace(digest, std::move(kept)).second;
}

Task<std::vector<bool>> BlobLink::Has(std::vector<Digest> digests, Until until) {
  CO_TRY(co_await Pass(0, until));
  std::vector<bool> out;
  for (const Digest& digest : digests) out.push_back(world_.blobs.blobs.contains(digest));
  co_return out;
}

Task<bool> BlobLink::Delete(Digest digest, Until until) {
  CO_TRY(co_await Pass(0, until));
  co_return world_.blobs.blobs.erase(digest) == 1;
}

}  // namespace ingot::simulation
