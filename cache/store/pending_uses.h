// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/digest.h"
#include "base/mutex.h"
#include "cache/store/store.h"

namespace ingot::cache {

struct TableKey {
  Table table;
  Digest key;
  bool operator==(const TableKey&) const = default;
};
struct TableKeyHash {
  size_t operator()(const TableKey& name) const {
    return std::hash<Digest>()(name.key) + static_cast<size_t>(name.table);
  }
};

/// Uses of values that have not been written down. Thread-safe; nothing here waits for a disk.
class PendingUses {
 public:
  struct Use {
    uint64_t hits = 0;
    int64_t last = 0;
  };
  using Map = std::unordered_map<TableKey, Use, TableKeyHash>;

  /// Uses of further values than `values_max` are lost: where nothing is ever written, they are not worth memory.
  explicit PendingUses(size_t values_max) : values_max_(values_max) {}

  void Add(Table table, const Digest& key, int64_t now_s);
  void Forget(Table table, const Digest& key);
  size_t size();
  /// All of them, which are no longer pending.
  Map Take();
  /// What is known of a value, with its uses.
  void AddTo(Table table, const Digest& key, Stat& stat);
  /// A whole page at once: whoever is kept from the processor while he has the lock keeps it from others.
  void AddTo(Page<StoreRow>& page);

 private:
  void AddLocked(Table table, const Digest& key, Stat& stat) REQUIRES(mutex_);

  const size_t values_max_;
  Mutex mutex_;
  Map uses_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
