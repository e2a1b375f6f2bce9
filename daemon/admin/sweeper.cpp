// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/sweeper.h"

#include <algorithm>

#include "base/log.h"
#include "daemon/core.h"

namespace ingot::daemon {
namespace {

/// Where a limit was passed, this part of it becomes free: a full store is not swept at every write.
constexpr uint64_t kRoomShare = 1024;

proto::Reason ReasonOf(cache::EvictReason reason) {
  switch (reason) {
    case cache::EvictReason::kAge: return proto::Reason::Age;
    case cache::EvictReason::kEntries: return proto::Reason::Entries;
    case cache::EvictReason::kBytes: break;
  }
  return proto::Reason::Bytes;
}

}  // namespace

Sweeper::Sweeper(Core& core) : core_(core), evictor_(core.store, core.clock) {}

cache::EvictLimits Sweeper::Limits() const {
  const Config& config = core_.config;
  cache::EvictLimits limits;
  limits.bytes_max = core_.store_note.bytes_max();
  limits.entries_max = config.store_entries_max;
  limits.age_s_max = static_cast<int64_t>(config.gc_age_s_max);
  limits.grace_s = static_cast<int64_t>(config.gc_grace_s);
  return limits;
}

cache::EvictLimits Sweeper::LimitsWithRoom() const {
  cache::EvictLimits limits = Limits();
  limits.bytes_max -= limits.bytes_max / kRoomShare;
  limits.entries_max -= std::min<uint64_t>(limits.entries_max / kRoomShare, limits.victims_max);
  return limits;
}

void Sweeper::Ask() {
  MutexLock lock(mutex_);
  if (asked_) return;
  asked_ = core_.pool.Post([this] {
    const Result<cache::EvictReport> report = Sweep(LimitsWithRoom(), /*dry_run=*/false);
    if (!report) {
      LogWarn("evicted nothing", {{"reason", report.error()}});
    } else if (report->more) {
      Ask();
    }
  });
}

void Sweeper::Wrote() {
  const cache::EvictLimits limits = Limits();
  uint64_t bytes = 0;
  const auto totals = core_.store.TotalsOf();
  for (const cache::Totals& table : totals) bytes += table.bytes;
  const uint64_t entries = totals[static_cast<size_t>(cache::Table::kEntries)].count;
  const bool over =
      (limits.bytes_max != 0 && bytes > limits.bytes_max) || (limits.entries_max != 0 && entries > limits.entries_max);
  if (over) Ask();
}

Result<cache::EvictReport> Sweeper::Step(bool dry_run) {
  cache::EvictLimits limits = Limits();
  // What would go is asked by people: all of it, as far as a list goes, where a step would take a part.
  if (dry_run) limits.victims_max = limits.looks_max = core_.config.list_entries_max;
  return Sweep(limits, dry_run);
}

Result<cache::EvictReport> Sweeper::Sweep(const cache::EvictLimits& limits, bool dry_run) {
  if (!dry_run) {
    MutexLock lock(mutex_);
    asked_ = false;
  }
  Result<cache::EvictReport> step = cache::EvictReport{};
  {
    MutexLock lock(step_mutex_);
    step = evictor_.Step(limits, dry_run);
  }
  TRY_ASSIGN(cache::EvictReport report, std::move(step));
  if (report.victims.empty() || dry_run) return report;
  std::vector<Tombstone> stones;
  for (const cache::Victim& victim : report.victims) {
    const auto& [table, key, stat] = victim.row;
    Tombstone stone{table, key, ReasonOf(victim.reason), core_.clock.now_s(), {}};
    if (table == cache::Table::kEntries) {
      stone.function = victim.group;
      core_.entries.Forget(key);
    } else if (table == cache::Table::kArtifacts) {
      core_.artifacts.Forget(key);
    } else {
      continue;
    }
    stones.push_back(std::move(stone));
  }
  core_.tombstones.Add(std::move(stones));
  LogInfo("evicted", {{"values", report.victims.size()},
                      {"bytes", report.evicted_bytes},
                      {"left_bytes", report.bytes},
                      {"left_entries", report.entries}});
  return report;
}

}  // namespace ingot::daemon
