// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cache/store/rocks_db.h"
#include "cache/store/store.h"

namespace ingot::cache {

struct RowsAuditOptions {
  /// Make rows that disagree again from the values' own records.
  bool repair = false;
  /// The mutex under which the rows of a key change; empty: nobody changes any.
  std::function<Mutex&(const Digest&)> mutex_of;
  /// For facts that are made again.
  int64_t now_s = 0;
  int64_t use_half_life_s = 7 * 86'400;
  std::stop_token stop = {};
};

struct RowsReport {
  std::array<Totals, kTables> totals;
  uint64_t faults = 0;
  /// The first of them, in words.
  std::vector<std::string> texts;
};

/// Walks through all rows beside the values (facts, order, groups, chunks, marks, totals) and says which do not follow
/// from the values' records. Reads no value. Its work grows with what the database holds; others go on meanwhile.
/// Errors: those of the disk; kCancelled by `stop`.
Result<RowsReport> AuditRows(RocksDb& db, const RowsAuditOptions& options);

/// The totals alone: counted from the facts.
Result<RowsReport> AuditTotals(RocksDb& db, const RowsAuditOptions& options);

}  // namespace ingot::cache
