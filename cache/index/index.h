// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// Name of a record: one of the tables of small values, and a digest.
struct RecordKey {
  Table table = Table::kEntries;
  Digest digest;
  bool operator==(const RecordKey&) const = default;
};

/// A record as it was read. Each write of a record gives it another version, never one that it had before, also
/// when it was deleted meanwhile. 0 is the version of a record that is absent. Versions and fences are below 2^60.
struct Record {
  Buffer value;
  uint64_t version = 0;
  bool exists() const { return version != 0; }
};

/// What is stored beside a record's value.
struct RecordFacts {
  /// Seconds that making it again would take.
  double cost_s = 0;
  /// Records of one table with the same group are listed together, the newest first. Empty: only by table.
  /// At most kGroupBytesMax bytes.
  std::string group;
  /// A few bytes that listings give beside the record's name, for choosing without reading the record.
  /// At most kSummaryBytesMax bytes.
  Buffer summary;
  /// False: a store of one machine need not wait for its disk (PutOptions in cache/store/store.h).
  bool is_durable = true;
};
inline constexpr size_t kGroupBytesMax = 4096;
inline constexpr size_t kSummaryBytesMax = 512;

/// One page of a listing.
struct RecordPage {
  struct Row {
    Digest digest;
    Buffer summary;       ///< Of a listing of a group; else it may be empty.
    int64_t created = 0;  ///< Unix seconds
  };
  std::vector<Row> rows;
  /// Where the next page begins (cache/index/listing_place.h); empty after the last.
  std::string next;
};

/// Who has the right to do a piece of work that should be done once.
struct Lease {
  /// Grows with each new holder of one key: a store that sees a smaller one after a larger one knows the writer is
  /// late. 0: nobody holds it.
  uint64_t fence = 0;
  std::string holder;    ///< Who it is, for people: host, process, what it does.
  std::string progress;  ///< What the holder said last.
  /// Time until the lease ends unless its holder renews it.
  std::chrono::milliseconds left{0};
  /// It was given to the caller by this call.
  bool is_ours = false;
};

/// Small records that change, versions by which writers of several machines do not lose each other's changes, and
/// leases. Values are at most kRecordBytesMax.
///
/// Linearizable for one key while the store behind it is up. Thread-safe; may block on a disk, as BlobStore.
/// Errors of all calls: kTimeout and kCancelled by `until`; kUnavailable; kExhausted: a limit, a full disk;
/// kInvalid: a value, group or summary over its limit.
class Index {
 public:
  virtual ~Index() = default;
  /// One record per key, in order; one that is absent has version 0, as has one that was found damaged and removed.
  virtual Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) = 0;
  /// Writes where the record still has version `expected`. The new version, or 0 when somebody was faster: read
  /// again and merge.
  virtual Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                       Until until) = 0;
  /// Deletes where the record still has version `expected`. False when somebody was faster, or it is gone.
  virtual Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) = 0;
  /// Rows of a table in the order of digests, or of one group, the newest first (those of one second by digests).
  /// `after`: RecordPage::next of the page before, or empty: the beginning. Rows written or deleted meanwhile may be
  /// missed or seen; all others appear once. kInvalid: `after` is none of ours.
  virtual Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                Until until) = 0;
  /// Names of the groups of a table in the order of their digests; may name some that are empty by now. Pages as List.
  struct GroupPage {
    std::vector<std::string> groups;
    std::string next;
  };
  virtual Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) = 0;
  /// Comes back with the record once its version is not `seen`; kTimeout with nothing changed.
  virtual Task<Record> Changed(RecordKey key, uint64_t seen, Until until) = 0;

  /// Takes the lease of a key when nobody holds it, for `ttl`; else says who does. At most one holder at a time, as
  /// long as nobody's clock stands still for `ttl`: whoever publishes under a lease shows its fence.
  virtual Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) = 0;
  /// Renews a lease by its fence and says how far the work is. False: it is somebody else's by now, or nobody's.
  virtual Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                           Until until) = 0;
  /// Gives it back; a lease that is not ours any more is left alone. Wakes those in Released.
  virtual Task<void> Release(Digest key, uint64_t fence, Until until) = 0;
  /// Comes back when the lease's progress is not `progress`, or its holder is not `fence`'s any more: with what
  /// holds now. kTimeout with nothing changed.
  virtual Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) = 0;

  /// One line for people: kind, place, state.
  virtual std::string Describe() const = 0;
};
inline constexpr size_t kRecordBytesMax = 16u << 20;
/// kInvalid: something of a record is over its limit.
Status CheckRecord(const Buffer& value, const RecordFacts& facts);

}  // namespace ingot::cache
