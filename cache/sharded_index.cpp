// SPDX-License-Identifier: Apache-2.0
#include "cache/sharded_index.h"

#include <algorithm>
#include <utility>

#include "cache/rendezvous.h"
#include "cache/together.h"

namespace ingot::cache {
namespace {

/// Records that are read at once, where many are asked for.
constexpr size_t kReadsAtOnce = 16;

/// Whether an error says that the shard is in trouble, not the call.
bool SaysAway(const Error& error) { return error.code() == Code::kUnavailable || error.code() == Code::kTimeout; }

}  // namespace

ShardedIndex::ShardedIndex(std::vector<IndexShard> shards, std::shared_ptr<Index> listing, const Clock& clock,
                           const ShardedIndexOptions& options)
    : options_(options), listing_(std::move(listing)) {
  for (IndexShard& shard : shards) {
    names_.push_back(std::move(shard.name));
    shards_.push_back(std::make_unique<Shard>(clock, options.breaker));
    shards_.back()->index = std::move(shard.index);
  }
}

ShardedIndex::Shard& ShardedIndex::At(const Digest& key, size_t place) const {
  return *shards_[RendezvousOrder(names_, key, place + 1)[place]];
}

template <typename T>
Task<T> ShardedIndex::CallAt(size_t place, Digest key, Calls<T> call, Until until) {
  if (place >= shards_.size()) co_return Error(Code::kUnavailable, "there is no such shard");
  Shard& shard = At(key, place);
  while (true) {
    CO_TRY(until.Check());
    if (!shard.breaker.Allow()) {
      co_return Error(Code::kUnavailable, "the shard failed of late and is left alone for a while: " +
                                              shard.breaker.facts().why);
    }
    const Until answer = until.AtMost(options_.answer_max);
    const bool has_time = until.Left() >= options_.answer_max;
    Result<T> result = co_await call(*shard.index, answer);
    if (result || !SaysAway(result.error())) {
      const bool gave_up = !result && result.error().code() == Code::kCancelled;
      gave_up ? shard.breaker.GaveUp() : shard.breaker.Succeeded();
      co_return result;
    }
    const bool is_silent = result.error().code() == Code::kTimeout;
    // Who had no time for an answer has learnt nothing.
    if (is_silent && !has_time) {
      shard.breaker.GaveUp();
      co_return std::move(result).error();
    }
    shard.breaker.Failed(result.error().ToText());
    // Where one answer did not come the next would take as long; one connection that was cut is no shard that is away.
    if (is_silent) co_return std::move(result).error();
  }
}

template <typename T>
Task<std::pair<T, size_t>> ShardedIndex::CallFirst(Digest key, Calls<T> call, Until until) {
  std::optional<Error> away;
  for (size_t place = 0; place < std::min(kChoicesMax, shards_.size()); ++place) {
    Result<T> result = co_await CallAt<T>(place, key, call, until);
    if (result) co_return std::pair(std::move(*result), place);
    CO_TRY(until.Check());
    if (!SaysAway(result.error())) co_return std::move(result).error();
    away = std::move(result).error();
  }
  co_return std::move(*away);
}

Task<Record> ShardedIndex::GetOne(RecordKey key, Until until) {
  const Calls<std::vector<Record>> read = [key](Index& shard, Until answer) {
    return shard.Get(std::vector<RecordKey>{key}, std::move(answer));
  };
  CO_TRY_ASSIGN(auto found, co_await CallFirst<std::vector<Record>>(key.digest, read, until));
  if (!found.first.front().exists() && found.second + 1 < std::min(kChoicesMax, shards_.size())) {
    const size_t next = found.second + 1;
    Result<std::vector<Record>> there = co_await CallAt<std::vector<Record>>(next, key.digest, read, until);
    if (there && there->front().exists()) found = {std::move(*there), next};
  }
  Record record = std::move(found.first.front());
  record.version = Mark(record.version, found.second);
  co_return record;
}

Task<std::vector<Record>> ShardedIndex::Get(std::vector<RecordKey> keys, Until until) {
  std::vector<Record> records(keys.size());
  std::function<Task<void>(size_t, Until)> job = [this, &keys, &records](size_t i, Until left) -> Task<void> {
    CO_TRY_ASSIGN(records[i], co_await GetOne(keys[i], std::move(left)));
    co_return Status();
  };
  if (keys.size() == 1) {
    CO_TRY(co_await job(0, until));
  } else {
    CO_TRY(co_await Together(keys.size(), kReadsAtOnce, std::move(job), until));
  }
  co_return records;
}

Task<uint64_t> ShardedIndex::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                           Until until) {
  const Calls<uint64_t> write = [&](Index& shard, Until answer) {
    return shard.CompareAndSet(key, NumberOf(expected), value, facts, std::move(answer));
  };
  if (expected == 0) {
    CO_TRY_ASSIGN(const auto written, co_await CallFirst<uint64_t>(key.digest, write, until));
    co_return Mark(written.first, written.second);
  }
  const size_t place = expected % kPlaces;
  Result<uint64_t> written = co_await CallAt<uint64_t>(place, key.digest, write, until);
  // The record went with its shard: whoever reads again finds what there is now.
  if (!written && written.error().code() == Code::kUnavailable) co_return 0;
  if (!written) co_return std::move(written).error();
  co_return Mark(*written, place);
}

Task<bool> ShardedIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  const Calls<bool> remove = [&](Index& shard, Until answer) {
    return shard.CompareAndDelete(key, NumberOf(expected), std::move(answer));
  };
  if (IsOfNone(expected)) co_return false;
  co_return co_await CallAt<bool>(expected % kPlaces, key.digest, remove, until);
}

Task<RecordPage> ShardedIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                    Until until) {
  co_return co_await listing_->List(table, std::move(group), std::move(after), limit, std::move(until));
}

Task<Index::GroupPage> ShardedIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  co_return co_await listing_->Groups(table, std::move(after), limit, std::move(until));
}

Task<Record> ShardedIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  if (IsOfNone(seen)) co_return co_await GetOne(key, until);
  const size_t place = seen % kPlaces;
  // A wait that ends with its time says nothing of the shard.
  CO_TRY_ASSIGN(Record record, co_await At(key.digest, place).index->Changed(key, NumberOf(seen), until));
  record.version = Mark(record.version, place);
  co_return record;
}

Task<Lease> ShardedIndex::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  const Calls<Lease> take = [&](Index& shard, Until answer) {
    return shard.Acquire(key, holder, ttl, std::move(answer));
  };
  CO_TRY_ASSIGN(auto lease, co_await CallFirst<Lease>(key, take, until));
  lease.first.fence = Mark(lease.first.fence, lease.second);
  co_return std::move(lease.first);
}

Task<bool> ShardedIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                               Until until) {
  const Calls<bool> renew = [&](Index& shard, Until answer) {
    return shard.Renew(key, NumberOf(fence), progress, ttl, std::move(answer));
  };
  if (IsOfNone(fence)) co_return false;
  co_return co_await CallAt<bool>(fence % kPlaces, key, renew, until);
}

Task<void> ShardedIndex::Release(Digest key, uint64_t fence, Until until) {
  const Calls<void> release = [&](Index& shard, Until answer) {
    return shard.Release(key, NumberOf(fence), std::move(answer));
  };
  if (IsOfNone(fence)) co_return Status();
  co_return co_await CallAt<void>(fence % kPlaces, key, release, until);
}

Task<Lease> ShardedIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  const size_t place = IsOfNone(fence) ? 0 : fence % kPlaces;
  // Not through the breaker: a wait that ends with its time says nothing of the shard.
  Result<Lease> lease = co_await At(key, place).index->Watch(key, NumberOf(fence), std::move(progress), until);
  if (!lease && lease.error().code() == Code::kUnavailable) At(key, place).breaker.Failed(lease.error().ToText());
  if (!lease) co_return std::move(lease).error();
  lease->fence = Mark(lease->fence, place);
  co_return *std::move(lease);
}

std::optional<CircuitBreaker::Facts> ShardedIndex::breaker() const {
  CircuitBreaker::Facts all;
  size_t left_alone = 0;
  for (const auto& shard : shards_) {
    const CircuitBreaker::Facts facts = shard->breaker.facts();
    all.opened += facts.opened;
    all.refused += facts.refused;
    if (!facts.why.empty()) all.why = facts.why;
    left_alone += facts.state != CircuitBreaker::State::kClosed;
  }
  if (left_alone == shards_.size()) all.state = CircuitBreaker::State::kOpen;
  return all;
}

std::string ShardedIndex::Describe() const {
  std::string out = listing_->Describe();
  for (size_t i = 0; i < shards_.size(); ++i) {
    const CircuitBreaker::Facts facts = shards_[i]->breaker.facts();
    if (facts.state != CircuitBreaker::State::kClosed) out += "; left alone: " + names_[i] + " (" + facts.why + ")";
  }
  return out;
}

}  // namespace ingot::cache
