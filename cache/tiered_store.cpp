// SPDX-License-Identifier: Apache-2.0
#include "cache/tiered_store.h"

#include <fmt/format.h>

namespace ingot::cache {

Result<Buffer> TieredStore::Get(Table table, const Digest& key) {
  const Key row_key{table, key};
  std::shared_ptr<const Buffer> kept;
  uint64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
    if (const auto found = index_.find(row_key); found != index_.end()) {
      rows_.splice(rows_.begin(), rows_, found->second);
      kept = found->second->value;
    }
  }
  if (kept != nullptr) {
    options_.metrics->Add(Counter::memory_hits);
    return *kept;
  }
  TRY_ASSIGN(Buffer value, behind_->Get(table, key));
  Keep(row_key, value, epoch);
  return value;
}

// Memory is dropped before and after the write: before, so that nobody reads the old value from
// memory once the new one can be read behind; after, because a reader may have kept the old one.
Status TieredStore::Put(Table table, const Digest& key, Bytes value, double cost_s) {
  Drop({table, key});
  Status put = behind_->Put(table, key, value, cost_s);
  Drop({table, key});
  return put;
}

Result<bool> TieredStore::PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) {
  Result<bool> put = behind_->PutIfAbsent(table, key, value, cost_s);
  // Memory may hold what the store behind has lost to damage.
  if (put && *put) Drop({table, key});
  return put;
}

Status TieredStore::Delete(Table table, const Digest& key) {
  Drop({table, key});
  Status deleted = behind_->Delete(table, key);
  Drop({table, key});
  return deleted;
}

void TieredStore::Keep(const Key& key, Bytes value, uint64_t epoch) {
  if (value.size() > options_.value_bytes_max || value.size() > options_.bytes_max) return;
  auto copy = std::make_shared<const Buffer>(value.begin(), value.end());
  MutexLock lock(mutex_);
  if (epoch != epoch_ || index_.contains(key)) return;
  rows_.push_front({key, std::move(copy)});
  index_[key] = rows_.begin();
  bytes_ += value.size();
  while (bytes_ > options_.bytes_max) DropRow(std::prev(rows_.end()));
}

void TieredStore::Drop(const Key& key) {
  MutexLock lock(mutex_);
  ++epoch_;
  if (const auto found = index_.find(key); found != index_.end()) DropRow(found->second);
}

void TieredStore::DropRow(Rows::iterator row) {
  bytes_ -= row->value->size();
  index_.erase(row->key);
  rows_.erase(row);
}

uint64_t TieredStore::memory_bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

std::string TieredStore::Describe() const {
  return fmt::format("{}, {:.1f} MB in memory", behind_->Describe(), memory_bytes() / 1e6);
}

}  // namespace ingot::cache
