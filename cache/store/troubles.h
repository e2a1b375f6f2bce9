// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"

namespace ingot::cache {

/// What is wrong with the disk. Thread-safe; never waits, since RocksDB tells it from its own threads.
class Troubles {
 public:
  void Add(const Error& error) {
    MutexLock lock(mutex_);
    ++number_;
    last_ = error;
    is_ill_ = true;
  }
  bool is_ill() const { return is_ill_; }
  std::optional<Error> last() const {
    MutexLock lock(mutex_);
    return last_;
  }
  /// What to give to End.
  uint64_t number() const {
    MutexLock lock(mutex_);
    return number_;
  }
  /// It is over, unless there was more since.
  void End(uint64_t number) {
    MutexLock lock(mutex_);
    if (number != number_) return;
    last_.reset();
    is_ill_ = false;
  }

 private:
  mutable Mutex mutex_;
  std::atomic<bool> is_ill_{false};
  uint64_t number_ GUARDED_BY(mutex_) = 0;
  std::optional<Error> last_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
