// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "cache/store/rocks_store.h"

namespace ingot::cache {

/// Whether the disk of a store has room for a value, and is left as much as its options say. Thread-safe; `options`
/// live longer than this.
class DiskRoom {
 public:
  DiskRoom(std::string dir, const RocksStoreOptions& options) : dir_(std::move(dir)), options_(options) {}
  /// kExhausted where there is none for so many bytes, or where no value may have so many.
  Status Check(uint64_t bytes);
  /// As it was found last.
  bool is_full() const { return is_full_; }

 private:
  const std::string dir_;
  const RocksStoreOptions& options_;
  std::atomic<bool> is_full_{false};
};

}  // namespace ingot::cache
