// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "base/mutex.h"
#include "cache/async/task.h"
#include "cache/async/waiter.h"

namespace ingot::cache {

/// So much of something for all together: bytes in memory, loads at once. Who wants more than is left waits, in the
/// order of coming. Thread-safe; made by std::make_shared.
class Budget : public std::enable_shared_from_this<Budget> {
 public:
  explicit Budget(uint64_t units) : units_(units), left_(units) {}

  /// Gives back what was taken when it goes.
  class Share {
   public:
    Share() = default;
    Share(std::shared_ptr<Budget> of, uint64_t units) : of_(std::move(of)), units_(units) {}
    Share(Share&& other) noexcept : of_(std::move(other.of_)), units_(other.units_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(units_, other.units_);
      return *this;
    }
    ~Share() {
      if (of_) of_->GiveBack(units_);
    }

   private:
    std::shared_ptr<Budget> of_;
    uint64_t units_ = 0;
  };

  /// Who wants more than there is takes all. kTimeout, kCancelled.
  Task<Share> Take(uint64_t units, Until until);
  /// Who waits.
  size_t waiting() const {
    MutexLock lock(mutex_);
    return askers_.size();
  }

 private:
  struct Asker {
    explicit Asker(uint64_t units) : units(units), waiter(std::make_shared<Waiter>()) {}
    const uint64_t units;
    const WaiterRef waiter;
    bool has_share = false;
  };
  void GiveBack(uint64_t units);
  void Serve() REQUIRES(mutex_);

  const uint64_t units_;
  mutable Mutex mutex_;
  uint64_t left_ GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Asker>> askers_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
