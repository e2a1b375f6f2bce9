// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/store.h"

namespace ingot::cache {

struct MemoryStoreOptions {
  /// Bytes of all values; a write beyond is refused with kExhausted.
  uint64_t bytes_max = 1ull << 30;
  const Clock* clock = &SystemClock();
};

/// A Store that lives as long as the process. Thread-safe.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(const MemoryStoreOptions& options = {}) : options_(options) {}

  Result<Buffer> Get(Table table, const Digest& key) override;
  Status Put(Table table, const Digest& key, Bytes value, double cost_s) override;
  Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) override;
  Status Delete(Table table, const Digest& key) override;
  Result<Stat> StatOf(Table table, const Digest& key) override;
  void Touch(Table table, const Digest& key) override;
  Status Pin(Table table, const Digest& key, bool pinned) override;
  Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) override;
  Status ForEachDamaged(const std::function<bool(const Damage&)>&) override { return {}; }
  Status Compact() override { return {}; }
  std::string Describe() const override;

 private:
  struct Row {
    std::shared_ptr<const Buffer> value;  // shared with readers that copy it without the lock
    Stat stat;
  };
  using Rows = std::unordered_map<Digest, Row>;

  Rows& RowsOf(Table table) REQUIRES(mutex_) { return rows_[static_cast<size_t>(table)]; }
  Status Write(Table table, const Digest& key, Bytes value, double cost_s) REQUIRES(mutex_);

  const MemoryStoreOptions options_;
  mutable Mutex mutex_;
  std::array<Rows, kTables> rows_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ingot::cache
