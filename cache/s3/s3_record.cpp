// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_record.h"

namespace ingot::cache {
namespace {

/// In front of a record, and all of one that is deleted.
constexpr std::string_view kRecordMagic = "INGOTREC";
constexpr std::string_view kDeletedMagic = "INGOTDEL";

/// Holds a record together with the name it stands under: bytes that were changed, or are another record's, differ.
Digest SealOf(const RecordKey& key, const S3Record& record) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(key.table));
  hasher.Add(key.digest.high);
  hasher.Add(key.digest.low);
  hasher.Add(record.version);
  hasher.Add(static_cast<uint64_t>(record.created));
  hasher.AddField(record.group);
  hasher.AddField(record.summary);
  hasher.AddField(record.value);
  return hasher.Finish();
}

}  // namespace

Buffer EncodeS3Record(const RecordKey& key, const S3Record& record) {
  if (record.version == 0) return Buffer(kDeletedMagic.begin(), kDeletedMagic.end());
  const Digest seal = SealOf(key, record);
  Buffer out(kRecordMagic.begin(), kRecordMagic.end());
  out.reserve(kS3FixedBytes + record.group.size() + record.summary.size() + record.value.size());
  AppendLittle(out, record.version);
  AppendLittle(out, seal.high);
  AppendLittle(out, seal.low);
  AppendLittle(out, record.created);
  AppendLittle(out, static_cast<uint32_t>(record.group.size()));
  AppendLittle(out, static_cast<uint32_t>(record.summary.size()));
  out.insert(out.end(), record.group.begin(), record.group.end());
  out.insert(out.end(), record.summary.begin(), record.summary.end());
  out.insert(out.end(), record.value.begin(), record.value.end());
  return out;
}

Result<S3Record> DecodeS3Record(const RecordKey& key, Bytes bytes, bool is_whole) {
  S3Record record;
  if (AsText(bytes) == kDeletedMagic) return record;
  const Error bad(Code::kCorrupt, "an object that is no record of its name");
  if (bytes.size() < kS3FixedBytes || AsText(bytes.first(kRecordMagic.size())) != kRecordMagic) return bad;
  const size_t group = LoadLittle<uint32_t>(bytes, 40);
  const size_t summary = LoadLittle<uint32_t>(bytes, 44);
  record.version = LoadLittle<uint64_t>(bytes, 8);
  record.created = LoadLittle<int64_t>(bytes, 32);
  if (record.version == 0 || record.created < 0 || group > kGroupBytesMax || summary > kSummaryBytesMax ||
      bytes.size() < kS3FixedBytes + group + summary) {
    return bad;
  }
  record.group = AsText(bytes.subspan(kS3FixedBytes, group));
  const Bytes text = bytes.subspan(kS3FixedBytes + group, summary);
  record.summary.assign(text.begin(), text.end());
  if (!is_whole) return record;
  const Bytes value = bytes.subspan(kS3FixedBytes + group + summary);
  record.value.assign(value.begin(), value.end());
  const Digest seal{LoadLittle<uint64_t>(bytes, 24), LoadLittle<uint64_t>(bytes, 16)};
  if (seal != SealOf(key, record)) return bad;
  return record;
}

}  // namespace ingot::cache
