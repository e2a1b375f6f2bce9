// SPDX-License-Identifier: Apache-2.0
#include "cache/index/index.h"

#include <fmt/format.h>

namespace ingot::cache {

Status CheckRecord(const Buffer& value, const RecordFacts& facts) {
  if (value.size() > kRecordBytesMax) {
    return Error(Code::kInvalid, fmt::format("a record of {} bytes, the limit is {}", value.size(), kRecordBytesMax));
  }
  if (facts.group.size() > kGroupBytesMax) {
    return Error(Code::kInvalid,
                 fmt::format("a group of {} bytes, the limit is {}", facts.group.size(), kGroupBytesMax));
  }
  if (facts.summary.size() > kSummaryBytesMax) {
    return Error(Code::kInvalid,
                 fmt::format("a summary of {} bytes, the limit is {}", facts.summary.size(), kSummaryBytesMax));
  }
  return {};
}

}  // namespace ingot::cache
