// SPDX-License-Identifier: Apache-2.0
#include "cache/store/rocks_options.h"

#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/log.h"

namespace ingot::cache {
namespace {

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
      const uint64_t sum = LoadLittle<uint64_t>(AsBytes(existing->ToStringView()), at) +
                           LoadLittle<uint64_t>(AsBytes(value.ToStringView()), at);
      std::memcpy(out->data() + at, &sum, 8);
    }
    return true;
  }
  const char* Name() const override { return "ingot.add"; }
};

/// On every level: whoever comes first to a table reads all of its filter and index, in one of a million rows more than
/// half a megabyte.
constexpr uint64_t kTableBytes = 16u << 20;

}  // namespace

rocksdb::DBOptions MakeDbOptions(const RocksDbOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.max_open_files = options.files_open_max;
  // In the 64 shards that RocksDB has, some are full long before all are: their files are opened again and again.
  db.table_cache_numshardbits = 2;
  db.max_file_opening_threads = 1;
  db.skip_stats_update_on_db_open = true;
  db.skip_checking_sst_file_sizes_on_db_open = true;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.db_write_buffer_size = options.write_buffer_bytes;
  db.max_total_wal_size = 2 * options.write_buffer_bytes;
  db.max_background_jobs = 2;
  db.max_manifest_file_size = 1u << 20;
  db.max_bgerror_resume_count = 0;
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
  cf.target_file_size_base = kTableBytes;
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

}  // namespace ingot::cache
