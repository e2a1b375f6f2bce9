// SPDX-License-Identifier: Apache-2.0
#include "cache/index/sharded_blobs.h"

#include <map>
#include <optional>

#include "cache/async/together.h"

namespace ingot::cache {
namespace {

using Call = Shards<BlobStore>::Calls<std::vector<bool>>;

}  // namespace

ShardLimits ShardedBlobs::LimitsOf() {
  ShardLimits limits;
  limits.answer_max = std::chrono::hours(24);
  limits.tries_max = 1;
  return limits;
}

ShardedBlobs::ShardedBlobs(std::vector<BlobShard> shards, const Clock& clock, const ShardLimits& limits)
    : shards_(std::move(shards), clock, limits) {}

Task<SealedRef> ShardedBlobs::Get(Digest digest, Until until) {
  const Shards<BlobStore>::Calls<SealedRef> read = [digest](BlobStore& shard, Until answer) {
    return shard.Get(digest, std::move(answer));
  };
  std::optional<Error> why;
  bool has_answered = false;
  for (size_t place = 0; place < shards_.places(); ++place) {
    const Until limit = shards_.TimeFor(place, until);
    Result<SealedRef> blob = co_await shards_.Call<SealedRef>(shards_.ShardOf(digest, place), read, limit, until);
    if (blob) co_return blob;
    CO_TRY(until.Check());
    // What is damaged in one place may be whole in the next.
    const Code code = blob.error().code();
    if (code != Code::kNotFound && code != Code::kCorrupt && !SaysAway(blob.error())) co_return blob;
    const bool answers = !SaysAway(blob.error());
    // Of those that answer, the first says why; that others are away is a miss.
    if (!why || (answers && !has_answered)) why = std::move(blob).error();
    has_answered |= answers;
  }
  co_return *std::move(why);
}

Task<bool> ShardedBlobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  const Shards<BlobStore>::Calls<bool> write = [&](BlobStore& shard, Until answer) {
    return shard.Put(digest, blob, cost_s, std::move(answer));
  };
  CO_TRY_ASSIGN(const auto written, co_await shards_.CallFirst<bool>(digest, write, until));
  co_return written.first;
}

Task<std::vector<bool>> ShardedBlobs::Has(std::vector<Digest> digests, Until until) {
  CO_TRY(until.Check());
  std::vector<uint8_t> found(digests.size(), 0), answered(digests.size(), 0);
  std::vector<std::optional<Error>> away(shards_.size());
  for (size_t place = 0; place < shards_.places(); ++place) {
    std::map<size_t, std::vector<size_t>> by_shard;
    for (size_t i = 0; i < digests.size(); ++i) {
      if (found[i] == 0) by_shard[shards_.ShardOf(digests[i], place)].push_back(i);
    }
    const std::vector<std::pair<size_t, std::vector<size_t>>> wanted(by_shard.begin(), by_shard.end());
    const Until limit = shards_.TimeFor(place, until);
    std::function<Task<void>(size_t, Until)> ask = [&](size_t job, Until by) -> Task<void> {
      const size_t shard = wanted[job].first;
      const std::vector<size_t>& places = wanted[job].second;
      const Call call = [&](BlobStore& one, Until answer) {
        std::vector<Digest> some;
        for (const size_t i : places) some.push_back(digests[i]);
        return one.Has(std::move(some), std::move(answer));
      };
      Result<std::vector<bool>> has = co_await shards_.Call<std::vector<bool>>(shard, call, limit, by);
      if (!has && !SaysAway(has.error())) co_return std::move(has).error();
      if (!has) {
        away[shard] = std::move(has).error();
        co_return Status();
      }
      for (size_t at = 0; at < places.size(); ++at) {
        found[places[at]] = (*has)[at] ? 1 : 0;
        answered[places[at]] = 1;
      }
      co_return Status();
    };
    CO_TRY(co_await Together(wanted.size(), wanted.size(), std::move(ask), until));
  }
  std::vector<bool> out;
  for (size_t i = 0; i < digests.size(); ++i) {
    // What nobody could be asked for is not known to be missing.
    if (answered[i] == 0) co_return *std::move(away[shards_.ShardOf(digests[i], 0)]);
    out.push_back(found[i] != 0);
  }
  co_return out;
}

Task<bool> ShardedBlobs::Delete(Digest digest, Until until) {
  const Shards<BlobStore>::Calls<bool> remove = [digest](BlobStore& shard, Until answer) {
    return shard.Delete(digest, std::move(answer));
  };
  bool was_there = false;
  std::optional<Error> why;
  for (size_t place = 0; place < shards_.places(); ++place) {
    const Until limit = shards_.TimeFor(place, until);
    Result<bool> removed = co_await shards_.Call<bool>(shards_.ShardOf(digest, place), remove, limit, until);
    CO_TRY(until.Check());
    if (removed) was_there |= *removed;
    if (!removed && !why) why = std::move(removed).error();
  }
  if (why) co_return *std::move(why);
  co_return was_there;
}

}  // namespace ingot::cache
