// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "cache/store/rocks_db.h"
#include "cache/store/row.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// A value as it lies in rows: its record, and behind that the bytes, or chunks that the record names.

inline Family FamilyOf(Table table) { return static_cast<Family>(table); }

/// Reads once. `row` tells which write was read, also when its bytes turn out damaged: kCorrupt. kNotFound: no value.
/// A record that names more than `bytes_max` is damaged.
Status ReadValue(RocksDb& db, Table table, const Digest& key, uint64_t bytes_max, Sink& sink, CommitRow& row);

struct ChunkSizes {
  uint64_t chunk_bytes = 0;
  uint64_t batch_bytes = 0;  ///< written at once
};
/// Writes the chunks of a value, behind a mark that tells whoever opens the store to remove them; the change that
/// writes the record erases it.
Status WriteChunks(RocksDb& db, Table table, const Digest& key, uint64_t write_id, Bytes value, const ChunkSizes& sizes,
                   uint64_t opening);

}  // namespace ingot::cache
