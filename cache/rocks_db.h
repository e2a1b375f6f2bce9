// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::cache {

/// The column families of a store. The first four hold the tables of the same number.
enum class Family : uint8_t {
  kEntries, kGraphs, kArtifacts, kStats,
  kFacts,       ///< facts key -> FactsRow of the value
  kChunks,      ///< chunk key -> a part of a large value
  kPending,     ///< write key of a large write that has not committed
  kQuarantine,  ///< quarantine key -> reason
  kOrder,       ///< order key -> nothing: which value is worth least
  kGroups,      ///< group key -> summary
  kGroupNames,  ///< group prefix -> the group's name
  kTotals,      ///< table -> TotalsRow, by addition
};
inline constexpr size_t kFamilies = 12;

struct RocksDbOptions {
  /// Data blocks and index blocks kept in memory.
  uint64_t block_cache_bytes = 32u << 20;
  /// Memory of rows not yet in table files, and with it the log replayed when opening.
  uint64_t write_buffer_bytes = 8u << 20;
  /// Table and blob files kept open.
  int files_open_max = 256;
  /// Rows from this size on live in blob files, which compaction does not rewrite.
  uint64_t blob_bytes_min = 32u << 10;
  /// A blob file is closed at this size.
  uint64_t blob_file_bytes = 64u << 20;
  /// Compact() moves what is left in the blob files of a family once so much of them is erased, in percent.
  uint64_t blob_garbage_percent_max = 25;
  /// Compact() rewrites the rows of a family that has no more bytes of them; larger ones are left to RocksDB.
  uint64_t compact_rows_bytes_max = 64u << 20;
};

/// One change of one row.
struct RowChange {
  enum class Kind : uint8_t { kPut, kErase, kErasePrefix, kAdd };
  Kind kind = Kind::kPut;
  Family family = Family::kEntries;
  std::string key;    ///< kErasePrefix: all rows whose key begins so
  Bytes value = {};   ///< kAdd: numbers of 8 bytes that are added to the row's, which may be absent
};

/// A RocksDB with Ingot's column families behind plain types; the only file that includes
/// RocksDB. Thread-safe.
///
/// Errors: kNotFound: no such row; kCorrupt: RocksDB's own checksums failed; kExhausted: the disk
/// is full; kUnavailable: anything else the disk says; kIncompatible: written by something else.
class RocksDb {
 public:
  /// Opens or creates; the caller makes sure that nobody else uses the directory.
  static Result<std::unique_ptr<RocksDb>> Open(const std::string& dir, const RocksDbOptions& options);
  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  /// Calls `use` with the row; its bytes live only meanwhile.
  Status Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use);
  /// All changes or none. `sync`: on disk when this returns, as is everything applied before.
  Status Apply(std::span<const RowChange> changes, bool sync);
  /// Calls `use(key, value)` in key order for the rows whose key begins with `prefix`, as they
  /// were at the time of the call, until it returns false; from the first whose key is not less than `from` on.
  Status Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use,
              std::string_view from = {});
  /// Writes memory to table files, drops what was erased, and moves what is left of blob files that are mostly
  /// erased. kCancelled by `stop`, with part of it done.
  Status Compact(std::stop_token stop);
  /// Bytes of table and blob files.
  uint64_t DiskBytes();

 private:
  struct State;
  RocksDb(std::unique_ptr<State> state, const RocksDbOptions& options);
  const RocksDbOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::cache
