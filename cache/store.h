// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::cache {

/// The tables of a store. Values of `kArtifacts` are named by the digest of their bytes; those of
/// the others are small records that may be replaced.
enum class Table : uint8_t { kEntries, kGraphs, kArtifacts, kKernels, kTuning, kStats };
inline constexpr size_t kTables = 6;
/// "entries", "graphs", ...
std::string_view NameOf(Table table);

/// Facts about one stored value, for eviction and listing. Times are Unix seconds.
struct Stat {
  uint64_t bytes = 0;
  int64_t created = 0;
  int64_t used = 0;
  uint64_t hits = 0;
  double cost_s = 0;     ///< what making it again would take
  bool pinned = false;
};

/// One value that was found damaged and taken out of its table.
struct Damage {
  Table table = Table::kEntries;
  Digest key;
  int64_t found = 0;  ///< Unix seconds
  std::string reason;
};

/// Keeps named byte strings; adapters compose (memory, RocksDB, tiered, verifying).
///
/// Writes are atomic: a reader sees the whole value or none, also after a crash. Every read is
/// checked against the digest written with it. Thread-safe.
/// Errors: kNotFound is the normal miss; kCorrupt also moves the value to quarantine;
/// kExhausted: full disk or a limit, reads go on; kUnavailable: the store cannot be used.
class Store {
 public:
  virtual ~Store() = default;
  virtual Result<Buffer> Get(Table table, const Digest& key) = 0;
  /// Replaces what is there.
  virtual Status Put(Table table, const Digest& key, Bytes value, double cost_s) = 0;
  /// True when it was absent and has been written.
  virtual Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) = 0;
  virtual Status Delete(Table table, const Digest& key) = 0;
  virtual Result<Stat> StatOf(Table table, const Digest& key) = 0;
  /// Records a use (batched; may be lost in a crash).
  virtual void Touch(Table table, const Digest& key) = 0;
  virtual Status Pin(Table table, const Digest& key, bool pinned) = 0;
  /// Calls `fn` for every key until it returns false. Values written meanwhile may be missed.
  virtual Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) = 0;
  /// Calls `fn` for every value that was found damaged, oldest first, until it returns false.
  virtual Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) = 0;
  /// Writes out batched uses and gives space of deleted values back to the disk. May take
  /// seconds; other calls go on meanwhile.
  virtual Status Compact() = 0;
  /// One line for people: kind, place, state ("rocksdb /home/u/.cache/ingot, 12 MB, writable").
  virtual std::string Describe() const = 0;
};

}  // namespace ingot::cache
