// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/filesystem.h"
#include "base/metrics.h"
#include "cache/store/rocks_db.h"
#include "cache/store/store.h"

namespace ingot::cache {

struct RocksStoreOptions {
  RocksDbOptions db;
  /// Values above this are split into chunks of this size.
  uint64_t chunk_bytes = 1u << 20;
  /// Chunks written in one batch; RocksDB holds a batch in memory twice.
  uint64_t batch_bytes = 4u << 20;
  /// A larger value is refused with kExhausted.
  uint64_t value_bytes_max = 2ull << 30;
  /// Writes are refused with kExhausted while the disk has less than this left.
  uint64_t disk_free_bytes_min = 256u << 20;
  /// Uses are written with the next write once this many keys were touched; 16 times as many are kept, others lost.
  size_t touches_max = 4096;
  /// Uses count half after this many seconds in the order of what is worth least.
  int64_t use_half_life_s = 7 * 86'400;
  /// Reports of damaged values kept; the oldest goes first.
  size_t damages_max = 1000;
  /// Where time, disk space and counters come from.
  const Clock* clock = &SystemClock();
  Filesystem* filesystem = &RealFilesystem();
  Metrics* metrics = &GlobalMetrics();
};

/// Opens or creates a store in the RocksDB directory `dir`, which must not be shared with anything
/// and which no other process uses. Removes what interrupted writes have left.
/// kCorrupt, kIncompatible: what is there cannot be read; kUnavailable, kExhausted: the disk.
Result<std::unique_ptr<Store>> OpenRocksStore(const std::string& dir, const RocksStoreOptions& options);

}  // namespace ingot::cache
