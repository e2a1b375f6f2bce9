// SPDX-License-Identifier: Apache-2.0
#include "cache/index/local_index.h"

#include <algorithm>
#include <utility>

#include "cache/index/listing_place.h"
#include "cache/store/row.h"

namespace ingot::cache {

Result<Record> LocalIndex::ReadRecord(const RecordKey& key) {
  Result<Value> value = store_.Get(key.table, key.digest);
  if (value) return Record{std::move(value->bytes), value->version};
  const Code code = value.error().code();
  if (code == Code::kNotFound || code == Code::kCorrupt) return Record{};
  return std::move(value).error();
}

Task<std::vector<Record>> LocalIndex::Get(std::vector<RecordKey> keys, Until until) {
  std::vector<Record> out;
  for (const RecordKey& key : keys) {
    CO_TRY(until.Check());
    CO_TRY_ASSIGN(Record record, ReadRecord(key));
    out.push_back(std::move(record));
  }
  co_return out;
}

Task<uint64_t> LocalIndex::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                         Until until) {
  CO_TRY(until.Check());
  CO_TRY(CheckRecord(value, facts));
  const PutOptions options{facts.cost_s, expected, std::move(facts.group), std::move(facts.summary), facts.is_durable};
  CO_TRY_ASSIGN(const uint64_t version, store_.Put(key.table, key.digest, value, options));
  if (version != 0) waiters_.Wake(key.digest);
  co_return version;
}

Task<bool> LocalIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  CO_TRY(until.Check());
  CO_TRY_ASSIGN(const bool deleted, store_.Delete(key.table, key.digest, expected));
  if (deleted) waiters_.Wake(key.digest);
  co_return deleted;
}

Task<RecordPage> LocalIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                  Until until) {
  CO_TRY(until.Check());
  limit = std::max<size_t>(limit, 1);
  RecordPage out;
  std::string from;
  if (group) {
    if (!after.empty()) {
      CO_TRY_ASSIGN(auto place, PartsOfGroupPlace(after));
      if (!ToNextDigest(place.second)) --place.first;
      from = GroupKey(table, {}, place.first, place.second).substr(GroupPrefix(table, {}).size());
    }
    CO_TRY_ASSIGN(Page<GroupRow> page, store_.ListGroup(table, *group, from, limit));
    for (GroupRow& row : page.rows) out.rows.push_back({row.key, std::move(row.summary), row.created});
    if (!page.next.empty()) out.next = GroupPlace(out.rows.back().created, out.rows.back().digest);
    co_return out;
  }
  if (!after.empty()) {
    CO_TRY_ASSIGN(Digest place, DigestOfPlace(after));
    if (!ToNextDigest(place)) co_return out;
    from = RowKey(place);
  }
  CO_TRY_ASSIGN(Page<StoreRow> page, store_.List(table, from, limit));
  for (const StoreRow& row : page.rows) out.rows.push_back({row.key, {}, row.stat.created});
  if (!page.next.empty()) out.next = TablePlace(out.rows.back().digest);
  co_return out;
}

Task<Index::GroupPage> LocalIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  CO_TRY(until.Check());
  GroupPage out;
  std::string from;
  if (!after.empty()) {
    CO_TRY_ASSIGN(Digest place, DigestOfPlace(after));
    if (!ToNextDigest(place)) co_return out;
    from = RowKey(place);
  }
  CO_TRY_ASSIGN(Page<std::string> page, store_.ListGroups(table, from, std::max<size_t>(limit, 1)));
  out.groups = std::move(page.rows);
  if (!page.next.empty()) out.next = GroupNamePlace(out.groups.back());
  co_return out;
}

Task<Record> LocalIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  while (true) {
    // Before the record is read: what is written after that wakes it.
    const WaiterRef waiter = waiters_.Enlist(key.digest);
    CO_TRY_ASSIGN(Record record, ReadRecord(key));
    if (record.version != seen) co_return record;
    CO_TRY(co_await Waiter::Wait(waiter, until));
  }
}

}  // namespace ingot::cache
