// SPDX-License-Identifier: Apache-2.0
#include "cache/store/damage_reports.h"

#include <string>
#include <vector>

#include "cache/store/row.h"

namespace ingot::cache {

RowChange DamageReports::Of(Table table, const Digest& key, int64_t now_s, const Error& error) {
  return {RowChange::Kind::kPut, Family::kQuarantine, QuarantineKey(now_s, table, key), AsBytes(error.message())};
}

Status DamageReports::ForEach(RocksDb& db, const std::function<bool(const Damage&)>& fn) {
  return db.Scan(Family::kQuarantine, "", [&](Bytes key, Bytes reason) {
    if (key.size() != 8 + 17 || key[8] >= kTables) return true;
    const Result<Digest> digest = DigestFromFactsKey(key.subspan(8));
    uint64_t found = 0;
    for (size_t i = 0; i < 8; ++i) found = found << 8 | key[i];
    return fn({static_cast<Table>(key[8]), *digest, static_cast<int64_t>(found), std::string(AsText(reason))});
  });
}

Status DamageReports::Count(RocksDb& db) {
  size_t count = 0;
  TRY(db.Scan(Family::kQuarantine, "", [&](Bytes, Bytes) { return ++count != 0; }));
  MutexLock lock(mutex_);
  count_ = count;
  return {};
}

void DamageReports::CutOldest(RocksDb& db) {
  std::vector<RowChange> oldest;
  MutexLock lock(mutex_);
  if (++count_ > reports_max_) {
    Ignore(db.Scan(Family::kQuarantine, "",
                   [&](Bytes oldest_key, Bytes) REQUIRES(mutex_) {
                     oldest.push_back({RowChange::Kind::kErase, Family::kQuarantine, std::string(AsText(oldest_key))});
                     return count_ - oldest.size() > reports_max_;
                   }),
           "the list is cut next time");
    if (db.Apply(oldest, /*sync=*/false)) count_ -= oldest.size();
  }
}

}  // namespace ingot::cache
