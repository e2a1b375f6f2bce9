// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/store/evict.h"
#include "cache/store/store.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// One value that was evicted.
struct Tombstone {
  cache::Table table = cache::Table::kEntries;
  Digest key;
  proto::Reason reason = proto::Reason::Bytes;
  int64_t when = 0;
  std::string function;

  /// `evicted 2026-11-21 09:30 UTC to keep store_bytes_max`
  std::string ToText() const;
  /// The same without the time.
  std::string Cause() const;
};

/// The evictions last made, so that a miss can say that it is one. Kept in the store as one small
/// record; what the record loses is an explanation, never a value. Thread-safe.
class Tombstones {
 public:
  Tombstones(cache::Store& store, size_t count_max) : store_(store), count_max_(count_max) {}

  /// Adds and writes; over the limit the oldest go.
  void Add(std::vector<Tombstone> stones);
  std::optional<Tombstone> Find(cache::Table table, const Digest& key);
  /// The newest entry whose key begins with `name` or whose function it is.
  std::optional<Tombstone> FindEntry(const std::string& name);

 private:
  void Read() REQUIRES(mutex_);
  Buffer Pack() const REQUIRES(mutex_);
  void Write(const Buffer& bytes) REQUIRES(write_mutex_);

  cache::Store& store_;
  const size_t count_max_;
  /// Taken first, and held while the disk is written: nobody who asks waits for that.
  Mutex write_mutex_;
  Mutex mutex_;
  bool read_ GUARDED_BY(mutex_) = false;
  /// The newest first.
  std::list<Tombstone> stones_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
