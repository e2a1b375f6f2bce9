// SPDX-License-Identifier: Apache-2.0
#include "daemon/sweeper.h"

#include "base/log.h"
#include "daemon/core.h"

namespace ingot::daemon {
namespace {

proto::Reason ReasonOf(cache::EvictReason reason) {
  switch (reason) {
    case cache::EvictReason::kAge:
      return proto::Reason::Age;
    case cache::EvictReason::kEntries:
      return proto::Reason::Entries;
    case cache::EvictReason::kBytes:
      break;
  }
  return proto::Reason::Bytes;
}

}  // namespace

cache::EvictLimits Sweeper::Limits() const {
  const Config& config = core_.config;
  cache::EvictLimits limits;
  limits.bytes_max = core_.store_note.bytes_max();
  limits.entries_max = config.store_entries_max;
  limits.age_s_max = static_cast<int64_t>(config.gc_age_s_max);
  limits.grace_s = static_cast<int64_t>(config.gc_grace_s);
  return limits;
}

void Sweeper::Ask() {
  MutexLock lock(mutex_);
  if (asked_) return;
  asked_ = core_.pool.Post([this] {
    const Result<cache::EvictReport> report = Step();
    if (!report) {
      LogWarn("evicted nothing", {{"reason", report.error()}});
    } else if (report->more) {
      Ask();
    }
  });
}

void Sweeper::Wrote(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    bytes_ += bytes;
    ++entries_;
    const cache::EvictLimits limits = Limits();
    const bool over = (limits.bytes_max != 0 && bytes_ > limits.bytes_max) ||
                      (limits.entries_max != 0 && entries_ > limits.entries_max);
    if (known_ && !over) return;
  }
  Ask();
}

Result<cache::EvictReport> Sweeper::Step() {
  {
    MutexLock lock(mutex_);
    asked_ = false;
  }
  TRY_ASSIGN(cache::EvictReport report,
             cache::EvictStep(core_.store, Limits(), core_.clock));
  {
    MutexLock lock(mutex_);
    known_ = true;
    bytes_ = report.bytes;
    entries_ = report.entries;
  }
  if (report.evicted == 0) return report;
  std::vector<Tombstone> stones;
  for (const cache::Victim& victim : report.victims) {
    const auto& [table, key, stat] = victim.candidate;
    Tombstone stone{table, key, ReasonOf(victim.reason), core_.clock.now_s(), {}};
    if (table == cache::Table::kEntries) {
      stone.function = core_.entries.FunctionOf(key);
      core_.entries.Forget(key);
    } else if (table == cache::Table::kArtifacts) {
      core_.artifacts.Forget(key);
    } else {
      continue;
    }
    stones.push_back(std::move(stone));
  }
  core_.tombstones.Add(std::move(stones));
  LogInfo("evicted", {{"values", report.evicted},
                      {"bytes", report.evicted_bytes},
                      {"left_bytes", report.bytes},
                      {"left_entries", report.entries}});
  return report;
}

}  // namespace ingot::daemon
