// SPDX-License-Identifier: Apache-2.0
#include "cache/store/stored_value.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

namespace ingot::cache {
namespace {

Status ReadChunks(RocksDb& db, Table table, const Digest& key, const CommitRow& row,
                  const std::function<Status(Bytes)>& use) {
  uint64_t have = 0;
  for (uint32_t index = 0; index < row.chunks; ++index) {
    const std::string chunk_key = ChunkKey(table, key, row.write_id, index);
    Status read = db.Read(Family::kChunks, chunk_key, [&](Bytes chunk) -> Status {
      if (chunk.size() > row.bytes - have) {
        return Error(Code::kCorrupt, fmt::format("chunk {} has {} bytes", index, chunk.size()));
      }
      have += chunk.size();
      return use(chunk);
    });
    if (!read && read.error().code() == Code::kNotFound) {
      return Error(Code::kCorrupt, fmt::format("chunk {} of {} is missing", index, row.chunks));
    }
    TRY(std::move(read));
  }
  if (have != row.bytes) {
    return Error(Code::kCorrupt, fmt::format("the chunks hold {} bytes, {} were written", have, row.bytes));
  }
  return {};
}

}  // namespace

Status ReadValue(RocksDb& db, Table table, const Digest& key, uint64_t bytes_max, Sink& sink, CommitRow& row) {
  Hasher hasher;
  const auto use = [&](Bytes piece) -> Status {
    hasher.Add(piece);
    return sink.Add(piece);
  };
  Status read = db.Read(FamilyOf(table), RowKey(key), [&](Bytes bytes) -> Status {
    TRY_ASSIGN(row, DecodeCommitRow(bytes));
    if (row.bytes > bytes_max) {
      return Error(Code::kCorrupt, fmt::format("the record names {} bytes", row.bytes));
    }
    if (table == Table::kArtifacts && row.digest != key) {
      return Error(Code::kCorrupt, fmt::format("the record names bytes whose digest is {}", row.digest.ToHex()));
    }
    TRY(sink.Begin(row.bytes));
    return row.chunks == 0 ? use(bytes.subspan(kCommitRowBytes)) : Status();
  });
  if (!read) {
    if (read.error().code() != Code::kNotFound) return read;
    return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
  }
  if (row.chunks > 0) TRY(ReadChunks(db, table, key, row, use));
  if (hasher.Finish() != row.digest) {
    return Error(Code::kCorrupt, fmt::format("the {} bytes do not match the digest written with them", row.bytes));
  }
  return {};
}

Status WriteChunks(RocksDb& db, Table table, const Digest& key, uint64_t write_id, Bytes value, const ChunkSizes& sizes,
                   uint64_t opening) {
  // The mark precedes the chunks in the log, so a crash never leaves chunks without it.
  const RowChange mark{RowChange::Kind::kPut, Family::kPending, WriteKey(table, key, write_id)};
  TRY(db.Apply({&mark, 1}, /*sync=*/false, opening));
  std::vector<RowChange> batch;
  uint64_t in_batch = 0;
  for (uint32_t index = 0; !value.empty(); ++index) {
    const Bytes chunk = value.first(std::min<size_t>(value.size(), sizes.chunk_bytes));
    value = value.subspan(chunk.size());
    batch.push_back({RowChange::Kind::kPut, Family::kChunks, ChunkKey(table, key, write_id, index), chunk});
    in_batch += chunk.size();
    if (in_batch < sizes.batch_bytes && !value.empty()) continue;
    TRY(db.Apply(batch, /*sync=*/false, opening));
    batch.clear();
    in_batch = 0;
  }
  return {};
}

}  // namespace ingot::cache
