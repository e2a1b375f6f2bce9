// SPDX-License-Identifier: Apache-2.0
#include "cache/store/rows_audit.h"

#include <fmt/format.h>

#include <list>
#include <optional>
#include <utility>

#include "cache/store/row.h"

namespace ingot::cache {
namespace {

using Kind = RowChange::Kind;

constexpr size_t kAuditedRows = 256;
constexpr size_t kTextsMax = 20;
constexpr size_t kWriteKeyBytes = 25;

/// The first key after all that begin with `prefix`.
std::string After(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

class Audit {
 public:
  Audit(RocksDb& db, const RowsAuditOptions& options) : db_(db), options_(options) {}

  Result<RowsReport> Rows() {
    for (size_t t = 0; t < kTables; ++t) {
      const auto table = static_cast<Table>(t);
      TRY(ForEach(static_cast<Family>(t), [&](const std::string& row_key) -> Status {
        if (row_key.size() != 16) return Stray(static_cast<Family>(t), row_key);
        TRY_ASSIGN(const Digest key, DigestFromFactsKey(AsBytes(std::string(1, static_cast<char>(t)) + row_key)));
        return CheckValue(table, key);
      }));
    }
    TRY(ForEachOfKey(Family::kFacts, 17, 17, &Audit::CheckFacts));
    TRY(ForEachOfKey(Family::kOrder, 25, 25, &Audit::CheckOrder));
    TRY(ForEachOfKey(Family::kGroups, 41, 41, &Audit::CheckGroup));
    TRY(ForEachOfKey(Family::kPending, kWriteKeyBytes, kWriteKeyBytes, &Audit::CheckPending));
    TRY(ForEachOfKey(Family::kChunks, kWriteKeyBytes + 4, kWriteKeyBytes, &Audit::CheckChunks));
    TRY(CountTotals());
    return std::move(report_);
  }

  Result<RowsReport> OnlyTotals() {
    TRY(CountTotals());
    return std::move(report_);
  }

 private:
  /// Changes that make rows right, from what was read at `opening`.
  struct Repair {
    std::vector<RowChange> rows;
    std::list<Buffer> held;
    uint64_t opening = 0;
    void Add(Kind kind, Family family, std::string key, Buffer value = {}) {
      held.push_back(std::move(value));
      rows.push_back({kind, family, std::move(key), held.back()});
    }
  };

  Status Fault(std::string text, const Repair& repair) {
    ++report_.faults;
    if (report_.texts.size() < kTextsMax) report_.texts.push_back(std::move(text));
    return options_.repair ? db_.Apply(repair.rows, /*sync=*/false, repair.opening) : Status();
  }
  Status Stray(Family family, const std::string& row_key) {
    Repair repair{.rows = {}, .held = {}, .opening = db_.opening()};
    repair.Add(Kind::kErase, family, row_key);
    return Fault(fmt::format("a row of family {} has a key of {} bytes", static_cast<int>(family), row_key.size()),
                 repair);
  }

  /// Calls `check` with each key of the family, a page at a time. `prefix_bytes`: once for all that begin alike.
  Status ForEach(Family family, const std::function<Status(const std::string&)>& check, size_t prefix_bytes = 0) {
    std::string from;
    for (bool more = true; more;) {
      if (options_.stop.stop_requested()) return Error(Code::kCancelled, "looking at rows was told to stop");
      std::vector<std::string> keys;
      more = false;
      TRY(db_.Scan(
          family, "",
          [&](Bytes key, Bytes) {
            keys.emplace_back(AsText(key));
            // Chunks are large, so one row of each write is read.
            more = keys.size() == kAuditedRows || prefix_bytes != 0;
            return !more;
          },
          from));
      for (const std::string& key : keys) TRY(check(key));
      if (keys.empty()) return {};
      from = prefix_bytes == 0 ? keys.back() + '\0' : After(keys.back().substr(0, prefix_bytes));
      if (from.empty()) return {};
    }
    return {};
  }

  using Check = Status (Audit::*)(Table, const Digest&, const std::string& row_key, uint64_t opening);
  /// For families whose keys begin with the table and name the value: at their second byte, or at their end.
  Status ForEachOfKey(Family family, size_t bytes, size_t prefix_bytes, Check check) {
    const bool at_end = family == Family::kOrder || family == Family::kGroups;
    return ForEach(
        family,
        [&](const std::string& row_key) -> Status {
          if (row_key.size() != bytes || static_cast<uint8_t>(row_key[0]) >= kTables) return Stray(family, row_key);
          const std::string named = row_key[0] + row_key.substr(at_end ? bytes - 16 : 1, 16);
          TRY_ASSIGN(const Digest key, DigestFromFactsKey(AsBytes(named)));
          std::optional<MutexLock> lock;
          if (options_.mutex_of) lock.emplace(options_.mutex_of(key));
          return (this->*check)(static_cast<Table>(row_key[0]), key, row_key, db_.opening());
        },
        family == Family::kChunks ? prefix_bytes : 0);
  }

  template <typename Row>
  Result<Row> ReadAs(Family family, const std::string& key, Result<Row> (*decode)(Bytes)) {
    std::optional<Row> row;
    TRY(db_.Read(family, key, [&](Bytes bytes) -> Status {
      TRY_ASSIGN(row, decode(bytes));
      return {};
    }));
    return *row;
  }
  Result<CommitRow> ReadCommit(Table table, const Digest& key) {
    return ReadAs<CommitRow>(static_cast<Family>(table), RowKey(key), &DecodeCommitRow);
  }
  Result<FactsRow> ReadFacts(Table table, const Digest& key) {
    return ReadAs<FactsRow>(Family::kFacts, FactsKey(table, key), &DecodeFactsRow);
  }
  Result<bool> Has(Family family, const std::string& key) {
    const Status read = db_.Read(family, key, [](Bytes) { return Status(); });
    if (read) return true;
    if (read.error().code() == Code::kNotFound) return false;
    return read.error();
  }
  static bool IsOfDisk(const Error& error) { return error.code() != Code::kNotFound && error.code() != Code::kCorrupt; }
  static std::string Name(Table table, const Digest& key) { return fmt::format("{} {}", NameOf(table), key.ToHex()); }

  Status CheckValue(Table table, const Digest& key) {
    std::optional<MutexLock> lock;
    if (options_.mutex_of) lock.emplace(options_.mutex_of(key));
    Repair repair{.rows = {}, .held = {}, .opening = db_.opening()};
    const Result<CommitRow> row = ReadCommit(table, key);
    if (!row && IsOfDisk(row.error())) return row.error();
    if (!row) return {};  // whoever reads it takes it away
    Result<FactsRow> facts = ReadFacts(table, key);
    if (!facts && IsOfDisk(facts.error())) return facts.error();
    const bool agrees = facts && facts->stat.version == row->write_id && facts->stat.bytes == row->bytes &&
                        facts->chunks == row->chunks;
    if (!agrees) {
      FactsRow made = FactsFromValue(*row, options_.now_s);
      made.score = ScoreOf(made.stat, options_.use_half_life_s);
      repair.Add(Kind::kPut, Family::kFacts, FactsKey(table, key), EncodeFactsRow(made));
      repair.Add(Kind::kPut, Family::kOrder, OrderKey(table, made.score, key));
      return Fault(Name(table, key) + ": facts are missing or not those of its record", repair);
    }
    if (!facts->stat.pinned) {
      TRY_ASSIGN(const bool in_order, Has(Family::kOrder, OrderKey(table, facts->score, key)));
      if (!in_order) {
        repair.Add(Kind::kPut, Family::kOrder, OrderKey(table, facts->score, key));
        TRY(Fault(Name(table, key) + ": no row in the order", repair));
      }
    }
    if (facts->group.IsZero()) return {};
    const std::string group_key = GroupKey(table, facts->group, facts->stat.created, key);
    TRY_ASSIGN(const bool named, Has(Family::kGroupNames, GroupPrefix(table, facts->group)));
    TRY_ASSIGN(const bool listed, Has(Family::kGroups, group_key));
    if (named && listed) return {};
    Repair of_group{.rows = {}, .held = {}, .opening = repair.opening};
    if (named) {
      of_group.Add(Kind::kPut, Family::kGroups, group_key);
    } else {
      of_group.Add(Kind::kErase, Family::kGroups, group_key);
      facts->group = {};
      of_group.Add(Kind::kPut, Family::kFacts, FactsKey(table, key), EncodeFactsRow(*facts));
    }
    return Fault(fmt::format("{}: {}", Name(table, key), named ? "not listed in its group" : "its group has no name"),
                 of_group);
  }

  Status CheckFacts(Table table, const Digest& key, const std::string& row_key, uint64_t opening) {
    const Result<bool> has_value = Has(static_cast<Family>(table), RowKey(key));
    if (!has_value) return IsOfDisk(has_value.error()) ? Status(has_value.error()) : Status();
    if (*has_value) return {};
    Repair repair{.rows = {}, .held = {}, .opening = opening};
    repair.Add(Kind::kErase, Family::kFacts, row_key);
    return Fault(Name(table, key) + ": facts of no value", repair);
  }
  Status CheckOrder(Table table, const Digest& key, const std::string& row_key, uint64_t opening) {
    const Result<FactsRow> facts = ReadFacts(table, key);
    if (!facts && IsOfDisk(facts.error())) return facts.error();
    if (facts && !facts->stat.pinned && OrderKey(table, facts->score, key) == row_key) return {};
    Repair repair{.rows = {}, .held = {}, .opening = opening};
    repair.Add(Kind::kErase, Family::kOrder, row_key);
    return Fault(Name(table, key) + ": a row in the order that is not its own", repair);
  }
  Status CheckGroup(Table table, const Digest& key, const std::string& row_key, uint64_t opening) {
    const Result<FactsRow> facts = ReadFacts(table, key);
    if (!facts && IsOfDisk(facts.error())) return facts.error();
    if (facts && GroupKey(table, facts->group, facts->stat.created, key) == row_key) return {};
    Repair repair{.rows = {}, .held = {}, .opening = opening};
    repair.Add(Kind::kErase, Family::kGroups, row_key);
    return Fault(Name(table, key) + ": listed in a group that it is not in", repair);
  }
  // Under its key's mutex no write is in progress.
  Status CheckPending(Table table, const Digest& key, const std::string& row_key, uint64_t opening) {
    TRY_ASSIGN(const bool still, Has(Family::kPending, row_key));
    if (!still) return {};
    return DropWrite(table, key, row_key, opening, "the mark of a write that did not commit");
  }
  Status CheckChunks(Table table, const Digest& key, const std::string& row_key, uint64_t opening) {
    const Result<CommitRow> row = ReadCommit(table, key);
    if (!row && IsOfDisk(row.error())) return row.error();
    // Of a record that is damaged, reading it takes the chunks too.
    if (!row && row.error().code() == Code::kCorrupt) return {};
    const std::string write_key = row_key.substr(0, kWriteKeyBytes);
    if (row && row->chunks > 0 && WriteKey(table, key, row->write_id) == write_key) return {};
    TRY_ASSIGN(const bool still, Has(Family::kChunks, row_key));
    if (!still) return {};
    return DropWrite(table, key, write_key, opening, "chunks of no value");
  }
  Status DropWrite(Table table, const Digest& key, const std::string& write_key, uint64_t opening, const char* what) {
    Repair repair{.rows = {}, .held = {}, .opening = opening};
    repair.Add(Kind::kErase, Family::kPending, write_key);
    const Result<CommitRow> row = ReadCommit(table, key);
    if (!row && IsOfDisk(row.error())) return row.error();
    if (!row || WriteKey(table, key, row->write_id) != write_key) {
      repair.Add(Kind::kErasePrefix, Family::kChunks, write_key);
    }
    return Fault(fmt::format("{}: {}", Name(table, key), what), repair);
  }

  Status CountTotals() {
    const uint64_t opening = db_.opening();
    std::array<Totals, kTables> have{};
    TRY(db_.Look([&](RocksDb::View& view) -> Status {
      for (size_t t = 0; t < kTables; ++t) {
        const std::string prefix(1, static_cast<char>(t));
        TRY(view.Scan(Family::kFacts, prefix, [&](Bytes, Bytes bytes) {
          const Result<FactsRow> facts = DecodeFactsRow(bytes);
          ++report_.totals[t].count;
          report_.totals[t].bytes += facts ? facts->stat.bytes : 0;
          return !options_.stop.stop_requested();
        }));
        const Status read = view.Read(Family::kTotals, prefix, [&](Bytes bytes) -> Status {
          // Adding to a damaged row begins at nothing.
          const Result<Totals> totals = DecodeTotalsRow(bytes);
          if (totals) have[t] = *totals;
          return {};
        });
        if (!read && read.error().code() != Code::kNotFound) return read;
      }
      return {};
    }));
    if (options_.stop.stop_requested()) return Error(Code::kCancelled, "counting was told to stop");
    for (size_t t = 0; t < kTables; ++t) {
      const Totals& found = report_.totals[t];
      if (found.count == have[t].count && found.bytes == have[t].bytes) continue;
      Repair repair{.rows = {}, .held = {}, .opening = opening};
      repair.Add(Kind::kAdd, Family::kTotals, std::string(1, static_cast<char>(t)),
                 EncodeTotalsRow({found.count - have[t].count, found.bytes - have[t].bytes}));
      TRY(Fault(fmt::format("{}: {} values of {} bytes in all, the totals say {} of {}", NameOf(static_cast<Table>(t)),
                            found.count, found.bytes, have[t].count, have[t].bytes),
                repair));
    }
    return {};
  }

  RocksDb& db_;
  const RowsAuditOptions& options_;
  RowsReport report_;
};

}  // namespace

Result<RowsReport> AuditRows(RocksDb& db, const RowsAuditOptions& options) { return Audit(db, options).Rows(); }

Result<RowsReport> AuditTotals(RocksDb& db, const RowsAuditOptions& options) { return Audit(db, options).OnlyTotals(); }

}  // namespace ingot::cache
