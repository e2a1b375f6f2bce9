// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/metrics.h"
#include "base/mutex.h"
#include "cache/store.h"

namespace ingot::cache {

struct TierOptions {
  /// Bytes of all values kept in memory; the least recently used go first. 0 keeps none.
  uint64_t bytes_max = 256u << 20;
  /// A larger value is not kept.
  uint64_t value_bytes_max = 64u << 20;
  Metrics* metrics = &GlobalMetrics();
};

/// Keeps recently used values of another store in memory.
///
/// Invariant: memory holds a value only as the store behind holds it; every write goes to the
/// store behind first. Thread-safe; memory hits take one lock and one copy.
class TieredStore final : public Store {
 public:
  TieredStore(std::unique_ptr<Store> behind, const TierOptions& options)
      : behind_(std::move(behind)), options_(options) {}

  Result<Buffer> Get(Table table, const Digest& key) override;
  Status Put(Table table, const Digest& key, Bytes value, double cost_s) override;
  Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) override;
  Status Delete(Table table, const Digest& key) override;
  Result<Stat> StatOf(Table table, const Digest& key) override {
    return behind_->StatOf(table, key);
  }
  void Touch(Table table, const Digest& key) override { behind_->Touch(table, key); }
  Status Pin(Table table, const Digest& key, bool pinned) override {
    return behind_->Pin(table, key, pinned);
  }
  Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) override {
    return behind_->ForEach(table, fn);
  }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override {
    return behind_->ForEachDamaged(fn);
  }
  Status Compact() override { return behind_->Compact(); }
  std::string Describe() const override;

  /// Bytes of the values in memory.
  uint64_t memory_bytes() const;

 private:
  struct Key {
    Table table;
    Digest digest;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<Digest>()(key.digest) + static_cast<size_t>(key.table);
    }
  };
  struct Row {
    Key key;
    std::shared_ptr<const Buffer> value;
  };
  using Rows = std::list<Row>;  // most recently used first

  void Keep(const Key& key, Bytes value, uint64_t epoch);
  void Drop(const Key& key);
  void DropRow(Rows::iterator row) REQUIRES(mutex_);

  const std::unique_ptr<Store> behind_;
  const TierOptions options_;
  mutable Mutex mutex_;
  Rows rows_ GUARDED_BY(mutex_);
  std::unordered_map<Key, Rows::iterator, KeyHash> index_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  // Counts writes: a value read before a write must not be kept after it.
  uint64_t epoch_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ingot::cache
