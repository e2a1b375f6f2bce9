// SPDX-License-Identifier: Apache-2.0
#include "cache/index/sharded_index.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "cache/async/together.h"
#include "cache/index/listing_place.h"

namespace ingot::cache {
namespace {

/// Records that are read at once, where many are asked for.
constexpr size_t kReadsAtOnce = 16;

template <typename T>
using Calls = Shards<Index>::Calls<T>;

/// A row with its place, of a page of one shard or of all.
template <typename Row>
struct Placed {
  std::string place;
  Row row;
};
template <typename Row>
struct PlacedPage {
  std::vector<Placed<Row>> rows;
  std::string next;
};

/// The first `limit` rows of all, and where the next page begins. What stands behind the end of a page that goes on is
/// not known yet.
template <typename Row>
PlacedPage<Row> Merge(std::vector<PlacedPage<Row>> pages, size_t limit) {
  PlacedPage<Row> out;
  for (PlacedPage<Row>& page : pages) {
    if (!page.next.empty() && (out.next.empty() || page.next < out.next)) out.next = page.next;
    std::move(page.rows.begin(), page.rows.end(), std::back_inserter(out.rows));
  }
  const auto by_place = [](const auto& a, const auto& b) { return a.place < b.place; };
  const auto same_place = [](const auto& a, const auto& b) { return a.place == b.place; };
  std::stable_sort(out.rows.begin(), out.rows.end(), by_place);
  // One may be in several shards.
  out.rows.erase(std::unique(out.rows.begin(), out.rows.end(), same_place), out.rows.end());
  if (!out.next.empty()) std::erase_if(out.rows, [&](const auto& row) { return row.place > out.next; });
  if (out.rows.size() > limit) {
    out.rows.resize(limit);
    out.next = out.rows.back().place;
  }
  return out;
}

}  // namespace

Task<Record> ShardedIndex::GetOne(RecordKey key, Until until) {
  const Calls<std::vector<Record>> read = [key](Index& shard, Until answer) {
    return shard.Get(std::vector<RecordKey>{key}, std::move(answer));
  };
  CO_TRY_ASSIGN(auto found, co_await shards_.CallFirst<std::vector<Record>>(key.digest, read, until));
  const size_t next = found.second + 1;
  if (!found.first.front().exists() && next < shards_.places()) {
    const Until limit = until.AtMost(until.Left() / 2);
    const size_t shard = shards_.ShardOf(key.digest, next);
    Result<std::vector<Record>> there = co_await shards_.Call<std::vector<Record>>(shard, read, limit, until);
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
    CO_TRY_ASSIGN(const auto written, co_await shards_.CallFirst<uint64_t>(key.digest, write, until));
    co_return Mark(written.first, written.second);
  }
  const size_t place = expected % kPlaces;
  Result<uint64_t> written = co_await shards_.CallAt<uint64_t>(place, key.digest, write, until);
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
  co_return co_await shards_.CallAt<bool>(expected % kPlaces, key.digest, remove, until);
}

Task<RecordPage> ShardedIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                    Until until) {
  using Row = RecordPage::Row;
  limit = std::max<size_t>(limit, 1);
  // Each gives as many as may all stand in this page.
  std::vector<PlacedPage<Row>> pages(shards_.size());
  std::function<Task<void>(size_t, Until)> job = [&](size_t i, Until left) -> Task<void> {
    CO_TRY_ASSIGN(RecordPage page, co_await shards_.port(i).List(table, group, after, limit, std::move(left)));
    pages[i].next = std::move(page.next);
    for (Row& row : page.rows) {
      std::string place = group ? GroupPlace(row.created, row.digest) : TablePlace(row.digest);
      pages[i].rows.push_back({std::move(place), std::move(row)});
    }
    co_return Status();
  };
  CO_TRY(co_await Together(shards_.size(), shards_.size(), std::move(job), until));
  PlacedPage<Row> merged = Merge(std::move(pages), limit);
  RecordPage out;
  out.next = std::move(merged.next);
  for (Placed<Row>& row : merged.rows) out.rows.push_back(std::move(row.row));
  co_return out;
}

Task<Index::GroupPage> ShardedIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  limit = std::max<size_t>(limit, 1);
  std::vector<PlacedPage<std::string>> pages(shards_.size());
  std::function<Task<void>(size_t, Until)> job = [&](size_t i, Until left) -> Task<void> {
    CO_TRY_ASSIGN(GroupPage page, co_await shards_.port(i).Groups(table, after, limit, std::move(left)));
    pages[i].next = std::move(page.next);
    for (std::string& group : page.groups) {
      std::string place = GroupNamePlace(group);
      pages[i].rows.push_back({std::move(place), std::move(group)});
    }
    co_return Status();
  };
  CO_TRY(co_await Together(shards_.size(), shards_.size(), std::move(job), until));
  PlacedPage<std::string> merged = Merge(std::move(pages), limit);
  GroupPage out;
  out.next = std::move(merged.next);
  for (Placed<std::string>& group : merged.rows) out.groups.push_back(std::move(group.row));
  co_return out;
}

Task<Record> ShardedIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  if (IsOfNone(seen)) co_return co_await GetOne(key, until);
  const size_t place = seen % kPlaces;
  // A wait that ends with its time says nothing of the shard.
  Index& shard = shards_.port(shards_.ShardOf(key.digest, place));
  CO_TRY_ASSIGN(Record record, co_await shard.Changed(key, NumberOf(seen), until));
  record.version = Mark(record.version, place);
  co_return record;
}

Task<Lease> ShardedIndex::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  const Calls<Lease> take = [&](Index& shard, Until answer) {
    return shard.Acquire(key, holder, ttl, std::move(answer));
  };
  CO_TRY_ASSIGN(auto lease, co_await shards_.CallFirst<Lease>(key, take, until));
  lease.first.fence = Mark(lease.first.fence, lease.second);
  co_return std::move(lease.first);
}

Task<bool> ShardedIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                               Until until) {
  const Calls<bool> renew = [&](Index& shard, Until answer) {
    return shard.Renew(key, NumberOf(fence), progress, ttl, std::move(answer));
  };
  if (IsOfNone(fence)) co_return false;
  co_return co_await shards_.CallAt<bool>(fence % kPlaces, key, renew, until);
}

Task<void> ShardedIndex::Release(Digest key, uint64_t fence, Until until) {
  const Calls<void> release = [&](Index& shard, Until answer) {
    return shard.Release(key, NumberOf(fence), std::move(answer));
  };
  if (IsOfNone(fence)) co_return Status();
  co_return co_await shards_.CallAt<void>(fence % kPlaces, key, release, until);
}

Task<Lease> ShardedIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  const size_t place = IsOfNone(fence) ? 0 : fence % kPlaces;
  const size_t shard = shards_.ShardOf(key, place);
  // Not through the breaker: a wait that ends with its time says nothing of the shard.
  Result<Lease> lease = co_await shards_.port(shard).Watch(key, NumberOf(fence), std::move(progress), until);
  if (!lease && lease.error().code() == Code::kUnavailable) shards_.breaker(shard).Failed(lease.error().ToText());
  if (!lease) co_return std::move(lease).error();
  lease->fence = Mark(lease->fence, place);
  co_return *std::move(lease);
}

}  // namespace ingot::cache
