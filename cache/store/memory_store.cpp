// SPDX-License-Identifier: Apache-2.0
#include "cache/store/memory_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/store/row.h"

namespace ingot::cache {
namespace {

Error Missing(Table table, const Digest& key) {
  return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
}

Error BadCursor() { return Error(Code::kInvalid, "a page cannot begin here: take `next` from the page before"); }

}  // namespace

void MemoryStore::Unlink(Rows& rows, const Digest& key, const Row& row) {
  rows.order.erase({ScoreOf(row.stat, options_.use_half_life_s), key});
  if (row.group.empty()) return;
  rows.groups[DigestOf(row.group)].rows.erase({row.stat.created, key});
}

void MemoryStore::Link(Rows& rows, const Digest& key, const Row& row) {
  if (!row.stat.pinned) rows.order.insert({ScoreOf(row.stat, options_.use_half_life_s), key});
  if (row.group.empty()) return;
  Group& group = rows.groups[DigestOf(row.group)];
  group.name = row.group;
  group.rows.insert({row.stat.created, key});
}

Result<uint64_t> MemoryStore::Read(Table table, const Digest& key, Sink& sink) {
  std::shared_ptr<const Buffer> value;
  uint64_t version = 0;
  {
    MutexLock lock(mutex_);
    const auto found = Of(table).rows.find(key);
    if (found == Of(table).rows.end()) return Missing(table, key);
    value = found->second.value;
    version = found->second.stat.version;
  }
  TRY(sink.Begin(value->size()));
  TRY(sink.Add(*value));
  return version;
}

Result<uint64_t> MemoryStore::Put(Table table, const Digest& key, Bytes value, const PutOptions& options) {
  if (table == Table::kArtifacts && DigestOf(value) != key) {
    return Error(Code::kInvalid,
                 fmt::format("artifact {} has bytes whose digest is {}", key.ToHex(), DigestOf(value).ToHex()));
  }
  const int64_t now = options_.clock->now_s();
  auto bytes = std::make_shared<const Buffer>(value.begin(), value.end());
  MutexLock lock(mutex_);
  Rows& rows = Of(table);
  const auto found = rows.rows.find(key);
  const bool exists = found != rows.rows.end();
  if (options.expected && *options.expected != (exists ? found->second.stat.version : 0)) return uint64_t{0};
  const uint64_t before = exists ? found->second.stat.bytes : 0;
  if (bytes_ - before + value.size() > options_.bytes_max) {
    return Error(Code::kExhausted, fmt::format("a value of {} bytes does not fit: {} of {} bytes are used",
                                               value.size(), bytes_, options_.bytes_max));
  }
  Row row{std::move(bytes),
          {value.size(), now, now, 0, options.cost_s, false, next_version_++},
          options.group,
          options.summary};
  if (exists) {
    row.stat.pinned = found->second.stat.pinned;
    Unlink(rows, key, found->second);
  }
  Link(rows, key, row);
  bytes_ += value.size() - before;
  rows.bytes += value.size() - before;
  const uint64_t version = row.stat.version;
  rows.rows.insert_or_assign(key, std::move(row));
  return version;
}

Result<bool> MemoryStore::Delete(Table table, const Digest& key, std::optional<uint64_t> expected) {
  MutexLock lock(mutex_);
  Rows& rows = Of(table);
  const auto found = rows.rows.find(key);
  if (expected && (found == rows.rows.end() || found->second.stat.version != *expected)) return false;
  if (found == rows.rows.end()) return Missing(table, key);
  Unlink(rows, key, found->second);
  bytes_ -= found->second.stat.bytes;
  rows.bytes -= found->second.stat.bytes;
  rows.rows.erase(found);
  return true;
}

Result<Stat> MemoryStore::StatOf(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  const auto found = Of(table).rows.find(key);
  if (found == Of(table).rows.end()) return Missing(table, key);
  return found->second.stat;
}

void MemoryStore::Touch(Table table, const Digest& key) {
  const int64_t now = options_.clock->now_s();
  MutexLock lock(mutex_);
  Rows& rows = Of(table);
  const auto found = rows.rows.find(key);
  if (found == rows.rows.end()) return;
  Unlink(rows, key, found->second);
  ++found->second.stat.hits;
  found->second.stat.used = now;
  Link(rows, key, found->second);
}

Status MemoryStore::Pin(Table table, const Digest& key, bool pinned) {
  MutexLock lock(mutex_);
  Rows& rows = Of(table);
  const auto found = rows.rows.find(key);
  if (found == rows.rows.end()) return Missing(table, key);
  Unlink(rows, key, found->second);
  found->second.stat.pinned = pinned;
  Link(rows, key, found->second);
  return {};
}

Result<Page<StoreRow>> MemoryStore::List(Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor();
  Page<StoreRow> page;
  MutexLock lock(mutex_);
  const auto& rows = Of(table).rows;
  auto at = rows.begin();
  if (!after.empty()) {
    TRY_ASSIGN(const Digest first, DigestFromFactsKey(AsBytes(" " + after)));
    at = rows.lower_bound(first);
  }
  for (; at != rows.end(); ++at) {
    if (page.rows.size() == limit) {
      page.next = RowKey(at->first);
      break;
    }
    page.rows.push_back({table, at->first, at->second.stat});
  }
  return page;
}

Result<Page<GroupRow>> MemoryStore::ListGroup(Table table, const std::string& group, const std::string& after,
                                              size_t limit) {
  Page<GroupRow> page;
  std::pair<int64_t, Digest> first;
  if (!after.empty()) {
    auto parts = PartsOfGroupKey(AsBytes(std::string(17, ' ') + after));
    if (!parts) return Error(Code::kInvalid, std::move(parts).error().message());
    first = *parts;
  }
  MutexLock lock(mutex_);
  Rows& rows = Of(table);
  const auto found = rows.groups.find(DigestOf(group));
  if (found == rows.groups.end()) return page;
  const auto& members = found->second.rows;
  for (auto at = after.empty() ? members.begin() : members.lower_bound(first); at != members.end(); ++at) {
    if (page.rows.size() == limit) {
      page.next = GroupKey(table, {}, at->first, at->second).substr(17);
      break;
    }
    page.rows.push_back({at->second, at->first, rows.rows.at(at->second).summary});
  }
  return page;
}

Result<Page<std::string>> MemoryStore::ListGroups(Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor();
  Page<std::string> page;
  Digest first;
  if (!after.empty()) {
    TRY_ASSIGN(first, DigestFromFactsKey(AsBytes(" " + after)));
  }
  MutexLock lock(mutex_);
  const auto& groups = Of(table).groups;
  for (auto at = groups.lower_bound(first); at != groups.end(); ++at) {
    if (page.rows.size() == limit) {
      page.next = RowKey(at->first);
      break;
    }
    page.rows.push_back(at->second.name);
  }
  return page;
}

Result<std::string> MemoryStore::GroupOf(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  const auto found = Of(table).rows.find(key);
  if (found == Of(table).rows.end()) return Missing(table, key);
  return found->second.group;
}

Result<Page<StoreRow>> MemoryStore::Cheapest(Table table, const std::string& after, size_t limit) {
  Page<StoreRow> page;
  MutexLock lock(mutex_);
  const Rows& rows = Of(table);
  auto at = rows.order.begin();
  if (!after.empty()) {
    TRY_ASSIGN(const auto first, PartsOfOrderKey(AsBytes(" " + after)));
    at = rows.order.lower_bound(first);
  }
  for (; at != rows.order.end(); ++at) {
    if (page.rows.size() == limit) {
      page.next = OrderKey(table, at->first, at->second).substr(1);
      break;
    }
    page.rows.push_back({table, at->second, rows.rows.at(at->second).stat});
  }
  return page;
}

std::array<Totals, kTables> MemoryStore::TotalsOf() {
  std::array<Totals, kTables> totals;
  MutexLock lock(mutex_);
  for (size_t t = 0; t < kTables; ++t) totals[t] = {tables_[t].rows.size(), tables_[t].bytes};
  return totals;
}

std::string MemoryStore::Describe() const {
  MutexLock lock(mutex_);
  return fmt::format("memory, {:.1f} of {:.1f} MB, writable", bytes_ / 1e6, options_.bytes_max / 1e6);
}

}  // namespace ingot::cache
