// SPDX-License-Identifier: Apache-2.0
#include "cache/store/rocks_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "cache/store/damage_reports.h"
#include "cache/store/disk_room.h"
#include "cache/store/known_totals.h"
#include "cache/store/pending_uses.h"
#include "cache/store/row.h"
#include "cache/store/row_changes.h"
#include "cache/store/row_pages.h"
#include "cache/store/rows_audit.h"
#include "cache/store/stored_value.h"

namespace ingot::cache {
namespace {

using Kind = RowChange::Kind;

class RocksStore final : public Store {
 public:
  RocksStore(std::string dir, std::unique_ptr<RocksDb> db, const RocksStoreOptions& options)
      : dir_(std::move(dir)),
        options_(options),
        db_(std::move(db)),
        room_(dir_, options_),
        uses_(16 * options.touches_max),
        damages_(options.damages_max) {
    // A random start makes ids of different openings differ.
    std::random_device random;
    next_write_id_ = static_cast<uint64_t>(random()) << 32 | random();
  }
  ~RocksStore() override { Ignore(WriteTouches(), "uses may be lost"); }

  /// Removes the chunks of writes that did not commit, and counts damage reports.
  Status Recover();

  Result<uint64_t> Read(Table table, const Digest& key, Sink& sink) override;
  Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const PutOptions& options) override;
  Result<bool> Delete(Table table, const Digest& key, std::optional<uint64_t> expected) override;
  Result<Stat> StatOf(Table table, const Digest& key) override;
  void Touch(Table table, const Digest& key) override { uses_.Add(table, key, options_.clock->now_s()); }
  Status Pin(Table table, const Digest& key, bool pinned) override;
  Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) override {
    TRY_ASSIGN(Page<StoreRow> page, PageOfFacts(*db_, table, after, limit));
    uses_.AddTo(page);
    return page;
  }
  Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                   size_t limit) override {
    return PageOfGroup(*db_, table, group, after, limit);
  }
  Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) override {
    return PageOfGroupNames(*db_, table, after, limit);
  }
  Result<std::string> GroupOf(Table table, const Digest& key) override;
  Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) override;
  std::array<Totals, kTables> TotalsOf() override;
  int64_t half_life_s() const override { return options_.use_half_life_s; }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override {
    return DamageReports::ForEach(*db_, fn);
  }
  Status Compact(std::stop_token stop) override;
  std::string Describe() const override;
  std::string Trouble() const override { return db_->Trouble(); }

 private:
  /// Times that a change is tried: again once the disk works again, or where the database was opened anew under it.
  static constexpr int kTries = 2;

  Mutex& MutexOf(const Digest& key) { return mutexes_[key.low % mutexes_.size()]; }
  uint64_t NextWriteId();
  Status RemoveInterrupted();
  /// Forgets writes that failed after they wrote chunks. Takes mutexes of keys.
  void ClearAbandoned();
  void ReadTotals();
  /// Sets right what follows from the values and does not agree with them. Takes mutexes of keys, one at a time.
  Status SetRowsRight(std::stop_token stop);
  /// True where a change that failed may be tried again: the disk works, and the database is not in the middle of more.
  bool MayTryAgain(uint64_t opening);
  Result<uint64_t> PutLocked(Table table, const Digest& key, Bytes value, const Digest& digest,
                             const PutOptions& options);
  /// The methods below need the key's mutex.
  Status Write(Table table, const Digest& key, Bytes value, const CommitRow& row, const PutOptions& options,
               const Result<FactsRow>& before, uint64_t opening);
  /// Facts that are damaged or missing are made from the value's record, as if it were written now.
  Result<FactsRow> ReadFacts(Table table, const Digest& key);
  Status Erase(Table table, const Digest& key, const Result<FactsRow>& facts, const RowChange* also, uint64_t opening);
  Status Commit(RowChanges& changes, bool sync);
  Error Quarantine(Table table, const Digest& key, const CommitRow& row, const Error& error);
  Status WriteTouches();

  const std::string dir_;
  const RocksStoreOptions options_;
  const std::unique_ptr<RocksDb> db_;
  std::atomic<uint64_t> next_write_id_;
  DiskRoom room_;
  std::atomic<bool> rows_damaged_{false};
  // Writers of one key take turns; keys share a small fixed set of mutexes.
  static constexpr size_t kMutexes = 64;
  std::array<Mutex, kMutexes> mutexes_;
  PendingUses uses_;
  KnownTotals totals_;
  Mutex abandoned_mutex_;
  std::vector<std::pair<TableKey, uint64_t>> abandoned_ GUARDED_BY(abandoned_mutex_);  ///< with the write id
  bool is_recovered_ GUARDED_BY(abandoned_mutex_) = false;
  DamageReports damages_;
};

Status RocksStore::Recover() {
  if (db_->Trouble().empty()) TRY(RemoveInterrupted());
  TRY(damages_.Count(*db_));
  ReadTotals();
  return {};
}

Status RocksStore::RemoveInterrupted() {
  // Nobody writes before this has succeeded, so that no mark belongs to a write in progress.
  MutexLock lock(abandoned_mutex_);
  if (is_recovered_) return {};
  std::vector<RowChange> changes;
  TRY(db_->Scan(Family::kPending, "", [&](Bytes key, Bytes) {
    changes.push_back({Kind::kErasePrefix, Family::kChunks, std::string(AsText(key))});
    changes.push_back({Kind::kErase, Family::kPending, std::string(AsText(key))});
    return true;
  }));
  if (!changes.empty()) {
    LogInfo("removed interrupted writes", {{"dir", dir_}, {"count", changes.size() / 2}});
    TRY(db_->Apply(changes, /*sync=*/false));
  }
  is_recovered_ = true;
  return {};
}

void RocksStore::ClearAbandoned() {
  std::vector<std::pair<TableKey, uint64_t>> abandoned;
  {
    MutexLock lock(abandoned_mutex_);
    // What is seen of them before the database is opened anew may not be on the disk.
    if (!db_->Trouble().empty()) return;
    abandoned.swap(abandoned_);
  }
  for (const auto& [name, write_id] : abandoned) {
    MutexLock lock(MutexOf(name.key));
    const uint64_t opening = db_->opening();
    const Result<FactsRow> facts = ReadFacts(name.table, name.key);
    // A commit whose sync failed may have been made all the same.
    if (facts && facts->stat.version == write_id) continue;
    const std::string write_key = WriteKey(name.table, name.key, write_id);
    const RowChange undo[] = {{Kind::kErasePrefix, Family::kChunks, write_key},
                              {Kind::kErase, Family::kPending, write_key}};
    const bool known = facts || facts.error().code() == Code::kNotFound;
    if (known && db_->Apply(undo, /*sync=*/false, opening)) continue;
    MutexLock again(abandoned_mutex_);
    abandoned_.emplace_back(name, write_id);
  }
}

void RocksStore::ReadTotals() {
  if (!totals_.Read(*db_, dir_)) rows_damaged_ = true;
}

std::array<Totals, kTables> RocksStore::TotalsOf() {
  if (const auto totals = totals_.Of(db_->opening())) return *totals;
  // What the memory says was added to the database before; which of it is there now, it alone knows.
  std::array<std::optional<MutexLock>, kMutexes> locks;
  for (size_t i = 0; i < kMutexes; ++i) locks[i].emplace(mutexes_[i]);
  ReadTotals();
  return totals_.last();
}

bool RocksStore::MayTryAgain(uint64_t opening) {
  const bool disturbed = !db_->Trouble().empty() || db_->opening() != opening;
  return disturbed && db_->Mend();
}

uint64_t RocksStore::NextWriteId() {
  const uint64_t id = next_write_id_++;
  return id != 0 ? id : next_write_id_++;
}

Status RocksStore::Commit(RowChanges& changes, bool sync) {
  if (changes.added) {
    const auto& [table, totals] = *changes.added;
    changes.Add(Kind::kAdd, Family::kTotals, std::string(1, static_cast<char>(table)), EncodeTotalsRow(totals));
  }
  TRY(db_->Apply(changes.rows, sync, changes.opening));
  if (changes.added) totals_.Add(changes.added->first, changes.added->second, changes.opening);
  return {};
}

Status RocksStore::Write(Table table, const Digest& key, Bytes value, const CommitRow& row, const PutOptions& options,
                         const Result<FactsRow>& before, uint64_t opening) {
  TRY(room_.Check(value.size()));
  TimeScope timed(Timer::store_write, *options_.metrics, *options_.clock);
  const int64_t now = options_.clock->now_s();
  FactsRow facts{{value.size(), now, now, 0, options.cost_s, false, row.write_id}, row.chunks};
  RowChanges commit(opening);
  commit.added = {table, {1, value.size()}};
  if (before) {
    facts.stat.pinned = before->stat.pinned;
    commit.added->second = {0, value.size() - before->stat.bytes};
    if (before->chunks > 0) {
      commit.Add(Kind::kErasePrefix, Family::kChunks, WriteKey(table, key, before->stat.version));
    }
    if (!before->group.IsZero()) {
      commit.Add(Kind::kErase, Family::kGroups, GroupKey(table, before->group, before->stat.created, key));
    }
  }
  if (!options.group.empty()) {
    facts.group = DigestOf(options.group);
    commit.Add(Kind::kPut, Family::kGroups, GroupKey(table, facts.group, now, key), options.summary);
    commit.Add(Kind::kPut, Family::kGroupNames, GroupPrefix(table, facts.group),
               Buffer(options.group.begin(), options.group.end()));
  }
  commit.SetFacts(table, key, facts, before ? &*before : nullptr, options_.use_half_life_s);
  const std::string write_key = WriteKey(table, key, row.write_id);
  commit.Add(Kind::kPut, FamilyOf(table), RowKey(key), EncodeCommitRow(row, row.chunks == 0 ? value : Bytes()));
  if (row.chunks > 0) commit.Add(Kind::kErase, Family::kPending, write_key);

  Status written;
  const ChunkSizes sizes{options_.chunk_bytes, options_.batch_bytes};
  if (row.chunks > 0) written = WriteChunks(*db_, table, key, row.write_id, value, sizes, opening);
  if (written) written = Commit(commit, options.is_durable);
  if (written) return {};
  if (written.error().code() == Code::kExhausted) options_.metrics->Add(Counter::store_full);
  if (row.chunks > 0) {
    MutexLock lock(abandoned_mutex_);
    abandoned_.emplace_back(TableKey{table, key}, row.write_id);
  }
  return written;
}

Result<uint64_t> RocksStore::Put(Table table, const Digest& key, Bytes value, const PutOptions& options) {
  // Before anything else can end this: who gives bytes a wrong name hears so also where they are not written.
  const Digest digest = DigestOf(value);
  if (table == Table::kArtifacts && digest != key) {
    return Error(Code::kInvalid, fmt::format("artifact {} has bytes whose digest is {}", key.ToHex(), digest.ToHex()));
  }
  TRY(db_->Mend());
  TRY(RemoveInterrupted());
  Result<uint64_t> version = PutLocked(table, key, value, digest, options);
  ClearAbandoned();
  if (version && *version != 0) options_.metrics->Add(Counter::store_writes);
  if (uses_.size() >= options_.touches_max) Ignore(WriteTouches(), "uses may be lost");
  return version;
}

Result<uint64_t> RocksStore::PutLocked(Table table, const Digest& key, Bytes value, const Digest& digest,
                                       const PutOptions& options) {
  MutexLock lock(MutexOf(key));
  CommitRow row{value.size(), digest};
  if (value.size() > options_.chunk_bytes) {
    row.chunks = static_cast<uint32_t>((value.size() + options_.chunk_bytes - 1) / options_.chunk_bytes);
  }
  Status written;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t opening = db_->opening();
    const Result<FactsRow> before = ReadFacts(table, key);
    const bool is_damaged = !before && before.error().code() == Code::kCorrupt;
    if (!before && !is_damaged && before.error().code() != Code::kNotFound) return before.error();
    const uint64_t version = before ? before->stat.version : 0;
    if (row.write_id != 0 && version == row.write_id) return version;  // the try before did it
    // A damaged value has no version; who reads it finds it gone, and may go on from there.
    if (options.expected && (is_damaged || *options.expected != version)) return uint64_t{0};
    row.write_id = NextWriteId();
    written = Write(table, key, value, row, options, before, opening);
    if (written) return row.write_id;
    if (!MayTryAgain(opening)) break;
  }
  return std::move(written).error();
}

Result<uint64_t> RocksStore::Read(Table table, const Digest& key, Sink& sink) {
  TimeScope timed(Timer::store_read, *options_.metrics, *options_.clock);
  CommitRow row;
  Status read = ReadValue(*db_, table, key, options_.value_bytes_max, sink, row);
  // A writer may have replaced the value between the read of its record and of its chunks, so
  // damage counts only when a look without writers finds it too.
  if (!read && read.error().code() == Code::kCorrupt) {
    MutexLock lock(MutexOf(key));
    row = {};
    read = ReadValue(*db_, table, key, options_.value_bytes_max, sink, row);
    if (!read && read.error().code() == Code::kCorrupt) return Quarantine(table, key, row, read.error());
  }
  TRY(std::move(read));
  options_.metrics->Add(Counter::store_reads);
  return row.write_id;
}

Error RocksStore::Quarantine(Table table, const Digest& key, const CommitRow& row, const Error& error) {
  options_.metrics->Add(Counter::store_corrupt);
  LogWarn("quarantined a damaged value",
          {{"dir", dir_}, {"table", NameOf(table)}, {"key", key.ToHex()}, {"write", row.write_id}, {"reason", error}});
  const RowChange report = DamageReports::Of(table, key, options_.clock->now_s(), error);
  if (db_->Mend()) {
    const uint64_t opening = db_->opening();
    Ignore(Erase(table, key, ReadFacts(table, key), &report, opening), "the value stays refused by its digest");
  }
  damages_.CutOldest(*db_);
  return Error(Code::kCorrupt,
               fmt::format("{} in {} was damaged and is removed: {}", key.ToHex(), NameOf(table), error.message()));
}

Result<FactsRow> RocksStore::ReadFacts(Table table, const Digest& key) {
  FactsRow facts;
  const Status read = db_->Read(Family::kFacts, FactsKey(table, key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(facts, DecodeFactsRow(bytes));
    return {};
  });
  if (read) return facts;
  if (read.error().code() != Code::kNotFound && read.error().code() != Code::kCorrupt) return read.error();
  CommitRow row;
  const Status found = db_->Read(FamilyOf(table), RowKey(key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(row, DecodeCommitRow(bytes));
    return {};
  });
  if (!found) return found.error();
  LogWarn("the facts of a value were missing or damaged",
          {{"dir", dir_}, {"table", NameOf(table)}, {"key", key.ToHex()}});
  rows_damaged_ = true;
  return FactsFromValue(row, options_.clock->now_s());
}

Status RocksStore::Erase(Table table, const Digest& key, const Result<FactsRow>& facts, const RowChange* also,
                         uint64_t opening) {
  RowChanges changes(opening);
  changes.EraseValue(table, key, facts);
  if (also != nullptr) changes.rows.push_back(*also);
  return Commit(changes, /*sync=*/false);
}

Result<bool> RocksStore::Delete(Table table, const Digest& key, std::optional<uint64_t> expected) {
  MutexLock lock(MutexOf(key));
  uses_.Forget(table, key);
  TRY(db_->Mend());
  Status erased;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t opening = db_->opening();
    const Result<FactsRow> facts = ReadFacts(table, key);
    if (!facts && facts.error().code() == Code::kNotFound) {
      if (i > 0) return true;  // the try before did it
      if (expected) return false;
      return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
    }
    if (expected && (!facts || facts->stat.version != *expected)) return false;
    erased = Erase(table, key, facts, nullptr, opening);
    if (erased) return true;
    if (!MayTryAgain(opening)) break;
  }
  return std::move(erased).error();
}

Result<Stat> RocksStore::StatOf(Table table, const Digest& key) {
  Result<FactsRow> facts = ReadFacts(table, key);
  if (!facts && facts.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  TRY_ASSIGN(FactsRow row, std::move(facts));
  uses_.AddTo(table, key, row.stat);
  return row.stat;
}

Status RocksStore::WriteTouches() {
  for (const auto& [name, use] : uses_.Take()) {
    MutexLock lock(MutexOf(name.key));
    TRY(db_->Mend());
    RowChanges changes(db_->opening());
    const Result<FactsRow> before = ReadFacts(name.table, name.key);
    if (!before) continue;
    FactsRow facts = *before;
    facts.stat.hits += use.hits;
    facts.stat.used = std::max(facts.stat.used, use.last);
    changes.SetFacts(name.table, name.key, facts, &*before, options_.use_half_life_s);
    TRY(Commit(changes, /*sync=*/false));
  }
  return {};
}

Status RocksStore::Pin(Table table, const Digest& key, bool pinned) {
  MutexLock lock(MutexOf(key));
  TRY(db_->Mend());
  Status written;
  for (int i = 0; i < kTries; ++i) {
    RowChanges changes(db_->opening());
    const Result<FactsRow> before = ReadFacts(table, key);
    // A value that is damaged as a whole goes when it is read.
    if (!before && (before.error().code() == Code::kNotFound || before.error().code() == Code::kCorrupt)) {
      return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
    }
    if (!before) return before.error();
    FactsRow facts = *before;
    facts.stat.pinned = pinned;
    changes.SetFacts(table, key, facts, &*before, options_.use_half_life_s);
    written = Commit(changes, /*sync=*/true);
    if (written || !MayTryAgain(changes.opening)) break;
  }
  return written;
}

Result<std::string> RocksStore::GroupOf(Table table, const Digest& key) {
  TRY_ASSIGN(const FactsRow facts, ReadFacts(table, key));
  std::string group;
  if (facts.group.IsZero()) return group;
  TRY(db_->Read(Family::kGroupNames, GroupPrefix(table, facts.group), [&](Bytes name) -> Status {
    group = AsText(name);
    return {};
  }));
  return group;
}

Result<Page<StoreRow>> RocksStore::Cheapest(Table table, const std::string& after, size_t limit) {
  TRY_ASSIGN(const Page<std::string> keys, PageOfOrder(*db_, table, after, limit));
  Page<StoreRow> page{{}, keys.next};
  for (const std::string& row_key : keys.rows) {
    const auto parts = PartsOfOrderKey(AsBytes(row_key));
    if (!parts) continue;
    const Digest& key = parts->second;
    Result<FactsRow> facts = ReadFacts(table, key);
    const auto is_stale = [&] {
      if (!facts) return facts.error().code() == Code::kNotFound;
      return facts->stat.pinned || OrderKey(table, facts->score, key) != row_key;
    };
    if (is_stale()) {
      MutexLock lock(MutexOf(key));
      const uint64_t opening = db_->opening();
      facts = ReadFacts(table, key);
      // A row that belongs to no value is in nobody's way but here.
      const RowChange erase{Kind::kErase, Family::kOrder, row_key};
      if (is_stale()) Ignore(db_->Apply({&erase, 1}, /*sync=*/false, opening), "it is met again");
      continue;
    }
    page.rows.push_back({table, key, facts ? facts->stat : Stat{}});
  }
  uses_.AddTo(page);
  return page;
}

Status RocksStore::SetRowsRight(std::stop_token stop) {
  RowsAuditOptions audit;
  audit.repair = true;
  audit.mutex_of = [this](const Digest& key) -> Mutex& { return MutexOf(key); };
  audit.now_s = options_.clock->now_s();
  audit.use_half_life_s = options_.use_half_life_s;
  audit.stop = std::move(stop);
  // Totals that do not agree are a sign that other rows may not either.
  TRY_ASSIGN(RowsReport report, AuditTotals(*db_, audit));
  if (report.faults == 0 && !rows_damaged_) return {};
  rows_damaged_ = true;
  TRY_ASSIGN(report, AuditRows(*db_, audit));
  rows_damaged_ = false;
  for (const std::string& text : report.texts) LogWarn("set a row right", {{"dir", dir_}, {"what", text}});
  totals_.Forget();
  return {};
}

Status RocksStore::Compact(std::stop_token stop) {
  Status compacted;
  for (int i = 0; i < kTries; ++i) {
    TRY(db_->Mend());
    TRY(WriteTouches());
    compacted = SetRowsRight(stop);
    if (compacted) compacted = db_->Compact(stop);
    // What was read wrong once is read again.
    if (compacted || compacted.error().code() != Code::kCorrupt) break;
  }
  return compacted;
}

std::string RocksStore::Describe() const {
  std::string text = fmt::format("rocksdb {}, {:.1f} MB, ", dir_, db_->DiskBytes() / 1e6);
  const std::string trouble = db_->Trouble();
  if (!trouble.empty()) return text + "read only: " + trouble;
  text += room_.is_full() ? "read only: the disk is full" : "writable";
  if (rows_damaged_) text += "; rows beside its values were damaged, `ingot gc` sets them right";
  return text;
}

}  // namespace

Result<std::unique_ptr<Store>> OpenRocksStore(const std::string& dir, const RocksStoreOptions& options) {
  TRY_ASSIGN(std::unique_ptr<RocksDb> db, RocksDb::Open(dir, options.db));
  auto store = std::make_unique<RocksStore>(dir, std::move(db), options);
  TRY(store->Recover());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace ingot::cache
