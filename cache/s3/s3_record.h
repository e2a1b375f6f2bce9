// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cache/index/index.h"

namespace ingot::cache {

/// A record as an object of an S3-compatible store holds it (docs/format/s3.md). Version 0: it was deleted.
struct S3Record {
  uint64_t version = 0;
  int64_t created = 0;  ///< Unix seconds of the writer
  std::string group;
  Buffer summary;
  Buffer value;
};
/// The most that stands in front of a value; and less than any record has that was not deleted.
inline constexpr size_t kS3FixedBytes = 48;
inline constexpr size_t kS3FrontBytesMax = kS3FixedBytes + kGroupBytesMax + kSummaryBytesMax;

Buffer EncodeS3Record(const RecordKey& key, const S3Record& record);
/// kCorrupt: bytes that this is not a record of this key by. `is_whole` false: only the front of an object, whose seal
/// cannot be checked, and no value.
Result<S3Record> DecodeS3Record(const RecordKey& key, Bytes bytes, bool is_whole);

}  // namespace ingot::cache
