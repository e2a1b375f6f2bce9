// SPDX-License-Identifier: Apache-2.0
#include "cache/store/evict.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/log.h"
#include "cache/store/row.h"

namespace ingot::cache {
namespace {

constexpr size_t kPageRows = 256;
/// Each row of what is worth least costs a read of its own, and a step takes no more than this many victims.
constexpr size_t kCheapestRows = 64;

/// Values of one table, those worth least first, as they are asked for.
class CheapestFirst {
 public:
  CheapestFirst(Store& store, Table table) : store_(store), table_(table) {}

  /// nullptr after the last.
  Result<const StoreRow*> Peek() {
    while (at_ == page_.rows.size() && !is_last_) {
      TRY_ASSIGN(page_, store_.Cheapest(table_, page_.next, kCheapestRows));
      at_ = 0;
      is_last_ = page_.next.empty();
    }
    return at_ == page_.rows.size() ? nullptr : &page_.rows[at_];
  }
  void Next() { ++at_; }

 private:
  Store& store_;
  const Table table_;
  Page<StoreRow> page_;
  size_t at_ = 0;
  bool is_last_ = false;
};

}  // namespace

struct Evictor::Plan {
  const EvictLimits& limits;
  int64_t now_s = 0;
  EvictReport report;
  std::set<std::pair<Table, Digest>> chosen;
  size_t looks = 0;

  bool IsFull() const { return report.victims.size() >= limits.victims_max || looks >= limits.looks_max; }
  /// A value of the future was written by a clock that was wrong, and has no grace.
  bool MayGo(const Stat& stat) const {
    return !stat.pinned && (stat.created > now_s || now_s - stat.created >= limits.grace_s);
  }
  bool IsOverBytes() const { return limits.bytes_max != 0 && report.bytes > limits.bytes_max; }
  bool IsOverEntries() const { return limits.entries_max != 0 && report.entries > limits.entries_max; }
  void Take(const StoreRow& row, EvictReason reason) {
    if (!chosen.insert({row.table, row.key}).second) return;
    report.victims.push_back({row, reason, {}});
    report.evicted_bytes += row.stat.bytes;
    report.bytes -= std::min(report.bytes, row.stat.bytes);
    if (row.table == Table::kEntries && report.entries != 0) --report.entries;
  }
};

std::string_view NameOf(EvictReason reason) {
  static constexpr std::string_view kNames[] = {"age", "bytes", "entries"};
  return kNames[static_cast<size_t>(reason)];
}

Status Evictor::ChooseByAge(Plan& plan) {
  if (plan.limits.age_s_max == 0) return {};
  while (!plan.IsFull()) {
    TRY_ASSIGN(const Page<StoreRow> page, store_.List(static_cast<Table>(walk_table_), walk_after_, kPageRows));
    walk_after_ = page.next;
    for (const StoreRow& row : page.rows) {
      if (plan.IsFull()) {
        walk_after_ = RowKey(row.key);
        break;
      }
      ++plan.looks;
      if (plan.MayGo(row.stat) && plan.now_s - row.stat.used > plan.limits.age_s_max) {
        plan.Take(row, EvictReason::kAge);
      }
    }
    if (!walk_after_.empty()) continue;
    walk_table_ = (walk_table_ + 1) % kTables;
    if (walk_table_ == 0) return {};
  }
  plan.report.more = true;
  return {};
}

Status Evictor::ChooseByWorth(Plan& plan) {
  std::vector<CheapestFirst> tables;
  for (size_t t = 0; t < kTables; ++t) tables.emplace_back(store_, static_cast<Table>(t));
  while (plan.IsOverBytes() || plan.IsOverEntries()) {
    if (plan.IsFull()) {
      plan.report.more = true;
      return {};
    }
    // The scores of all tables are of one kind, so the least of their firsts is the least of all.
    CheapestFirst* least = nullptr;
    double least_score = std::numeric_limits<double>::infinity();
    for (size_t t = 0; t < kTables; ++t) {
      if (!plan.IsOverBytes() && static_cast<Table>(t) != Table::kEntries) continue;
      TRY_ASSIGN(const StoreRow* const row, tables[t].Peek());
      if (row == nullptr) continue;
      const double score = ScoreOf(row->stat, store_.half_life_s());
      if (least != nullptr && score >= least_score) continue;
      least = &tables[t];
      least_score = score;
    }
    if (least == nullptr) return {};
    TRY_ASSIGN(const StoreRow* const row, least->Peek());
    ++plan.looks;
    if (plan.MayGo(row->stat)) plan.Take(*row, plan.IsOverBytes() ? EvictReason::kBytes : EvictReason::kEntries);
    least->Next();
  }
  return {};
}

Result<EvictReport> Evictor::Step(const EvictLimits& limits, bool dry_run) {
  Plan plan{.limits = limits, .now_s = clock_.now_s(), .report = {}, .chosen = {}};
  const auto totals = store_.TotalsOf();
  for (const Totals& table : totals) plan.report.bytes += table.bytes;
  plan.report.entries = totals[static_cast<size_t>(Table::kEntries)].count;
  TRY(ChooseByAge(plan));
  // What the walk looked at takes nothing from the limits that must hold.
  plan.looks = 0;
  TRY(ChooseByWorth(plan));
  if (dry_run) return std::move(plan.report);
  for (Victim& victim : plan.report.victims) {
    const StoreRow& row = victim.row;
    if (Result<std::string> group = store_.GroupOf(row.table, row.key)) victim.group = std::move(group).value();
    // What was written or used meanwhile is another matter; somebody else may have deleted it.
    const Result<bool> deleted = store_.Delete(row.table, row.key, row.stat.version);
    if (!deleted) return deleted.error();
    LogDebug("evicted", {{"table", NameOf(row.table)},
                         {"key", row.key.ToHex()},
                         {"bytes", row.stat.bytes},
                         {"reason", NameOf(victim.reason)}});
  }
  metrics_.Add(Counter::evictions, plan.report.victims.size());
  metrics_.Add(Counter::evicted_bytes, plan.report.evicted_bytes);
  return std::move(plan.report);
}

}  // namespace ingot::cache
