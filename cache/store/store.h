// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::cache {

/// The tables of a store. Values of `kArtifacts` are named by the digest of their bytes; those of
/// the others are small records that may be replaced.
enum class Table : uint8_t { kEntries, kGraphs, kArtifacts, kStats };
inline constexpr size_t kTables = 4;
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
  /// Another one after each write of the value; never 0, never one that it had before.
  uint64_t version = 0;
};

/// A value as it was read.
struct Value {
  Buffer bytes;
  uint64_t version = 0;
};

/// What a write says beside the value.
struct PutOptions {
  double cost_s = 0;
  /// Write only where the value has this version still; 0: where it is absent.
  std::optional<uint64_t> expected = {};
  /// Values of one table with the same group are listed together. Empty: none.
  std::string group = {};
  /// Given with each row of a listing of the group.
  Buffer summary = {};
  /// False: the write does not wait for the disk, and a loss of power may undo it until one has that does. Whatever was
  /// written before that is there then too.
  bool is_durable = true;
};

/// One value of a listing.
struct StoreRow {
  Table table = Table::kEntries;
  Digest key;
  Stat stat;
};

/// Values of one group, the newest first.
struct GroupRow {
  Digest key;
  int64_t created = 0;
  Buffer summary;
};
template <typename Row>
struct Page {
  std::vector<Row> rows;
  /// Where the next page begins; empty after the last.
  std::string next;
};

/// What all values of a table come to.
struct Totals {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

/// One value that was found damaged and taken out of its table.
struct Damage {
  Table table = Table::kEntries;
  Digest key;
  int64_t found = 0;  ///< Unix seconds
  std::string reason;
};

/// What a value is read into.
class Sink {
 public:
  virtual ~Sink() = default;
  /// So many bytes come. What came before counts for nothing: a writer replaced that value while it was read.
  virtual Status Begin(uint64_t bytes) = 0;
  /// The next of them, valid until it returns.
  virtual Status Add(Bytes piece) = 0;
};

/// The values of one machine: the engine under the local ports (cache/index/local_index.h, cache/index/local_blobs.h)
/// and under upkeep (cache/store/evict.h).
///
/// Writes are atomic: a reader sees the whole value or none, also after a crash; what Put returned a version for is
/// there after a loss of power, where it was to be durable. A write that failed was made or not made, as a whole.
/// Every read is checked against the digest written with it, and that of an artifact against its name. No call's work
/// grows with what the store holds, but Compact's. Thread-safe; may block on the disk.
/// Errors: kNotFound is the normal miss; kCorrupt also moves the value to quarantine; kInvalid: an artifact under
/// another name than its digest; kExhausted: full disk or a limit, reads go on; kUnavailable: the store cannot be used.
class Store {
 public:
  virtual ~Store() = default;
  /// Reads into `sink`, and returns the version. Where it fails, what the sink was given counts for nothing.
  virtual Result<uint64_t> Read(Table table, const Digest& key, Sink& sink) = 0;
  /// The new version; 0, and nothing is written, where the value is not as `expected`.
  virtual Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const PutOptions& options) = 0;
  /// False where its version is not `expected`. A loss of power may undo it until something is written.
  virtual Result<bool> Delete(Table table, const Digest& key, std::optional<uint64_t> expected = {}) = 0;
  virtual Result<Stat> StatOf(Table table, const Digest& key) = 0;
  /// Records a use (batched; may be lost in a crash). Never waits for the disk.
  virtual void Touch(Table table, const Digest& key) = 0;
  virtual Status Pin(Table table, const Digest& key, bool pinned) = 0;

  /// At most `limit` values of a table in the order of their keys' hex digits, from the page before's `next` on, or
  /// from a text of DigestCursor; empty: from the first. Values written or deleted meanwhile may be missed or seen.
  virtual Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) = 0;
  /// The newest first, those of one second as List has them.
  virtual Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                           size_t limit) = 0;
  /// Groups that were written to, in the order of their names' digests; some may be empty by now.
  virtual Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) = 0;
  /// The group a value was written with; empty: none.
  virtual Result<std::string> GroupOf(Table table, const Digest& key) = 0;
  /// At most `limit` values of a table that are worth least (ScoreOf), the least first; never a pinned one.
  virtual Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) = 0;
  virtual std::array<Totals, kTables> TotalsOf() = 0;
  /// Uses count half after this many seconds (ScoreOf).
  virtual int64_t half_life_s() const = 0;

  /// Calls `fn` for every value that was found damaged, oldest first, until it returns false.
  virtual Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) = 0;
  /// Writes out batched uses and gives space of deleted values back to the disk. May take
  /// seconds; other calls go on meanwhile. kCancelled by `stop`.
  virtual Status Compact(std::stop_token stop) = 0;
  /// One line for people: kind, place, state ("rocksdb /home/u/.cache/ingot, 12 MB, writable").
  virtual std::string Describe() const = 0;
  /// Why nothing can be written at present, for people; empty: it can.
  virtual std::string Trouble() const { return {}; }

  /// Read into a buffer.
  Result<Value> Get(Table table, const Digest& key);
};

/// The place in List that the first key of these hex digits has or would have.
Result<std::string> DigestCursor(std::string_view hex);

/// What keeping a value is worth, as the logarithm of compile seconds saved per byte and use, plus the time of its last
/// use in half-lives: of two values the one that is worth less now is worth less at any later time, so that the order
/// can be kept on disk. `half_life_s`: uses count half after so many seconds.
double ScoreOf(const Stat& stat, int64_t half_life_s);

}  // namespace ingot::cache
