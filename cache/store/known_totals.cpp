// SPDX-License-Identifier: Apache-2.0
#include "cache/store/known_totals.h"

#include "base/log.h"
#include "cache/store/row.h"

namespace ingot::cache {

bool KnownTotals::Read(RocksDb& db, const std::string& dir) {
  const uint64_t opening = db.opening();
  bool is_whole = true;
  std::array<Totals, kTables> totals;
  for (size_t t = 0; t < kTables; ++t) {
    const Status read = db.Read(Family::kTotals, std::string(1, static_cast<char>(t)), [&](Bytes bytes) -> Status {
      TRY_ASSIGN(totals[t], DecodeTotalsRow(bytes));
      return {};
    });
    if (read || read.error().code() == Code::kNotFound) continue;
    LogWarn("the totals of a store cannot be read", {{"dir", dir}, {"reason", read.error()}});
    is_whole = false;
  }
  MutexLock lock(mutex_);
  totals_ = totals;
  opening_ = opening;
  return is_whole;
}

std::optional<std::array<Totals, kTables>> KnownTotals::Of(uint64_t opening) const {
  MutexLock lock(mutex_);
  if (opening_ != opening) return std::nullopt;
  return totals_;
}

std::array<Totals, kTables> KnownTotals::last() const {
  MutexLock lock(mutex_);
  return totals_;
}

void KnownTotals::Add(Table table, const Totals& added, uint64_t opening) {
  MutexLock lock(mutex_);
  if (opening_ != opening) return;  // they are read again when somebody asks
  totals_[static_cast<size_t>(table)].count += added.count;
  totals_[static_cast<size_t>(table)].bytes += added.bytes;
}

void KnownTotals::Forget() {
  MutexLock lock(mutex_);
  opening_ = 0;
}

}  // namespace ingot::cache
