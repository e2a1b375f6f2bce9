// SPDX-License-Identifier: Apache-2.0
#include "cache/store/disk_room.h"

#include <fmt/format.h>

#include "base/log.h"

namespace ingot::cache {

Status DiskRoom::Check(uint64_t bytes) {
  if (bytes > options_.value_bytes_max) {
    return Error(Code::kExhausted,
                 fmt::format("a value of {} bytes is over the limit of {}", bytes, options_.value_bytes_max));
  }
  // A file system that cannot say how much is free is asked by writing to it.
  const Result<uint64_t> free = options_.filesystem->FreeBytes(dir_);
  const bool full = free && (*free < bytes || *free - bytes < options_.disk_free_bytes_min);
  if (is_full_.exchange(full) != full) {
    if (full) {
      LogWarn("stopped writing to the store", {{"dir", dir_}, {"free_bytes", *free}});
    } else {
      LogInfo("resumed writing to the store", {{"dir", dir_}});
    }
  }
  if (!full) return {};
  options_.metrics->Add(Counter::store_full);
  return Error(Code::kExhausted, fmt::format("{} has {} bytes free; a value of {} bytes must leave {}: free some "
                                             "space or lower the limit",
                                             dir_, *free, bytes, options_.disk_free_bytes_min));
}

}  // namespace ingot::cache
