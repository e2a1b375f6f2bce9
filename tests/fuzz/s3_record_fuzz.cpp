// SPDX-License-Identifier: Apache-2.0
// Records as objects of an S3-compatible store: whoever may write there chooses their bytes.
#include <algorithm>

#include "cache/s3/s3_record.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using cache::DecodeS3Record;
using cache::EncodeS3Record;
using cache::RecordKey;
using cache::S3Record;

const RecordKey kName{cache::Table::kEntries, {0x0123456789abcdef, 0xfedcba9876543210}};

bool CheckRecord(Bytes bytes) {
  const Result<S3Record> whole = DecodeS3Record(kName, bytes, true);
  const Bytes start = bytes.first(std::min(bytes.size(), cache::kS3FrontBytesMax));
  const Result<S3Record> front = DecodeS3Record(kName, start, false);
  if (!whole) return false;
  Ensure(AsText(EncodeS3Record(kName, *whole)) == AsText(bytes), "what decodes is what is written");
  Ensure(front && front->version == whole->version && front->group == whole->group, "the front says the same");
  Ensure(whole->version == 0 || bytes.size() >= cache::kS3FixedBytes, "one that was deleted is told by its size");
  const RecordKey other{cache::Table::kGraphs, kName.digest};
  Ensure(whole->version == 0 || !DecodeS3Record(other, bytes, true), "it stands under one name");
  return true;
}

}  // namespace

std::vector<Buffer> Seeds() {
  const S3Record full{0x123456789abcdef, 1'764'106'000, "a group", Buffer(16, 7), Buffer(100, 9)};
  const S3Record bare{1, 0, "", {}, {}};
  return {EncodeS3Record(kName, full), EncodeS3Record(kName, bare), EncodeS3Record(kName, S3Record())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  fuzz::accepted |= fuzz::CheckRecord(Bytes(data, size));
  return 0;
}
