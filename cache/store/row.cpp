// SPDX-License-Identifier: Apache-2.0
#include "cache/store/row.h"

#include <fmt/format.h>

#include <bit>

namespace ingot::cache {
namespace {

constexpr uint32_t kCommitMagic = 0x31524E49;  // "INR1"
constexpr uint8_t kFactsVersion = 2;
constexpr size_t kFactsRowBytes = 86;

template <typename T>
void AppendBig(std::string& out, T value) {
  for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>((value >> shift) & 255);
  }
}

uint64_t LoadBig64(Bytes bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | bytes[at + i];
  return value;
}

/// Numbers whose order is that of the doubles.
uint64_t SortableBits(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}

double FromSortableBits(uint64_t bits) { return std::bit_cast<double>(bits >> 63 ? bits & ~(1ull << 63) : ~bits); }

}  // namespace

Buffer EncodeCommitRow(const CommitRow& row, Bytes inline_value) {
  Buffer out;
  out.reserve(kCommitRowBytes + inline_value.size());
  AppendLittle(out, kCommitMagic);
  AppendLittle(out, row.chunks);
  AppendLittle(out, row.bytes);
  AppendLittle(out, row.digest.low);
  AppendLittle(out, row.digest.high);
  AppendLittle(out, row.write_id);
  AppendLittle(out, uint64_t{0});
  AppendLittle(out, DigestOf(out).low);
  out.insert(out.end(), inline_value.begin(), inline_value.end());
  return out;
}

Result<CommitRow> DecodeCommitRow(Bytes bytes) {
  if (bytes.size() < kCommitRowBytes) {
    return Error(Code::kCorrupt, fmt::format("commit record: {} bytes, needs {}", bytes.size(), kCommitRowBytes));
  }
  const size_t own_digest_at = kCommitRowBytes - 8;
  if (DigestOf(bytes.first(own_digest_at)).low != LoadLittle<uint64_t>(bytes, own_digest_at)) {
    return Error(Code::kCorrupt, "commit record: does not match its digest");
  }
  if (LoadLittle<uint32_t>(bytes) != kCommitMagic) {
    return Error(Code::kCorrupt, "commit record: unknown kind");
  }
  if (LoadLittle<uint64_t>(bytes, 40) != 0) {
    return Error(Code::kCorrupt, "commit record: the field that is zero is not");
  }
  CommitRow row;
  row.chunks = LoadLittle<uint32_t>(bytes, 4);
  row.bytes = LoadLittle<uint64_t>(bytes, 8);
  row.digest = {LoadLittle<uint64_t>(bytes, 16), LoadLittle<uint64_t>(bytes, 24)};
  row.write_id = LoadLittle<uint64_t>(bytes, 32);
  const uint64_t inline_bytes = bytes.size() - kCommitRowBytes;
  const uint64_t expected = row.chunks == 0 ? row.bytes : 0;
  if (inline_bytes != expected) {
    return Error(Code::kCorrupt,
                 fmt::format("commit record: {} bytes follow, {} were written", inline_bytes, expected));
  }
  return row;
}

Buffer EncodeFactsRow(const FactsRow& row) {
  Buffer out;
  AppendLittle(out, kFactsVersion);
  AppendLittle(out, static_cast<uint8_t>(row.stat.pinned));
  AppendLittle(out, row.chunks);
  AppendLittle(out, row.stat.version);
  AppendLittle(out, row.stat.bytes);
  AppendLittle(out, row.stat.created);
  AppendLittle(out, row.stat.used);
  AppendLittle(out, row.stat.hits);
  AppendLittle(out, std::bit_cast<uint64_t>(row.stat.cost_s));
  AppendLittle(out, std::bit_cast<uint64_t>(row.score));
  AppendLittle(out, row.group.low);
  AppendLittle(out, row.group.high);
  AppendLittle(out, DigestOf(out).low);
  return out;
}

Result<FactsRow> DecodeFactsRow(Bytes bytes) {
  if (bytes.size() != kFactsRowBytes) {
    return Error(Code::kCorrupt, fmt::format("facts record: {} bytes, needs {}", bytes.size(), kFactsRowBytes));
  }
  const size_t own_digest_at = kFactsRowBytes - 8;
  if (DigestOf(bytes.first(own_digest_at)).low != LoadLittle<uint64_t>(bytes, own_digest_at)) {
    return Error(Code::kCorrupt, "facts record: does not match its digest");
  }
  if (bytes[0] != kFactsVersion) return Error(Code::kCorrupt, "facts record: unknown version");
  if (bytes[1] > 1) return Error(Code::kCorrupt, "facts record: pinned is neither 0 nor 1");
  FactsRow row;
  row.stat.pinned = bytes[1] == 1;
  row.chunks = LoadLittle<uint32_t>(bytes, 2);
  row.stat.version = LoadLittle<uint64_t>(bytes, 6);
  row.stat.bytes = LoadLittle<uint64_t>(bytes, 14);
  row.stat.created = LoadLittle<int64_t>(bytes, 22);
  row.stat.used = LoadLittle<int64_t>(bytes, 30);
  row.stat.hits = LoadLittle<uint64_t>(bytes, 38);
  row.stat.cost_s = std::bit_cast<double>(LoadLittle<uint64_t>(bytes, 46));
  row.score = std::bit_cast<double>(LoadLittle<uint64_t>(bytes, 54));
  row.group = {LoadLittle<uint64_t>(bytes, 62), LoadLittle<uint64_t>(bytes, 70)};
  return row;
}

FactsRow FactsFromValue(const CommitRow& row, int64_t now_s) {
  FactsRow facts;
  facts.stat = {row.bytes, now_s, now_s, 0, 0, false, row.write_id};
  facts.chunks = row.chunks;
  return facts;
}

std::string RowKey(const Digest& key) {
  std::string out;
  AppendBig(out, key.high);
  AppendBig(out, key.low);
  return out;
}

std::string FactsKey(Table table, const Digest& key) { return std::string(1, static_cast<char>(table)) + RowKey(key); }

Result<Digest> DigestFromFactsKey(Bytes row_key) {
  if (row_key.size() != 17) {
    return Error(Code::kCorrupt, fmt::format("facts key: {} bytes, needs 17", row_key.size()));
  }
  return Digest{LoadBig64(row_key, 9), LoadBig64(row_key, 1)};
}

std::string WriteKey(Table table, const Digest& key, uint64_t write_id) {
  std::string out = FactsKey(table, key);
  AppendBig(out, write_id);
  return out;
}

std::string ChunkKey(Table table, const Digest& key, uint64_t write_id, uint32_t index) {
  std::string out = WriteKey(table, key, write_id);
  AppendBig(out, index);
  return out;
}

std::string OrderKey(Table table, double score, const Digest& key) {
  std::string out(1, static_cast<char>(table));
  AppendBig(out, SortableBits(score));
  return out + RowKey(key);
}

Result<std::pair<double, Digest>> PartsOfOrderKey(Bytes row_key) {
  if (row_key.size() != 25) {
    return Error(Code::kCorrupt, fmt::format("order key: {} bytes, needs 25", row_key.size()));
  }
  return std::pair(FromSortableBits(LoadBig64(row_key, 1)), Digest{LoadBig64(row_key, 17), LoadBig64(row_key, 9)});
}

std::string GroupPrefix(Table table, const Digest& group) { return FactsKey(table, group); }

std::string GroupKey(Table table, const Digest& group, int64_t created, const Digest& key) {
  std::string out = GroupPrefix(table, group);
  AppendBig(out, ~static_cast<uint64_t>(created));
  return out + RowKey(key);
}

Result<std::pair<int64_t, Digest>> PartsOfGroupKey(Bytes row_key) {
  if (row_key.size() != 41) {
    return Error(Code::kCorrupt, fmt::format("group key: {} bytes, needs 41", row_key.size()));
  }
  return std::pair(static_cast<int64_t>(~LoadBig64(row_key, 17)),
                   Digest{LoadBig64(row_key, 33), LoadBig64(row_key, 25)});
}

Buffer EncodeTotalsRow(const Totals& totals) {
  Buffer out;
  AppendLittle(out, totals.count);
  AppendLittle(out, totals.bytes);
  return out;
}

Result<Totals> DecodeTotalsRow(Bytes bytes) {
  if (bytes.size() != 16) return Error(Code::kCorrupt, fmt::format("totals: {} bytes, needs 16", bytes.size()));
  return Totals{LoadLittle<uint64_t>(bytes, 0), LoadLittle<uint64_t>(bytes, 8)};
}

std::string QuarantineKey(int64_t time_s, Table table, const Digest& key) {
  std::string out;
  AppendBig(out, static_cast<uint64_t>(time_s));
  return out + FactsKey(table, key);
}

}  // namespace ingot::cache
