// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "cache/index/index.h"
#include "cache/index/lease_table.h"
#include "cache/s3/s3_client.h"

namespace ingot::cache {

struct S3IndexOptions {
  S3Options store;
  /// Whoever waits for a change looks again after so long: no server says that something has changed.
  std::chrono::milliseconds poll_max{1000};
  /// Marks of a group that no record answers to any more are removed so long after they were written. A younger one
  /// may be that of a record that is about to be written.
  std::chrono::seconds mark_age_min{3600};
  /// Groups whose names are known to be stored.
  size_t groups_known_max = 16'384;
};

/// Records as objects of an S3-compatible store, for a cluster without Redis: slower, and leases hold within this
/// process alone, so that each machine compiles for itself what nobody has published yet (docs/format/s3.md).
///
/// A write reads what is there and replaces just that, by a condition on its ETag (If-Match, or If-None-Match where
/// there is nothing). ETags stand for bytes, and each version's bytes are others: they hold its number, 60 random bits.
/// So where the server honours conditions, which the first write tries out, a record is linearizable.
///
/// Where it does not, two who write one record at once may both be told that they were first, and the last one's
/// record stays. Each of them read the record a moment before and wrote it merged with his own, and a record is written
/// as a whole, with a seal, and judged by its signatures when it is read. So what a lost race can cost is what the
/// other had added: a variant that some machine compiles once more and adds again. It is never another's record, a
/// mixture of two, or a wrong one. A writer looks once more after his write, so that all but those within that moment
/// are told to read again.
///
/// A deleted record is one that says so: conditions on deletes are known to few servers. Listings of a table are the
/// store's own. Of a group they go by marks, small objects whose names say time, record and version; a mark counts
/// where its record is of that version still. It is written before its record and removed after it, so that a writer
/// that dies leaves a mark too many, never one too few.
///
/// Thread-safe. A write that ended in kTimeout, kCancelled or kUnavailable may have been done; one that was cut off
/// from its answer and replaced by another before it could be sent again is told as lost. Calls must have ended before
/// this goes.
class S3Index final : public Index {
 public:
  /// Asks nothing of the server. `leases`: those who share a table see each other's. kInvalid: options, credentials.
  static Result<std::unique_ptr<S3Index>> Open(S3IndexOptions options,
                                               std::shared_ptr<LeaseTable> leases = std::make_shared<LeaseTable>(),
                                               const Environment& environment = ProcessEnvironment);

  Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) override;
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts, Until until) override;
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override;
  Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                        Until until) override;
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override;
  Task<Record> Changed(RecordKey key, uint64_t seen, Until until) override;
  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override {
    return leases_->Acquire(key, std::move(holder), ttl, std::move(until));
  }
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override {
    return leases_->Renew(key, fence, std::move(progress), ttl, std::move(until));
  }
  Task<void> Release(Digest key, uint64_t fence, Until until) override {
    return leases_->Release(key, fence, std::move(until));
  }
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override {
    return leases_->Watch(key, fence, std::move(progress), std::move(until));
  }
  std::string Describe() const override;

 private:
  /// An object of a record as it is there. Version 0: none, one that is deleted, or one that is damaged.
  struct Found {
    uint64_t version = 0;
    int64_t created = 0;
    std::string group;
    Buffer summary;
    Buffer value;  ///< Where all of it was asked for.
    std::string tag;  ///< Empty: there is no object.
  };

  S3Index(S3IndexOptions options, std::unique_ptr<S3Client> client, std::shared_ptr<LeaseTable> leases)
      : options_(std::move(options)), client_(std::move(client)), leases_(std::move(leases)) {}

  std::string RecordName(const RecordKey& key) const;
  std::string MarksOf(Table table, const std::string& group) const;
  std::string MarkOf(const RecordKey& key, const std::string& group, int64_t created, uint64_t version) const;
  std::string GroupNames(Table table) const;

  /// What stands in front of the value; all of it where `is_whole`.
  Task<Found> Read(RecordKey key, bool is_whole, Until until);
  Found Decode(const RecordKey& key, Bytes bytes, bool is_whole) const;
  /// Whether the server honours conditions: found out once, and by its answers alone. A write that could not find out
  /// fails, since without a condition it might take another's place; the next asks again.
  Task<void> LearnConditions(Until until);
  /// Replaces an object that is as `found`, by bytes that say `version` (0: that it is deleted). False: it is not as
  /// `found` any more.
  Task<bool> Replace(RecordKey key, const Found& found, std::shared_ptr<const Buffer> bytes, uint64_t version,
                     Until until);
  Task<void> PutMark(const RecordKey& key, const std::string& group, int64_t created, uint64_t version, Until until);
  void RemoveMark(const RecordKey& key, const std::string& group, int64_t created, uint64_t version) const;
  Task<RecordPage> ListTable(Table table, std::string after, size_t limit, Until until);
  Task<RecordPage> ListGroup(Table table, std::string group, std::string after, size_t limit, Until until);

  const S3IndexOptions options_;
  const std::unique_ptr<S3Client> client_;
  const std::shared_ptr<LeaseTable> leases_;
  std::atomic<bool> has_learned_ = false, creates_by_condition_ = false, replaces_by_condition_ = false;
  Mutex mutex_;
  /// Groups, by table and name, whose names this process has stored.
  std::unordered_set<Digest> groups_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
