// SPDX-License-Identifier: Apache-2.0
#include "cache/rocks_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "cache/row.h"
#include "cache/rows_audit.h"

namespace ingot::cache {
namespace {

using Kind = RowChange::Kind;

Family FamilyOf(Table table) { return static_cast<Family>(table); }

struct TableKey {
  Table table;
  Digest key;
  bool operator==(const TableKey&) const = default;
};
struct TableKeyHash {
  size_t operator()(const TableKey& name) const {
    return std::hash<Digest>()(name.key) + static_cast<size_t>(name.table);
  }
};

Error BadCursor(const std::string& after) {
  return Error(Code::kInvalid,
               fmt::format("a page cannot begin after these {} bytes: take them from the page before", after.size()));
}

class RocksStore final : public Store {
 public:
  RocksStore(std::string dir, std::unique_ptr<RocksDb> db, const RocksStoreOptions& options)
      : dir_(std::move(dir)), options_(options), db_(std::move(db)) {
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
  void Touch(Table table, const Digest& key) override;
  Status Pin(Table table, const Digest& key, bool pinned) override;
  Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) override;
  Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                   size_t limit) override;
  Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) override;
  Result<std::string> GroupOf(Table table, const Digest& key) override;
  Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) override;
  std::array<Totals, kTables> TotalsOf() override;
  int64_t half_life_s() const override { return options_.use_half_life_s; }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override;
  Status Compact(std::stop_token stop) override;
  std::string Describe() const override;
  std::string Trouble() const override { return db_->Trouble(); }

 private:
  /// Times that a change is tried: again once the disk works again, or where the database was opened anew under it.
  static constexpr int kTries = 2;

  struct Use {
    uint64_t hits = 0;
    int64_t last = 0;
  };
  /// The rows of one change, with room for what they hold. Rows refer to it, so it stays where it is.
  struct Changes {
    std::vector<RowChange> rows;
    std::list<Buffer> held;
    std::optional<std::pair<Table, Totals>> added;  ///< to the totals, with wrap-around
    uint64_t opening = 0;  ///< of what they were made from

    explicit Changes(uint64_t of_opening) : opening(of_opening) {}

    void Add(Kind kind, Family family, std::string key, Buffer value = {}) {
      held.push_back(std::move(value));
      rows.push_back({kind, family, std::move(key), held.back()});
    }
  };

  Mutex& MutexOf(const Digest& key) { return mutexes_[key.low % mutexes_.size()]; }
  Status CheckRoom(uint64_t bytes);
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
  Status WriteChunks(Table table, const Digest& key, uint64_t write_id, Bytes value, uint64_t opening);
  /// Facts that are damaged or missing are made from the value's record, as if it were written now.
  Result<FactsRow> ReadFacts(Table table, const Digest& key);
  /// Puts the facts in place of those before, with the order row that belongs to them.
  void ChangeFacts(Changes& changes, Table table, const Digest& key, FactsRow facts, const FactsRow* before) const;
  /// Takes away what was written with the value but the value.
  void EraseFacts(Changes& changes, Table table, const Digest& key, const FactsRow& before) const;
  Status Erase(Table table, const Digest& key, const Result<FactsRow>& facts, const RowChange* also, uint64_t opening);
  Status Commit(Changes& changes, bool sync);
  /// Reads once; `row` tells which write was read, also when its bytes turn out damaged.
  Status ReadValue(Table table, const Digest& key, Sink& sink, CommitRow& row);
  Status ReadChunks(Table table, const Digest& key, const CommitRow& row, const std::function<Status(Bytes)>& use);
  Error Quarantine(Table table, const Digest& key, const CommitRow& row, const Error& error);
  void AddUse(Table table, const Digest& key, Stat& stat) REQUIRES(touch_mutex_);
  /// Of a whole page at once: whoever is kept from the processor while he has the lock keeps it from others.
  void AddUses(Page<StoreRow>& page);
  Status WriteTouches();

  const std::string dir_;
  const RocksStoreOptions options_;
  const std::unique_ptr<RocksDb> db_;
  std::atomic<uint64_t> next_write_id_;
  std::atomic<bool> full_{false};
  std::atomic<bool> rows_damaged_{false};
  // Writers of one key take turns; keys share a small fixed set of mutexes.
  static constexpr size_t kMutexes = 64;
  std::array<Mutex, kMutexes> mutexes_;
  // Never held while the disk is written or read, so that Touch waits for nobody.
  Mutex touch_mutex_;
  std::unordered_map<TableKey, Use, TableKeyHash> touches_ GUARDED_BY(touch_mutex_);
  Mutex totals_mutex_;
  std::array<Totals, kTables> totals_ GUARDED_BY(totals_mutex_);
  uint64_t totals_opening_ GUARDED_BY(totals_mutex_) = 0;  ///< which opening they were read from; 0: none
  Mutex abandoned_mutex_;
  std::vector<std::pair<TableKey, uint64_t>> abandoned_ GUARDED_BY(abandoned_mutex_);  ///< with the write id
  bool is_recovered_ GUARDED_BY(abandoned_mutex_) = false;
  Mutex damage_mutex_;
  size_t damages_ GUARDED_BY(damage_mutex_) = 0;
};

Status RocksStore::Recover() {
  if (db_->Trouble().empty()) TRY(RemoveInterrupted());
  size_t damages = 0;
  TRY(db_->Scan(Family::kQuarantine, "", [&](Bytes, Bytes) { return ++damages != 0; }));
  {
    MutexLock lock(damage_mutex_);
    damages_ = damages;
  }
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
  const uint64_t opening = db_->opening();
  std::array<Totals, kTables> totals;
  for (size_t t = 0; t < kTables; ++t) {
    const Status read = db_->Read(Family::kTotals, std::string(1, static_cast<char>(t)), [&](Bytes bytes) -> Status {
      TRY_ASSIGN(totals[t], DecodeTotalsRow(bytes));
      return {};
    });
    if (read || read.error().code() == Code::kNotFound) continue;
    LogWarn("the totals of a store cannot be read", {{"dir", dir_}, {"reason", read.error()}});
    rows_damaged_ = true;
  }
  MutexLock lock(totals_mutex_);
  totals_ = totals;
  totals_opening_ = opening;
}

std::array<Totals, kTables> RocksStore::TotalsOf() {
  {
    MutexLock lock(totals_mutex_);
    if (totals_opening_ == db_->opening()) return totals_;
  }
  // What the memory says was added to the database before; which of it is there now, it alone knows.
  std::array<std::optional<MutexLock>, kMutexes> locks;
  for (size_t i = 0; i < kMutexes; ++i) locks[i].emplace(mutexes_[i]);
  ReadTotals();
  MutexLock lock(totals_mutex_);
  return totals_;
}

bool RocksStore::MayTryAgain(uint64_t opening) {
  const bool disturbed = !db_->Trouble().empty() || db_->opening() != opening;
  return disturbed && db_->Mend();
}

Status RocksStore::CheckRoom(uint64_t bytes) {
  if (bytes > options_.value_bytes_max) {
    return Error(Code::kExhausted,
                 fmt::format("a value of {} bytes is over the limit of {}", bytes, options_.value_bytes_max));
  }
  // A file system that cannot say how much is free is asked by writing to it.
  const Result<uint64_t> free = options_.filesystem->FreeBytes(dir_);
  const bool full = free && (*free < bytes || *free - bytes < options_.disk_free_bytes_min);
  if (full_.exchange(full) != full) {
    if (full) {
      LogWarn("stopped writing to the store", {{"dir", dir_}, {"free_bytes", *free}});
    } else {
      LogInfo("resumed writing to the store", {{"dir", dir_}});
    }
  }
  if (!full) return {};
  options_.metrics->Add(Counter::store_full);
  return Error(Code::kExhausted, fmt::format("{} has {} bytes free; a value of {} bytes must leave {}: free some "
                                             "space or lower the limit",
                                             dir_, *free, bytes, options_.disk_free_bytes_min));
}

Status RocksStore::WriteChunks(Table table, const Digest& key, uint64_t write_id, Bytes value, uint64_t opening) {
  // The mark precedes the chunks in the log, so a crash never leaves chunks without it.
  const RowChange mark{Kind::kPut, Family::kPending, WriteKey(table, key, write_id)};
  TRY(db_->Apply({&mark, 1}, /*sync=*/false, opening));
  std::vector<RowChange> batch;
  uint64_t in_batch = 0;
  for (uint32_t index = 0; !value.empty(); ++index) {
    const Bytes chunk = value.first(std::min<size_t>(value.size(), options_.chunk_bytes));
    value = value.subspan(chunk.size());
    batch.push_back({Kind::kPut, Family::kChunks, ChunkKey(table, key, write_id, index), chunk});
    in_batch += chunk.size();
    if (in_batch < options_.batch_bytes && !value.empty()) continue;
    TRY(db_->Apply(batch, /*sync=*/false, opening));
    batch.clear();
    in_batch = 0;
  }
  return {};
}

uint64_t RocksStore::NextWriteId() {
  const uint64_t id = next_write_id_++;
  return id != 0 ? id : next_write_id_++;
}

void RocksStore::ChangeFacts(Changes& changes, Table table, const Digest& key, FactsRow facts,
                             const FactsRow* before) const {
  if (before != nullptr && !before->stat.pinned) {
    changes.Add(Kind::kErase, Family::kOrder, OrderKey(table, before->score, key));
  }
  facts.score = ScoreOf(facts.stat, options_.use_half_life_s);
  if (!facts.stat.pinned) changes.Add(Kind::kPut, Family::kOrder, OrderKey(table, facts.score, key));
  changes.Add(Kind::kPut, Family::kFacts, FactsKey(table, key), EncodeFactsRow(facts));
}

void RocksStore::EraseFacts(Changes& changes, Table table, const Digest& key, const FactsRow& before) const {
  changes.Add(Kind::kErase, Family::kFacts, FactsKey(table, key));
  if (!before.stat.pinned) changes.Add(Kind::kErase, Family::kOrder, OrderKey(table, before.score, key));
  if (!before.group.IsZero()) {
    changes.Add(Kind::kErase, Family::kGroups, GroupKey(table, before.group, before.stat.created, key));
  }
}

Status RocksStore::Commit(Changes& changes, bool sync) {
  if (changes.added) {
    const auto& [table, totals] = *changes.added;
    changes.Add(Kind::kAdd, Family::kTotals, std::string(1, static_cast<char>(table)), EncodeTotalsRow(totals));
  }
  TRY(db_->Apply(changes.rows, sync, changes.opening));
  if (!changes.added) return {};
  const auto& [table, totals] = *changes.added;
  MutexLock lock(totals_mutex_);
  if (totals_opening_ != changes.opening) return {};  // they are read again when somebody asks
  totals_[static_cast<size_t>(table)].count += totals.count;
  totals_[static_cast<size_t>(table)].bytes += totals.bytes;
  return {};
}

Status RocksStore::Write(Table table, const Digest& key, Bytes value, const CommitRow& row, const PutOptions& options,
                         const Result<FactsRow>& before, uint64_t opening) {
  TRY(CheckRoom(value.size()));
  TimeScope timed(Timer::store_write, *options_.metrics, *options_.clock);
  const int64_t now = options_.clock->now_s();
  FactsRow facts{{value.size(), now, now, 0, options.cost_s, false, row.write_id}, row.chunks};
  Changes commit(opening);
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
  ChangeFacts(commit, table, key, facts, before ? &*before : nullptr);
  const std::string write_key = WriteKey(table, key, row.write_id);
  commit.Add(Kind::kPut, FamilyOf(table), RowKey(key), EncodeCommitRow(row, row.chunks == 0 ? value : Bytes()));
  if (row.chunks > 0) commit.Add(Kind::kErase, Family::kPending, write_key);

  Status written;
  if (row.chunks > 0) written = WriteChunks(table, key, row.write_id, value, opening);
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
  bool flush = false;
  {
    MutexLock lock(touch_mutex_);
    flush = touches_.size() >= options_.touches_max;
  }
  if (flush) Ignore(WriteTouches(), "uses may be lost");
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
  Status read = ReadValue(table, key, sink, row);
  // A writer may have replaced the value between the read of its record and of its chunks, so
  // damage counts only when a look without writers finds it too.
  if (!read && read.error().code() == Code::kCorrupt) {
    MutexLock lock(MutexOf(key));
    row = {};
    read = ReadValue(table, key, sink, row);
    if (!read && read.error().code() == Code::kCorrupt) return Quarantine(table, key, row, read.error());
  }
  TRY(std::move(read));
  options_.metrics->Add(Counter::store_reads);
  return row.write_id;
}

Status RocksStore::ReadValue(Table table, const Digest& key, Sink& sink, CommitRow& row) {
  Hasher hasher;
  const auto use = [&](Bytes piece) -> Status {
    hasher.Add(piece);
    return sink.Add(piece);
  };
  Status read = db_->Read(FamilyOf(table), RowKey(key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(row, DecodeCommitRow(bytes));
    if (row.bytes > options_.value_bytes_max) {
      return Error(Code::kCorrupt, fmt::format("the record names {} bytes", row.bytes));
    }
    if (table == Table::kArtifacts && row.digest != key) {
      return Error(Code::kCorrupt, fmt::format("the record names bytes whose digest is {}", row.digest.ToHex()));
    }
    TRY(sink.Begin(row.bytes));
    return row.chunks == 0 ? use(bytes.subspan(kCommitRowBytes)) : Status();
  });
  if (!read) {
    if (read.error().code() != Code::kNotFound) return read;
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  if (row.chunks > 0) TRY(ReadChunks(table, key, row, use));
  if (hasher.Finish() != row.digest) {
    return Error(Code::kCorrupt, fmt::format("the {} bytes do not match the digest written with them", row.bytes));
  }
  return {};
}

Status RocksStore::ReadChunks(Table table, const Digest& key, const CommitRow& row,
                              const std::function<Status(Bytes)>& use) {
  uint64_t have = 0;
  for (uint32_t index = 0; index < row.chunks; ++index) {
    const std::string chunk_key = ChunkKey(table, key, row.write_id, index);
    Status read = db_->Read(Family::kChunks, chunk_key, [&](Bytes chunk) -> Status {
      if (chunk.size() > row.bytes - have) {
        return Error(Code::kCorrupt, fmt::format("chunk {} has {} bytes", index, chunk.size()));
      }
      have += chunk.size();
      return use(chunk);
    });
    if (!read && read.error().code() == Code::kNotFound) {
      return Error(Code::kCorrupt, fmt::format("chunk {} of {} is missing", index, row.chunks));
    }
    TRY(std::move(read));
  }
  if (have != row.bytes) {
    return Error(Code::kCorrupt, fmt::format("the chunks hold {} bytes, {} were written", have, row.bytes));
  }
  return {};
}

Error RocksStore::Quarantine(Table table, const Digest& key, const CommitRow& row, const Error& error) {
  options_.metrics->Add(Counter::store_corrupt);
  LogWarn("quarantined a damaged value",
          {{"dir", dir_}, {"table", NameOf(table)}, {"key", key.ToHex()}, {"write", row.write_id}, {"reason", error}});
  const RowChange report{Kind::kPut, Family::kQuarantine, QuarantineKey(options_.clock->now_s(), table, key),
                         AsBytes(error.message())};
  if (db_->Mend()) {
    const uint64_t opening = db_->opening();
    Ignore(Erase(table, key, ReadFacts(table, key), &report, opening), "the value stays refused by its digest");
  }
  std::vector<RowChange> oldest;
  MutexLock lock(damage_mutex_);
  if (++damages_ > options_.damages_max) {
    Ignore(db_->Scan(Family::kQuarantine, "",
                     [&](Bytes oldest_key, Bytes) REQUIRES(damage_mutex_) {
                       oldest.push_back({Kind::kErase, Family::kQuarantine, std::string(AsText(oldest_key))});
                       return damages_ - oldest.size() > options_.damages_max;
                     }),
           "the list is cut next time");
    if (db_->Apply(oldest, /*sync=*/false)) damages_ -= oldest.size();
  }
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
  const std::string facts_key = FactsKey(table, key);
  Changes changes(opening);
  changes.Add(Kind::kErase, FamilyOf(table), RowKey(key));
  // Without its facts a value is counted as one of no bytes; its order row goes when an eviction meets it.
  changes.added = {table, {~uint64_t{0}, 0}};
  if (facts) {
    EraseFacts(changes, table, key, *facts);
    changes.added->second.bytes = -facts->stat.bytes;
  } else if (facts.error().code() == Code::kNotFound) {
    changes.added.reset();
  } else {
    changes.Add(Kind::kErase, Family::kFacts, facts_key);
  }
  // All chunks of the key go, whichever write made them: the record may be unreadable.
  if (!facts || facts->chunks > 0) changes.Add(Kind::kErasePrefix, Family::kChunks, facts_key);
  if (also != nullptr) changes.rows.push_back(*also);
  return Commit(changes, /*sync=*/false);
}

Result<bool> RocksStore::Delete(Table table, const Digest& key, std::optional<uint64_t> expected) {
  MutexLock lock(MutexOf(key));
  {
    MutexLock touch_lock(touch_mutex_);
    touches_.erase({table, key});
  }
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

void RocksStore::AddUses(Page<StoreRow>& page) {
  MutexLock lock(touch_mutex_);
  if (touches_.empty()) return;
  for (StoreRow& row : page.rows) AddUse(row.table, row.key, row.stat);
}

void RocksStore::AddUse(Table table, const Digest& key, Stat& stat) {
  const auto found = touches_.find({table, key});
  if (found == touches_.end()) return;
  stat.hits += found->second.hits;
  stat.used = std::max(stat.used, found->second.last);
}

Result<Stat> RocksStore::StatOf(Table table, const Digest& key) {
  Result<FactsRow> facts = ReadFacts(table, key);
  if (!facts && facts.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  TRY_ASSIGN(FactsRow row, std::move(facts));
  MutexLock lock(touch_mutex_);
  AddUse(table, key, row.stat);
  return row.stat;
}

void RocksStore::Touch(Table table, const Digest& key) {
  const int64_t now = options_.clock->now_s();
  MutexLock lock(touch_mutex_);
  const auto found = touches_.find({table, key});
  // Where nothing is ever written, uses of more values than this are not worth memory.
  if (found == touches_.end() && touches_.size() >= 16 * options_.touches_max) return;
  Use& use = found == touches_.end() ? touches_[{table, key}] : found->second;
  ++use.hits;
  use.last = now;
}

Status RocksStore::WriteTouches() {
  std::unordered_map<TableKey, Use, TableKeyHash> touches;
  {
    MutexLock lock(touch_mutex_);
    touches.swap(touches_);
  }
  for (const auto& [name, use] : touches) {
    MutexLock lock(MutexOf(name.key));
    TRY(db_->Mend());
    Changes changes(db_->opening());
    const Result<FactsRow> before = ReadFacts(name.table, name.key);
    if (!before) continue;
    FactsRow facts = *before;
    facts.stat.hits += use.hits;
    facts.stat.used = std::max(facts.stat.used, use.last);
    ChangeFacts(changes, name.table, name.key, facts, &*before);
    TRY(Commit(changes, /*sync=*/false));
  }
  return {};
}

Status RocksStore::Pin(Table table, const Digest& key, bool pinned) {
  MutexLock lock(MutexOf(key));
  TRY(db_->Mend());
  Status written;
  for (int i = 0; i < kTries; ++i) {
    Changes changes(db_->opening());
    const Result<FactsRow> before = ReadFacts(table, key);
    // A value that is damaged as a whole goes when it is read.
    if (!before && (before.error().code() == Code::kNotFound || before.error().code() == Code::kCorrupt)) {
      return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
    }
    if (!before) return before.error();
    FactsRow facts = *before;
    facts.stat.pinned = pinned;
    ChangeFacts(changes, table, key, facts, &*before);
    written = Commit(changes, /*sync=*/true);
    if (written || !MayTryAgain(changes.opening)) break;
  }
  return written;
}

Result<Page<StoreRow>> RocksStore::List(Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor(after);
  Page<StoreRow> page;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db_->Scan(
      Family::kFacts, prefix,
      [&](Bytes row_key, Bytes bytes) {
        const Result<Digest> key = DigestFromFactsKey(row_key);
        if (!key) return true;
        if (page.rows.size() == limit) {
          page.next = RowKey(*key);
          return false;
        }
        // Facts that cannot be read make a value that is worth nothing to keep.
        const Result<FactsRow> facts = DecodeFactsRow(bytes);
        page.rows.push_back({table, *key, facts ? facts->stat : Stat{}});
        return true;
      },
      prefix + after));
  AddUses(page);
  return page;
}

Result<Page<GroupRow>> RocksStore::ListGroup(Table table, const std::string& group, const std::string& after,
                                             size_t limit) {
  if (!after.empty() && after.size() != 24) return BadCursor(after);
  Page<GroupRow> page;
  const std::string prefix = GroupPrefix(table, DigestOf(group));
  TRY(db_->Scan(
      Family::kGroups, prefix,
      [&](Bytes row_key, Bytes summary) {
        const auto parts = PartsOfGroupKey(row_key);
        if (!parts) return true;
        if (page.rows.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(prefix.size());
          return false;
        }
        page.rows.push_back({parts->second, parts->first, Buffer(summary.begin(), summary.end())});
        return true;
      },
      prefix + after));
  return page;
}

Result<Page<std::string>> RocksStore::ListGroups(Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor(after);
  Page<std::string> page;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db_->Scan(
      Family::kGroupNames, prefix,
      [&](Bytes row_key, Bytes name) {
        if (page.rows.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(1);
          return false;
        }
        page.rows.emplace_back(AsText(name));
        return true;
      },
      prefix + after));
  return page;
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
  if (!after.empty() && after.size() != 24) return BadCursor(after);
  Page<StoreRow> page;
  std::vector<std::string> keys;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db_->Scan(
      Family::kOrder, prefix,
      [&](Bytes row_key, Bytes) {
        if (keys.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(1);
          return false;
        }
        keys.emplace_back(AsText(row_key));
        return true;
      },
      prefix + after));
  for (const std::string& row_key : keys) {
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
  AddUses(page);
  return page;
}

Status RocksStore::ForEachDamaged(const std::function<bool(const Damage&)>& fn) {
  return db_->Scan(Family::kQuarantine, "", [&](Bytes key, Bytes reason) {
    if (key.size() != 8 + 17 || key[8] >= kTables) return true;
    const Result<Digest> digest = DigestFromFactsKey(key.subspan(8));
    uint64_t found = 0;
    for (size_t i = 0; i < 8; ++i) found = found << 8 | key[i];
    return fn({static_cast<Table>(key[8]), *digest, static_cast<int64_t>(found), std::string(AsText(reason))});
  });
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
  MutexLock lock(totals_mutex_);
  totals_opening_ = 0;  // read again when somebody asks
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
  text += full_ ? "read only: the disk is full" : "writable";
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
