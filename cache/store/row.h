// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "cache/store/store.h"

namespace ingot::cache {

// The rows of a store on disk (docs/format/store.md). All integers in keys are big-endian, so
// that order of bytes is order of numbers; those in values are little-endian.

/// The commit record of a value: what its bytes must be. The bytes follow it in the same row,
/// or are the chunks that `write_id` names.
struct CommitRow {
  uint64_t bytes = 0;
  Digest digest;
  /// Tells two writes of one key apart; names the chunks.
  uint64_t write_id = 0;
  uint32_t chunks = 0;  ///< 0: the bytes follow
};
inline constexpr size_t kCommitRowBytes = 56;

Buffer EncodeCommitRow(const CommitRow& row, Bytes inline_value);
/// Reads the record in front of `bytes`. kCorrupt: magic, version, own digest, or a size that
/// the inline bytes do not have.
Result<CommitRow> DecodeCommitRow(Bytes bytes);

/// A Stat as stored beside its value (its version is the write id), with what Delete needs to find all else that was
/// written with it.
struct FactsRow {
  Stat stat;
  uint32_t chunks = 0;
  /// The order row's; what ScoreOf gave when it was written. Meaningless while pinned: there is no order row.
  double score = 0;
  /// Digest of the group's name; zero: none.
  Digest group;
};

Buffer EncodeFactsRow(const FactsRow& row);
Result<FactsRow> DecodeFactsRow(Bytes bytes);

/// What can be said of a value by its record alone, as if it had been written at `now_s`.
FactsRow FactsFromValue(const CommitRow& row, int64_t now_s);

/// 16 bytes: the digest, high half first.
std::string RowKey(const Digest& key);
/// 17 bytes: table, then the digest.
std::string FactsKey(Table table, const Digest& key);
Result<Digest> DigestFromFactsKey(Bytes row_key);
/// 25 bytes: facts key, write id. Prefix of all chunks of one write, and name of a write in progress.
std::string WriteKey(Table table, const Digest& key, uint64_t write_id);
std::string ChunkKey(Table table, const Digest& key, uint64_t write_id, uint32_t index);
/// 25 bytes: table, score (least first), key. Its row has no value.
std::string OrderKey(Table table, double score, const Digest& key);
/// Score and key of it. kCorrupt: another length.
Result<std::pair<double, Digest>> PartsOfOrderKey(Bytes row_key);
/// 17 bytes: table, digest of the group's name: the prefix of its rows, and the key of its name.
std::string GroupPrefix(Table table, const Digest& group);
/// 41 bytes: group prefix, time of creation (newest first), key. The row's value is the summary.
std::string GroupKey(Table table, const Digest& group, int64_t created, const Digest& key);
Result<std::pair<int64_t, Digest>> PartsOfGroupKey(Bytes row_key);
/// Count and bytes of a table, or by how much they change: rows of totals are added up.
Buffer EncodeTotalsRow(const Totals& totals);
Result<Totals> DecodeTotalsRow(Bytes bytes);
/// Time first, so that the oldest comes first.
std::string QuarantineKey(int64_t time_s, Table table, const Digest& key);

}  // namespace ingot::cache
