// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::cache {

/// The column families of a store. The first six hold the tables of the same number.
enum class Family : uint8_t {
  kEntries, kGraphs, kArtifacts, kKernels, kTuning, kStats,
  kFacts,       ///< facts key -> FactsRow of the value
  kChunks,      ///< chunk key -> a part of a large value
  kPending,     ///< write key of a large write that has not committed
  kQuarantine,  ///< quarantine key -> reason
};
inline constexpr size_t kFamilies = 10;

struct RocksDbOptions {
  /// Data blocks and index blocks kept in memory.
  uint64_t block_cache_bytes = 8u << 20;
  /// Memory of rows not yet in table files, and with it the log replayed when opening.
  uint64_t write_buffer_bytes = 8u << 20;
  /// Table and blob files kept open.
  int files_open_max = 256;
  /// Rows from this size on live in blob files, which compaction does not rewrite.
  uint64_t blob_bytes_min = 32u << 10;
  /// A blob file is closed at this size.
  uint64_t blob_file_bytes = 64u << 20;
};

/// One change of one row.
struct RowChange {
  enum class Kind : uint8_t { kPut, kErase, kErasePrefix };
  Kind kind = Kind::kPut;
  Family family = Family::kEntries;
  std::string key;  ///< kErasePrefix: all rows whose key begins so
  Bytes value = {};
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
  /// were at the time of the call, until it returns false.
  Status Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use);
  /// Writes memory to table files and drops what was erased.
  Status Compact();
  /// Bytes of table and blob files.
  uint64_t DiskBytes();

 private:
  struct State;
  explicit RocksDb(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ingot::cache
