// SPDX-License-Identifier: Apache-2.0
#include "cache/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ingot::cache {
namespace {

Error Missing(Table table, const Digest& key) {
  return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
}

}  // namespace

Result<Buffer> MemoryStore::Get(Table table, const Digest& key) {
  std::shared_ptr<const Buffer> value;
  {
    MutexLock lock(mutex_);
    const auto found = RowsOf(table).find(key);
    if (found == RowsOf(table).end()) return Missing(table, key);
    value = found->second.value;
  }
  return *value;
}

Status MemoryStore::Write(Table table, const Digest& key, Bytes value, double cost_s) {
  const auto found = RowsOf(table).find(key);
  const uint64_t before = found == RowsOf(table).end() ? 0 : found->second.stat.bytes;
  if (bytes_ - before + value.size() > options_.bytes_max) {
    return Error(Code::kExhausted,
                 fmt::format("a value of {} bytes does not fit: {} of {} bytes are used",
                             value.size(), bytes_, options_.bytes_max));
  }
  const int64_t now = options_.clock->now_s();
  Row& row = RowsOf(table)[key];
  row.value = std::make_shared<const Buffer>(value.begin(), value.end());
  row.stat = {value.size(), now, now, 0, cost_s, row.stat.pinned};
  bytes_ += value.size() - before;
  return {};
}

Status MemoryStore::Put(Table table, const Digest& key, Bytes value, double cost_s) {
  MutexLock lock(mutex_);
  return Write(table, key, value, cost_s);
}

Result<bool> MemoryStore::PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) {
  MutexLock lock(mutex_);
  if (RowsOf(table).contains(key)) return false;
  TRY(Write(table, key, value, cost_s));
  return true;
}

Status MemoryStore::Delete(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  const auto found = RowsOf(table).find(key);
  if (found == RowsOf(table).end()) return Missing(table, key);
  bytes_ -= found->second.stat.bytes;
  RowsOf(table).erase(found);
  return {};
}

Result<Stat> MemoryStore::StatOf(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  const auto found = RowsOf(table).find(key);
  if (found == RowsOf(table).end()) return Missing(table, key);
  return found->second.stat;
}

void MemoryStore::Touch(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  const auto found = RowsOf(table).find(key);
  if (found == RowsOf(table).end()) return;
  ++found->second.stat.hits;
  found->second.stat.used = options_.clock->now_s();
}

Status MemoryStore::Pin(Table table, const Digest& key, bool pinned) {
  MutexLock lock(mutex_);
  const auto found = RowsOf(table).find(key);
  if (found == RowsOf(table).end()) return Missing(table, key);
  found->second.stat.pinned = pinned;
  return {};
}

Status MemoryStore::ForEach(Table table,
                            const std::function<bool(const Digest&, const Stat&)>& fn) {
  // `fn` runs without the lock, so that it may call this store.
  std::vector<std::pair<Digest, Stat>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, row] : RowsOf(table)) all.emplace_back(key, row.stat);
  }
  // In the order of the hex digits, as the store on disk has it.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.high, a.first.low) < std::pair(b.first.high, b.first.low);
  });
  for (const auto& [key, stat] : all) {
    if (!fn(key, stat)) break;
  }
  return {};
}

std::string MemoryStore::Describe() const {
  MutexLock lock(mutex_);
  return fmt::format("memory, {:.1f} of {:.1f} MB, writable", bytes_ / 1e6,
                     options_.bytes_max / 1e6);
}

}  // namespace ingot::cache
