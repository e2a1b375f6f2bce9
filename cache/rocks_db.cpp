// SPDX-License-Identifier: Apache-2.0
#include "cache/rocks_db.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/log.h"

namespace ingot::cache {
namespace {

constexpr const char* kFamilyNames[kFamilies] = {"entries", "graphs",     "artifacts", "stats",
                                                 "facts",   "chunks",     "pending",   "quarantine",
                                                 "order",   "groups",     "group_names", "totals"};

Error ToError(const rocksdb::Status& status, std::string_view what) {
  const std::string message = std::string(what) + ": " + status.ToString();
  if (status.IsNotFound()) return Error(Code::kNotFound, message);
  // RocksDB names its own files, so one that is missing is damage.
  if (status.IsCorruption() || status.IsPathNotFound()) return Error(Code::kCorrupt, message);
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit) {
    return Error(Code::kExhausted, message);
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return Error(Code::kIncompatible, message);
  }
  return Error(Code::kUnavailable, message);
}

Status ToStatus(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return {};
  return ToError(status, what);
}

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
rocksdb::Slice ToSlice(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
Bytes ToBytes(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const uint8_t*>(slice.data()), slice.size()};
}

/// The first key after all keys that begin with `prefix`; no prefix of ours is all 0xFF.
std::string EndOfPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

/// Gives RocksDB's errors to Ingot's log, and saves it writing a log of its own, which for its
/// options alone takes a tenth of the time of opening.
class ForwardLogger final : public rocksdb::Logger {
 public:
  ForwardLogger() : Logger(rocksdb::ERROR_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1024];
    std::vsnprintf(line, sizeof line, format, arguments);
    LogWarn("rocksdb reported an error", {{"text", line}});
  }
  void LogHeader(const char*, va_list) override {}
};

/// Adds rows of little-endian 64-bit numbers, each with wrap-around, so that what goes is added as its negative.
class AddNumbers final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* existing, const rocksdb::Slice& value, std::string* out,
             rocksdb::Logger*) const override {
    *out = value.ToString();
    if (existing == nullptr || existing->size() != value.size()) return true;
    for (size_t at = 0; at + 8 <= value.size(); at += 8) {
      const uint64_t sum = LoadLittle<uint64_t>(ToBytes(*existing), at) + LoadLittle<uint64_t>(ToBytes(value), at);
      std::memcpy(out->data() + at, &sum, 8);
    }
    return true;
  }
  const char* Name() const override { return "ingot.add"; }
};

// Tuned for a small store that is opened often: nothing is read at open that is not needed, no
// thread wakes without work, and the log to replay is bounded by the write buffer.
rocksdb::DBOptions MakeDbOptions(const RocksDbOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.max_open_files = options.files_open_max;
  db.max_file_opening_threads = 1;
  db.skip_stats_update_on_db_open = true;
  db.skip_checking_sst_file_sizes_on_db_open = true;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.db_write_buffer_size = options.write_buffer_bytes;
  db.max_total_wal_size = 2 * options.write_buffer_bytes;
  db.max_background_jobs = 2;
  db.max_manifest_file_size = 1u << 20;
  db.info_log_level = rocksdb::ERROR_LEVEL;
  db.info_log = std::make_shared<ForwardLogger>();
  return db;
}

rocksdb::ColumnFamilyOptions MakeFamilyOptions(const RocksDbOptions& options, Family family,
                                               const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions cf;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  cf.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  cf.compression = rocksdb::kZSTD;
  cf.write_buffer_size = options.write_buffer_bytes;
  // Keys are digests: what is written meets all of the next level. Were that as large as RocksDB has it, each of our
  // small buffers would rewrite 256 MB.
  cf.max_bytes_for_level_base = 4 * options.write_buffer_bytes;
  cf.target_file_size_base = options.write_buffer_bytes;
  cf.target_file_size_multiplier = 2;
  // Where eviction has emptied a range, its rows go before anybody must step over them.
  cf.table_properties_collector_factories.push_back(rocksdb::NewCompactOnDeletionCollectorFactory(1024, 512));
  if (family == Family::kTotals) cf.merge_operator = std::make_shared<AddNumbers>();
  if (family == Family::kChunks || family == Family::kArtifacts) {
    cf.enable_blob_files = true;
    cf.min_blob_size = options.blob_bytes_min;
    cf.blob_file_size = options.blob_file_bytes;
    cf.blob_compression_type = rocksdb::kZSTD;
    // Compactions that happen anyway move only what is left in the oldest files; Compact() reaches the others.
    cf.enable_blob_garbage_collection = true;
    cf.blob_garbage_collection_age_cutoff = 0.25;
  }
  return cf;
}

/// Before 8.3, RocksDB leaves one empty log behind for every opening without a write
/// (https://github.com/facebook/rocksdb/issues/11313); its maintainers call removing them safe.
void RemoveEmptyLogs(const std::string& dir) {
  std::error_code code;
  std::vector<std::filesystem::path> empty;
  for (std::filesystem::directory_iterator it(dir, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code ignored;
    if (it->path().extension() == ".log" && it->file_size(ignored) == 0) empty.push_back(it->path());
  }
  for (const std::filesystem::path& path : empty) std::filesystem::remove(path, code);
}

}  // namespace

struct RocksDb::State {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // owned; in the order of Family, then default

  rocksdb::ColumnFamilyHandle* Of(Family family) { return handles[static_cast<size_t>(family)]; }
  ~State() {
    // Nobody waits for a store to close, but somebody does for it to open: what is in table files
    // need not be replayed. Should it fail, the log still has it.
    if (db != nullptr) db->Flush(rocksdb::FlushOptions(), handles).PermitUncheckedError();
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      if (db != nullptr) db->DestroyColumnFamilyHandle(handle);
    }
    if (db != nullptr) db->Close().PermitUncheckedError();
  }
};

RocksDb::RocksDb(std::unique_ptr<State> state, const RocksDbOptions& options)
    : options_(options), state_(std::move(state)) {}
RocksDb::~RocksDb() = default;

Result<std::unique_ptr<RocksDb>> RocksDb::Open(const std::string& dir,
                                               const RocksDbOptions& options) {
  const auto cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/2);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilies; ++i) {
    families.emplace_back(kFamilyNames[i],
                          MakeFamilyOptions(options, static_cast<Family>(i), cache));
  }
  families.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
  RemoveEmptyLogs(dir);
  // Compaction gives way to whoever answers somebody.
  rocksdb::Env::Default()->LowerThreadPoolCPUPriority(rocksdb::Env::LOW, rocksdb::CpuPriority::kLow);
  auto state = std::make_unique<State>();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(MakeDbOptions(options), dir, families, &state->handles, &db);
  if (!status.ok()) return ToError(status, "open " + dir);
  state->db.reset(db);
  return std::unique_ptr<RocksDb>(new RocksDb(std::move(state), options));
}

Status RocksDb::Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      state_->db->Get(rocksdb::ReadOptions(), state_->Of(family), ToSlice(key), &value);
  if (!status.ok()) return ToError(status, "read");
  return use(ToBytes(value));
}

Status RocksDb::Apply(std::span<const RowChange> changes, bool sync) {
  rocksdb::WriteBatch batch;
  for (const RowChange& change : changes) {
    rocksdb::ColumnFamilyHandle* const handle = state_->Of(change.family);
    rocksdb::Status added;
    switch (change.kind) {
      case RowChange::Kind::kPut:
        added = batch.Put(handle, ToSlice(change.key), ToSlice(change.value));
        break;
      case RowChange::Kind::kErase:
        added = batch.Delete(handle, ToSlice(change.key));
        break;
      case RowChange::Kind::kErasePrefix:
        added = batch.DeleteRange(handle, ToSlice(change.key), EndOfPrefix(change.key));
        break;
      case RowChange::Kind::kAdd:
        added = batch.Merge(handle, ToSlice(change.key), ToSlice(change.value));
        break;
    }
    TRY(ToStatus(added, "write"));
  }
  rocksdb::WriteOptions write;
  write.sync = sync;
  rocksdb::Status status = state_->db->Write(write, &batch);
  // After a full disk RocksDB refuses writes until it is told to go on; when there is room again
  // the second attempt succeeds, else it repeats the reason.
  if (!status.ok() && state_->db->Resume().ok()) status = state_->db->Write(write, &batch);
  return ToStatus(status, "write");
}

Status RocksDb::Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use,
                     std::string_view from) {
  rocksdb::ReadOptions read;
  const std::string end = EndOfPrefix(std::string(prefix));
  const rocksdb::Slice bound(end);
  if (!end.empty()) read.iterate_upper_bound = &bound;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(state_->db->NewIterator(read, state_->Of(family)));
  for (it->Seek(ToSlice(std::max(prefix, from))); it->Valid(); it->Next()) {
    if (!use(ToBytes(it->key()), ToBytes(it->value()))) break;
  }
  return ToStatus(it->status(), "scan");
}

Status RocksDb::Compact(std::stop_token stop) {
  std::atomic<bool> canceled{false};
  const std::stop_callback on_stop(stop, [&canceled] { canceled = true; });
  rocksdb::CompactRangeOptions options;
  options.canceled = &canceled;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.blob_garbage_collection_age_cutoff = 1.0;
  rocksdb::DB& db = *state_->db;
  // What is erased only counts once it is in table files.
  TRY(ToStatus(db.Flush(rocksdb::FlushOptions(), state_->handles), "flush"));
  for (size_t i = 0; i < kFamilies; ++i) {
    rocksdb::ColumnFamilyHandle* const handle = state_->handles[i];
    const auto of = [&](const std::string& property) {
      uint64_t bytes = 0;
      db.GetIntProperty(handle, property, &bytes);
      return bytes;
    };
    const auto run = [&](rocksdb::BlobGarbageCollectionPolicy policy) -> Status {
      options.blob_garbage_collection_policy = policy;
      const rocksdb::Status status = db.CompactRange(options, handle, nullptr, nullptr);
      if (stop.stop_requested()) return Error(Code::kCancelled, "compacting was told to stop");
      return ToStatus(status, std::string("compact ") + kFamilyNames[i]);
    };
    // Large tables are compacted where they hold many erased rows, by RocksDB itself (MakeFamilyOptions).
    if (of("rocksdb.total-sst-files-size") <= options_.compact_rows_bytes_max) {
      TRY(run(rocksdb::BlobGarbageCollectionPolicy::kDisable));
    }
    const uint64_t garbage = of(rocksdb::DB::Properties::kLiveBlobFileGarbageSize);
    if (garbage == 0) continue;
    if (garbage * 100 < of(rocksdb::DB::Properties::kTotalBlobFileSize) * options_.blob_garbage_percent_max) continue;
    TRY(run(rocksdb::BlobGarbageCollectionPolicy::kForce));
  }
  return {};
}

uint64_t RocksDb::DiskBytes() {
  uint64_t total = 0;
  for (size_t i = 0; i < kFamilies; ++i) {
    for (const char* property : {"rocksdb.total-sst-files-size", "rocksdb.total-blob-file-size"}) {
      uint64_t bytes = 0;
      if (state_->db->GetIntProperty(state_->handles[i], property, &bytes)) total += bytes;
    }
  }
  return total;
}

}  // namespace ingot::cache
