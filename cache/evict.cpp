// SPDX-License-Identifier: Apache-2.0
#include "cache/evict.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/log.h"

namespace ingot::cache {
namespace {

struct Totals {
  uint64_t bytes = 0;
  uint64_t entries = 0;

  void Add(const Candidate& c) {
    bytes += c.stat.bytes;
    entries += c.table == Table::kEntries;
  }
  void Remove(const Candidate& c) {
    bytes -= c.stat.bytes;
    entries -= c.table == Table::kEntries;
  }
  bool OverBytes(const EvictLimits& limits) const {
    return limits.bytes_max != 0 && bytes > limits.bytes_max;
  }
  bool OverEntries(const EvictLimits& limits) const {
    return limits.entries_max != 0 && entries > limits.entries_max;
  }
};

bool MayGo(const Candidate& c, const EvictLimits& limits, int64_t now_s) {
  return !c.stat.pinned && now_s - c.stat.created >= limits.grace_s;
}

bool IsTooOld(const Candidate& c, const EvictLimits& limits, int64_t now_s) {
  return limits.age_s_max != 0 && now_s - c.stat.used > limits.age_s_max;
}

}  // namespace

std::string_view NameOf(EvictReason reason) {
  static constexpr std::string_view kNames[] = {"age", "bytes", "entries"};
  return kNames[static_cast<size_t>(reason)];
}

double ValueOf(const Stat& stat, const EvictLimits& limits, int64_t now_s) {
  const double idle_s = static_cast<double>(std::max<int64_t>(0, now_s - stat.used));
  const double recent_use = (1.0 + static_cast<double>(stat.hits)) *
                            std::exp2(-idle_s / static_cast<double>(limits.use_half_life_s));
  // The damaged facts of a store must not make a value that sorts nowhere.
  const double cost_s = std::isfinite(stat.cost_s) ? std::max(stat.cost_s, 1e-6) : 1e-6;
  return cost_s * recent_use / static_cast<double>(std::max<uint64_t>(stat.bytes, 1));
}

std::vector<Victim> ChooseVictims(std::span<const Candidate> candidates, const EvictLimits& limits,
                                  int64_t now_s) {
  Totals left;
  std::vector<Victim> victims;
  std::vector<std::pair<double, const Candidate*>> by_value;
  for (const Candidate& c : candidates) {
    left.Add(c);
    if (MayGo(c, limits, now_s)) by_value.emplace_back(ValueOf(c.stat, limits, now_s), &c);
  }
  // Ties go to the key, so that the same store gives the same choice.
  std::sort(by_value.begin(), by_value.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->table, a.second->key) <
           std::tie(b.first, b.second->table, b.second->key);
  });
  const auto take = [&](const Candidate& c, EvictReason reason) {
    left.Remove(c);
    victims.push_back({c, reason});
  };
  for (const auto& [value, c] : by_value) {
    if (victims.size() == limits.victims_max) return victims;
    if (IsTooOld(*c, limits, now_s)) take(*c, EvictReason::kAge);
  }
  for (const auto& [value, c] : by_value) {
    if (victims.size() == limits.victims_max) return victims;
    if (IsTooOld(*c, limits, now_s)) continue;
    if (left.OverBytes(limits)) {
      take(*c, EvictReason::kBytes);
    } else if (left.OverEntries(limits) && c->table == Table::kEntries) {
      take(*c, EvictReason::kEntries);
    }
  }
  return victims;
}

Result<EvictReport> EvictStep(Store& store, const EvictLimits& limits, const Clock& clock,
                              Metrics& metrics) {
  Totals left;
  std::vector<Candidate> candidates;
  for (size_t t = 0; t < kTables; ++t) {
    const Table table = static_cast<Table>(t);
    TRY(store.ForEach(table, [&](const Digest& key, const Stat& stat) {
      candidates.push_back({table, key, stat});
      left.Add(candidates.back());
      return true;
    }));
  }
  std::vector<Victim> victims = ChooseVictims(candidates, limits, clock.now_s());
  EvictReport report;
  for (const Victim& victim : victims) {
    const Candidate& c = victim.candidate;
    Status deleted = store.Delete(c.table, c.key);
    // Somebody else may have deleted it meanwhile.
    if (!deleted && deleted.error().code() != Code::kNotFound) return std::move(deleted).error();
    left.Remove(c);
    ++report.evicted;
    report.evicted_bytes += c.stat.bytes;
    LogDebug("evicted", {{"table", NameOf(c.table)},
                         {"key", c.key.ToHex()},
                         {"bytes", c.stat.bytes},
                         {"reason", NameOf(victim.reason)}});
  }
  metrics.Add(Counter::evictions, report.evicted);
  metrics.Add(Counter::evicted_bytes, report.evicted_bytes);
  report.bytes = left.bytes;
  report.entries = left.entries;
  report.more = victims.size() == limits.victims_max && victims.size() > 0;
  report.victims = std::move(victims);
  return report;
}

}  // namespace ingot::cache
