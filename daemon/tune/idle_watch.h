// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/async/waiter.h"

namespace ingot::daemon {

struct Core;

/// Tells somebody whose work nobody waits for when to begin: once there is some, and the machine has had nothing better
/// to do for a while. Wake is thread-safe; the rest belongs to one coroutine.
class IdleWatch {
 public:
  /// `is_idle`: asked once a second, while there is work.
  IdleWatch(const Core& core, uint64_t idle_s_min, std::function<bool()> has_work, std::function<bool()> is_idle);

  /// There is work, which `has_work` sees by now. Never waits.
  void Wake();
  /// Sleeps while there is none, then for a moment. True: the machine has been idle for long enough.
  boost::asio::awaitable<bool> Look(std::stop_token stop);
  /// Counts from now on: somebody came while the work was under way.
  void StartAgain();

 private:
  boost::asio::awaitable<bool> SleepUntilWork(std::stop_token stop);

  const Core& core_;
  const int64_t idle_ns_min_;
  const std::function<bool()> has_work_, is_idle_;
  std::optional<int64_t> since_ns_;
  Mutex mutex_;
  /// Who sleeps until something comes.
  cache::WaiterRef asleep_ GUARDED_BY(mutex_);
};

/// Nobody waits for a compile.
bool IsFree(const Core& core);
/// Comes back a moment later, or once `until` is over.
boost::asio::awaitable<void> PauseToLook(Until until);

}  // namespace ingot::daemon
