// SPDX-License-Identifier: Apache-2.0
#include "cache/rocks_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "cache/row.h"

namespace ingot::cache {
namespace {

using Kind = RowChange::Kind;

Family FamilyOf(Table table) { return static_cast<Family>(table); }

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

  Result<Buffer> Get(Table table, const Digest& key) override;
  Status Put(Table table, const Digest& key, Bytes value, double cost_s) override {
    MutexLock lock(MutexOf(key));
    return Write(table, key, value, cost_s);
  }
  Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) override;
  Status Delete(Table table, const Digest& key) override;
  Result<Stat> StatOf(Table table, const Digest& key) override;
  void Touch(Table table, const Digest& key) override;
  Status Pin(Table table, const Digest& key, bool pinned) override;
  Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) override;
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override;
  Status Compact() override;
  std::string Describe() const override;

 private:
  struct Use {
    uint64_t hits = 0;
    int64_t last = 0;
  };

  Mutex& MutexOf(const Digest& key) { return mutexes_[key.low % mutexes_.size()]; }
  Status CheckRoom(uint64_t bytes);
  /// The methods below need the key's mutex.
  Status Write(Table table, const Digest& key, Bytes value, double cost_s);
  Status WriteChunks(Table table, const Digest& key, uint64_t write_id, Bytes value);
  Result<FactsRow> ReadFacts(Table table, const Digest& key);
  Status Erase(Table table, const Digest& key, const RowChange* also);
  /// Reads once; `row` tells which write was read, also when its bytes turn out damaged.
  Result<Buffer> ReadValue(Table table, const Digest& key, CommitRow& row);
  Result<Buffer> ReadChunks(Table table, const Digest& key, const CommitRow& row);
  Error Quarantine(Table table, const Digest& key, const CommitRow& row, const Error& error);
  void AddUse(const std::string& facts_key, FactsRow& facts);
  Status WriteTouches();

  const std::string dir_;
  const RocksStoreOptions options_;
  const std::unique_ptr<RocksDb> db_;
  std::atomic<uint64_t> next_write_id_;
  std::atomic<bool> full_{false};
  // Writers of one key take turns; keys share a small fixed set of mutexes.
  std::array<Mutex, 32> mutexes_;
  mutable Mutex touch_mutex_;
  std::map<std::string, Use> touches_ GUARDED_BY(touch_mutex_);
  Mutex damage_mutex_;
  size_t damages_ GUARDED_BY(damage_mutex_) = 0;
};

Status RocksStore::Recover() {
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
  size_t damages = 0;
  TRY(db_->Scan(Family::kQuarantine, "", [&](Bytes, Bytes) { return ++damages != 0; }));
  MutexLock lock(damage_mutex_);
  damages_ = damages;
  return {};
}

Status RocksStore::CheckRoom(uint64_t bytes) {
  if (bytes > options_.value_bytes_max) {
    return Error(Code::kExhausted, fmt::format("a value of {} bytes is over the limit of {}", bytes,
                                               options_.value_bytes_max));
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
  return Error(Code::kExhausted,
               fmt::format("{} has {} bytes free; a value of {} bytes must leave {}: free some "
                           "space or lower the limit",
                           dir_, *free, bytes, options_.disk_free_bytes_min));
}

Status RocksStore::WriteChunks(Table table, const Digest& key, uint64_t write_id, Bytes value) {
  // The mark precedes the chunks in the log, so a crash never leaves chunks without it.
  const RowChange mark{Kind::kPut, Family::kPending, WriteKey(table, key, write_id)};
  TRY(db_->Apply({&mark, 1}, /*sync=*/false));
  std::vector<RowChange> batch;
  uint64_t in_batch = 0;
  for (uint32_t index = 0; !value.empty(); ++index) {
    const Bytes chunk = value.first(std::min<size_t>(value.size(), options_.chunk_bytes));
    value = value.subspan(chunk.size());
    batch.push_back({Kind::kPut, Family::kChunks, ChunkKey(table, key, write_id, index), chunk});
    in_batch += chunk.size();
    if (in_batch < options_.batch_bytes && !value.empty()) continue;
    TRY(db_->Apply(batch, /*sync=*/false));
    batch.clear();
    in_batch = 0;
  }
  return {};
}

Status RocksStore::Write(Table table, const Digest& key, Bytes value, double cost_s) {
  TRY(CheckRoom(value.size()));
  TimeScope timed(Timer::store_write, *options_.metrics, *options_.clock);
  CommitRow row{value.size(), DigestOf(value), next_write_id_++};
  if (value.size() > options_.chunk_bytes) {
    row.chunks = static_cast<uint32_t>((value.size() + options_.chunk_bytes - 1) /
                                       options_.chunk_bytes);
  }
  const int64_t now = options_.clock->now_s();
  FactsRow facts{{value.size(), now, now, 0, cost_s, false}, row.write_id, row.chunks};
  std::vector<RowChange> commit;
  if (const Result<FactsRow> before = ReadFacts(table, key); before) {
    facts.stat.pinned = before->stat.pinned;
    if (before->chunks > 0) {
      commit.push_back({Kind::kErasePrefix, Family::kChunks,
                        WriteKey(table, key, before->write_id)});
    }
  }
  const std::string write_key = WriteKey(table, key, row.write_id);
  const Buffer row_bytes = EncodeCommitRow(row, row.chunks == 0 ? value : Bytes());
  const Buffer facts_bytes = EncodeFactsRow(facts);
  commit.push_back({Kind::kPut, FamilyOf(table), RowKey(key), row_bytes});
  commit.push_back({Kind::kPut, Family::kFacts, FactsKey(table, key), facts_bytes});
  if (row.chunks > 0) commit.push_back({Kind::kErase, Family::kPending, write_key});

  Status written;
  if (row.chunks > 0) written = WriteChunks(table, key, row.write_id, value);
  if (written) written = db_->Apply(commit, /*sync=*/true);
  if (written) {
    options_.metrics->Add(Counter::store_writes);
    return written;
  }
  if (written.error().code() == Code::kExhausted) options_.metrics->Add(Counter::store_full);
  if (row.chunks > 0) {
    const RowChange undo[] = {{Kind::kErasePrefix, Family::kChunks, write_key},
                              {Kind::kErase, Family::kPending, write_key}};
    Ignore(db_->Apply(undo, /*sync=*/false), "the next opening removes what the mark names");
  }
  return written;
}

Result<bool> RocksStore::PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) {
  MutexLock lock(MutexOf(key));
  if (ReadFacts(table, key)) return false;
  TRY(Write(table, key, value, cost_s));
  return true;
}

Result<Buffer> RocksStore::Get(Table table, const Digest& key) {
  TimeScope timed(Timer::store_read, *options_.metrics, *options_.clock);
  CommitRow row;
  Result<Buffer> value = ReadValue(table, key, row);
  // A writer may have replaced the value between the read of its record and of its chunks, so
  // damage counts only when a look without writers finds it too.
  if (!value && value.error().code() == Code::kCorrupt) {
    MutexLock lock(MutexOf(key));
    row = {};
    value = ReadValue(table, key, row);
    if (!value && value.error().code() == Code::kCorrupt) {
      return Quarantine(table, key, row, value.error());
    }
  }
  if (value) options_.metrics->Add(Counter::store_reads);
  return value;
}

Result<Buffer> RocksStore::ReadValue(Table table, const Digest& key, CommitRow& row) {
  Buffer value;
  Status read = db_->Read(FamilyOf(table), RowKey(key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(row, DecodeCommitRow(bytes));
    const Bytes inline_value = bytes.subspan(kCommitRowBytes);
    if (row.chunks == 0) value.assign(inline_value.begin(), inline_value.end());
    return {};
  });
  if (!read) {
    if (read.error().code() != Code::kNotFound) return std::move(read).error();
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  if (row.chunks > 0) {
    TRY_ASSIGN(value, ReadChunks(table, key, row));
  }
  if (DigestOf(value) != row.digest) {
    return Error(Code::kCorrupt, fmt::format("the {} bytes do not match the digest written with "
                                             "them", value.size()));
  }
  return value;
}

Result<Buffer> RocksStore::ReadChunks(Table table, const Digest& key, const CommitRow& row) {
  if (row.bytes > options_.value_bytes_max) {
    return Error(Code::kCorrupt, fmt::format("the record names {} bytes", row.bytes));
  }
  Buffer value;
  value.reserve(row.bytes);
  for (uint32_t index = 0; index < row.chunks; ++index) {
    const std::string chunk_key = ChunkKey(table, key, row.write_id, index);
    Status read = db_->Read(Family::kChunks, chunk_key, [&](Bytes chunk) -> Status {
      if (chunk.size() > row.bytes - value.size()) {
        return Error(Code::kCorrupt, fmt::format("chunk {} has {} bytes", index, chunk.size()));
      }
      value.insert(value.end(), chunk.begin(), chunk.end());
      return {};
    });
    if (!read && read.error().code() == Code::kNotFound) {
      return Error(Code::kCorrupt, fmt::format("chunk {} of {} is missing", index, row.chunks));
    }
    TRY(std::move(read));
  }
  if (value.size() != row.bytes) {
    return Error(Code::kCorrupt, fmt::format("the chunks hold {} bytes, {} were written",
                                             value.size(), row.bytes));
  }
  return value;
}

Error RocksStore::Quarantine(Table table, const Digest& key, const CommitRow& row,
                             const Error& error) {
  options_.metrics->Add(Counter::store_corrupt);
  LogWarn("quarantined a damaged value", {{"dir", dir_},
                                          {"table", NameOf(table)},
                                          {"key", key.ToHex()},
                                          {"write", row.write_id},
                                          {"reason", error}});
  const RowChange report{Kind::kPut, Family::kQuarantine,
                         QuarantineKey(options_.clock->now_s(), table, key),
                         AsBytes(error.message())};
  Ignore(Erase(table, key, &report), "the value stays refused by its digest");
  std::vector<RowChange> oldest;
  MutexLock lock(damage_mutex_);
  if (++damages_ > options_.damages_max) {
    Ignore(db_->Scan(Family::kQuarantine, "",
                     [&](Bytes oldest_key, Bytes) {
                       oldest.push_back({Kind::kErase, Family::kQuarantine,
                                         std::string(AsText(oldest_key))});
                       return damages_ - oldest.size() > options_.damages_max;
                     }),
           "the list is cut next time");
    if (db_->Apply(oldest, /*sync=*/false)) damages_ -= oldest.size();
  }
  return Error(Code::kCorrupt, fmt::format("{} in {} was damaged and is removed: {}", key.ToHex(),
                                           NameOf(table), error.message()));
}

Result<FactsRow> RocksStore::ReadFacts(Table table, const Digest& key) {
  FactsRow facts;
  TRY(db_->Read(Family::kFacts, FactsKey(table, key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(facts, DecodeFactsRow(bytes));
    return {};
  }));
  return facts;
}

Status RocksStore::Erase(Table table, const Digest& key, const RowChange* also) {
  const std::string facts_key = FactsKey(table, key);
  // All chunks of the key go, whichever write made them: the record may be unreadable.
  std::vector<RowChange> changes = {{Kind::kErase, FamilyOf(table), RowKey(key)},
                                    {Kind::kErase, Family::kFacts, facts_key}};
  const Result<FactsRow> facts = ReadFacts(table, key);
  if (!facts || facts->chunks > 0) {
    changes.push_back({Kind::kErasePrefix, Family::kChunks, facts_key});
  }
  if (also != nullptr) changes.push_back(*also);
  return db_->Apply(changes, /*sync=*/false);
}

Status RocksStore::Delete(Table table, const Digest& key) {
  MutexLock lock(MutexOf(key));
  {
    MutexLock touch_lock(touch_mutex_);
    touches_.erase(FactsKey(table, key));
  }
  if (const Result<FactsRow> facts = ReadFacts(table, key);
      !facts && facts.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  return Erase(table, key, nullptr);
}

void RocksStore::AddUse(const std::string& facts_key, FactsRow& facts) {
  MutexLock lock(touch_mutex_);
  const auto found = touches_.find(facts_key);
  if (found == touches_.end()) return;
  facts.stat.hits += found->second.hits;
  facts.stat.used = std::max(facts.stat.used, found->second.last);
}

Result<Stat> RocksStore::StatOf(Table table, const Digest& key) {
  Result<FactsRow> facts = ReadFacts(table, key);
  if (!facts && facts.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  TRY_ASSIGN(FactsRow row, std::move(facts));
  AddUse(FactsKey(table, key), row);
  return row.stat;
}

void RocksStore::Touch(Table table, const Digest& key) {
  bool write = false;
  {
    MutexLock lock(touch_mutex_);
    Use& use = touches_[FactsKey(table, key)];
    ++use.hits;
    use.last = options_.clock->now_s();
    write = touches_.size() >= options_.touches_max;
  }
  if (write) Ignore(WriteTouches(), "uses may be lost");
}

Status RocksStore::WriteTouches() {
  std::map<std::string, Use> touches;
  {
    MutexLock lock(touch_mutex_);
    touches.swap(touches_);
  }
  for (const auto& [facts_key, use] : touches) {
    const Bytes bytes = AsBytes(facts_key);
    const Table table = static_cast<Table>(bytes[0]);
    TRY_ASSIGN(const Digest key, DigestFromFactsKey(bytes));
    MutexLock lock(MutexOf(key));
    Result<FactsRow> facts = ReadFacts(table, key);
    if (!facts) continue;
    facts->stat.hits += use.hits;
    facts->stat.used = std::max(facts->stat.used, use.last);
    const Buffer row = EncodeFactsRow(*facts);
    const RowChange change{Kind::kPut, Family::kFacts, facts_key, row};
    TRY(db_->Apply({&change, 1}, /*sync=*/false));
  }
  return {};
}

Status RocksStore::Pin(Table table, const Digest& key, bool pinned) {
  MutexLock lock(MutexOf(key));
  Result<FactsRow> facts = ReadFacts(table, key);
  if (!facts && facts.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  TRY_ASSIGN(FactsRow row, std::move(facts));
  row.stat.pinned = pinned;
  const Buffer bytes = EncodeFactsRow(row);
  const RowChange change{Kind::kPut, Family::kFacts, FactsKey(table, key), bytes};
  return db_->Apply({&change, 1}, /*sync=*/true);
}

Status RocksStore::ForEach(Table table,
                           const std::function<bool(const Digest&, const Stat&)>& fn) {
  return db_->Scan(Family::kFacts, std::string(1, static_cast<char>(table)),
                   [&](Bytes row_key, Bytes bytes) {
                     const Result<Digest> key = DigestFromFactsKey(row_key);
                     Result<FactsRow> facts = DecodeFactsRow(bytes);
                     // Facts that cannot be read make a value that is worth nothing to keep.
                     if (!key) return true;
                     if (!facts) return fn(*key, Stat{});
                     AddUse(std::string(AsText(row_key)), *facts);
                     return fn(*key, facts->stat);
                   });
}

Status RocksStore::ForEachDamaged(const std::function<bool(const Damage&)>& fn) {
  return db_->Scan(Family::kQuarantine, "", [&](Bytes key, Bytes reason) {
    if (key.size() != 8 + 17 || key[8] >= kTables) return true;
    const Result<Digest> digest = DigestFromFactsKey(key.subspan(8));
    uint64_t found = 0;
    for (size_t i = 0; i < 8; ++i) found = found << 8 | key[i];
    return fn({static_cast<Table>(key[8]), *digest, static_cast<int64_t>(found),
               std::string(AsText(reason))});
  });
}

Status RocksStore::Compact() {
  TRY(WriteTouches());
  return db_->Compact();
}

std::string RocksStore::Describe() const {
  return fmt::format("rocksdb {}, {:.1f} MB, {}", dir_, db_->DiskBytes() / 1e6,
                     full_ ? "read only: the disk is full" : "writable");
}

}  // namespace

Result<std::unique_ptr<Store>> OpenRocksStore(const std::string& dir,
                                              const RocksStoreOptions& options) {
  TRY_ASSIGN(std::unique_ptr<RocksDb> db, RocksDb::Open(dir, options.db));
  auto store = std::make_unique<RocksStore>(dir, std::move(db), options);
  TRY(store->Recover());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace ingot::cache
