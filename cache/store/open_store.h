// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/filesystem.h"
#include "base/metrics.h"
#include "cache/store/store.h"
#include "proto/lock_file.h"

namespace rocksdb {
class Env;
}

namespace ingot::cache {

/// Everything that can be set about a store; every limit is here.
struct StoreOptions {
  /// False: a directory on a network file system is refused, since its locks and renames promise
  /// too little for a database.
  bool allow_network = false;
  /// Bytes of all values of a store in memory.
  uint64_t memory_bytes_max = 256u << 20;
  /// A larger value is refused.
  uint64_t value_bytes_max = 2ull << 30;
  /// Values above this are stored in pieces of this size.
  uint64_t chunk_bytes = 1u << 20;
  /// Writes are refused while the disk has less than this left; reads go on.
  uint64_t disk_free_bytes_min = 256u << 20;
  /// RocksDB: blocks kept in memory, rows not yet in table files, files kept open.
  uint64_t block_cache_bytes = 32u << 20;
  uint64_t write_buffer_bytes = 8u << 20;
  int files_open_max = 256;
  /// As RocksStoreOptions.
  size_t touches_max = 4096;
  int64_t use_half_life_s = 7 * 86'400;
  /// Reports of damaged values kept.
  size_t damages_max = 1000;
  /// Unreadable databases kept beside the store with their reasons; older ones are removed.
  size_t asides_max = 2;
  /// The directory's lock, where the caller holds it for longer than the store lives. nullptr: taken here.
  const proto::LockFile* lock = nullptr;
  /// Where time, disk and counters come from.
  const Clock* clock = &SystemClock();
  Filesystem* filesystem = &RealFilesystem();
  Metrics* metrics = &GlobalMetrics();
  /// The disk as the database uses it; nullptr: the machine's.
  std::shared_ptr<rocksdb::Env> disk;
};

/// Opens or creates the store in `dir`; an empty `dir` gives a store in memory.
///
/// A database that is damaged or of another version is moved to `dir`/aside with its reason, and
/// an empty one takes its place, here or when it is found later: a broken cache never stops a user's job.
/// kUnavailable, with what to do: another live process holds the store, no permission, read-only,
/// network file system. kExhausted: the disk is full.
Result<std::unique_ptr<Store>> OpenStore(const std::string& dir, const StoreOptions& options = {});

/// True when there is no database in `dir`: it holds no values, whatever opening it will do.
bool IsFresh(const std::string& dir, Filesystem& filesystem = RealFilesystem());

}  // namespace ingot::cache
