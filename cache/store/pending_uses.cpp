// SPDX-License-Identifier: Apache-2.0
#include "cache/store/pending_uses.h"

#include <algorithm>
#include <utility>

namespace ingot::cache {

void PendingUses::Add(Table table, const Digest& key, int64_t now_s) {
  MutexLock lock(mutex_);
  const auto found = uses_.find({table, key});
  if (found == uses_.end() && uses_.size() >= values_max_) return;
  Use& use = found == uses_.end() ? uses_[{table, key}] : found->second;
  ++use.hits;
  use.last = now_s;
}

void PendingUses::Forget(Table table, const Digest& key) {
  MutexLock lock(mutex_);
  uses_.erase({table, key});
}

size_t PendingUses::size() {
  MutexLock lock(mutex_);
  return uses_.size();
}

PendingUses::Map PendingUses::Take() {
  MutexLock lock(mutex_);
  return std::exchange(uses_, {});
}

void PendingUses::AddTo(Table table, const Digest& key, Stat& stat) {
  MutexLock lock(mutex_);
  AddLocked(table, key, stat);
}

void PendingUses::AddTo(Page<StoreRow>& page) {
  MutexLock lock(mutex_);
  if (uses_.empty()) return;
  for (StoreRow& row : page.rows) AddLocked(row.table, row.key, row.stat);
}

void PendingUses::AddLocked(Table table, const Digest& key, Stat& stat) {
  const auto found = uses_.find({table, key});
  if (found == uses_.end()) return;
  stat.hits += found->second.hits;
  stat.used = std::max(stat.used, found->second.last);
}

}  // namespace ingot::cache
