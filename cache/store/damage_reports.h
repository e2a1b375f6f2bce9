// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/digest.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cache/store/rocks_db.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// Reports of values that were damaged, of which the oldest go first. Thread-safe.
class DamageReports {
 public:
  explicit DamageReports(size_t reports_max) : reports_max_(reports_max) {}

  /// The row of a report; it refers to the error.
  static RowChange Of(Table table, const Digest& key, int64_t now_s, const Error& error);
  /// Oldest first, until `fn` returns false.
  static Status ForEach(RocksDb& db, const std::function<bool(const Damage&)>& fn);
  /// Counts what a store that is opened has.
  Status Count(RocksDb& db);
  /// One report more has been written: as many of the oldest go as there are too many.
  void CutOldest(RocksDb& db);

 private:
  const size_t reports_max_;
  Mutex mutex_;
  size_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ingot::cache
