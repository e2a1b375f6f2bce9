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
#include "base/clock.h"
#include "base/result.h"

namespace rocksdb {
class Env;
}

namespace ingot::cache {

/// The column families of a store. The first four hold the tables of the same number.
enum class Family : uint8_t {
  kEntries,
  kGraphs,
  kArtifacts,
  kStats,
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
  /// After an error of the disk the first write tries at once whether it works again; then tries are this far apart,
  /// and twice as far after each that fails.
  uint64_t mend_wait_ms_min = 100;
  uint64_t mend_wait_ms_max = 10'000;
  /// The disk as RocksDB uses it; nullptr: the machine's. Tests give one that fails.
  std::shared_ptr<rocksdb::Env> disk;
  const Clock* clock = &SystemClock();
};

/// One change of one row.
struct RowChange {
  enum class Kind : uint8_t { kPut, kErase, kErasePrefix, kAdd };
  Kind kind = Kind::kPut;
  Family family = Family::kEntries;
  std::string key;    ///< kErasePrefix: all rows whose key begins so
  Bytes value = {};   ///< kAdd: numbers of 8 bytes that are added to the row's, which may be absent
};

/// A RocksDB with Ingot's column families behind plain types; with LogWatch and rocks_options.h the only file that
/// includes RocksDB. Thread-safe.
///
/// After an error of the disk no change is made until Mend() succeeds; reads go on where the disk allows. What is
/// applied reaches the disk in order: after a crash or loss of power all up to some change is there, nothing after it.
///
/// Errors: kNotFound: no such row; kCorrupt: RocksDB's own checksums failed; kExhausted: the disk
/// is full; kUnavailable: anything else the disk says; kIncompatible: written by something else.
class RocksDb {
 public:
  /// Opens or creates; the caller makes sure that nobody else uses the directory. Where only the disk's writes fail,
  /// what is there is opened for reading.
  static Result<std::unique_ptr<RocksDb>> Open(const std::string& dir, const RocksDbOptions& options);
  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  /// Calls `use` with the row; its bytes live only meanwhile.
  Status Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use);
  /// Another number after each time that the database was opened anew. Changes that were not synced may be lost then,
  /// and one that failed may have been made.
  uint64_t opening() const;
  /// All changes or none. `sync`: on disk when this returns, as is everything applied before. kUnavailable, and nothing
  /// is changed, where the database is not of this `opening`: what the changes were made from may have changed.
  Status Apply(std::span<const RowChange> changes, bool sync, uint64_t opening);
  Status Apply(std::span<const RowChange> changes, bool sync) { return Apply(changes, sync, opening()); }
  /// Makes changes possible again after an error of the disk. Else why they are not.
  Status Mend();
  /// Why no change is made at present; empty: they are made.
  std::string Trouble() const;
  /// Calls `use(key, value)` in key order for the rows whose key begins with `prefix`, as they
  /// were at the time of the call, until it returns false; from the first whose key is not less than `from` on.
  Status Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use,
              std::string_view from = {});

  /// All rows as they were at one time.
  class View {
   public:
    virtual ~View() = default;
    virtual Status Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use) = 0;
    virtual Status Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use) = 0;
  };
  Status Look(const std::function<Status(View&)>& use);

  /// Writes memory to table files, drops what was erased, and moves what is left of blob files that are mostly
  /// erased. kCancelled by `stop`, with part of it done.
  Status Compact(std::stop_token stop);
  /// Bytes of table and blob files.
  uint64_t DiskBytes();

 private:
  struct Opened;
  struct State;
  RocksDb(std::unique_ptr<State> state, const RocksDbOptions& options);
  const RocksDbOptions options_;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::cache
