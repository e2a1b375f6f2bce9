// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/options.h>

#include <memory>

#include "cache/store/rocks_db.h"

namespace ingot::cache {

// How RocksDB is set up. Tuned for a small store that is opened often: nothing is read at open that is not needed, no
// thread wakes without work, and the log to replay is bounded by the write buffer.

/// Of a database: it has no log of its own, and tells Ingot's of errors.
rocksdb::DBOptions MakeDbOptions(const RocksDbOptions& options);
/// Of one of its families; all share `cache`.
rocksdb::ColumnFamilyOptions MakeFamilyOptions(const RocksDbOptions& options, Family family,
                                               const std::shared_ptr<rocksdb::Cache>& cache);

}  // namespace ingot::cache
