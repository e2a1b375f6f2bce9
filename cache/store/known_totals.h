// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "cache/store/rocks_db.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// What the tables of a store hold together, as the database said when it was opened and with what was added since.
/// Thread-safe.
class KnownTotals {
 public:
  /// Reads them from the database, of the store in `dir`. False: some cannot be read, and count as nothing.
  bool Read(RocksDb& db, const std::string& dir);
  /// nullopt where they were read from another opening than that.
  std::optional<std::array<Totals, kTables>> Of(uint64_t opening) const;
  /// As they were last, whatever they were read from.
  std::array<Totals, kTables> last() const;
  /// What a change of this opening has added, with wrap-around.
  void Add(Table table, const Totals& added, uint64_t opening);
  /// They are to be read again when somebody asks.
  void Forget();

 private:
  mutable Mutex mutex_;
  std::array<Totals, kTables> totals_ GUARDED_BY(mutex_);
  uint64_t opening_ GUARDED_BY(mutex_) = 0;  ///< which they were read from; 0: none
};

}  // namespace ingot::cache
