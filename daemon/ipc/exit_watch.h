// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <chrono>
#include <functional>
#include <optional>

#include "base/mutex.h"

namespace ingot::daemon {

/// Sees to it that the process ends: takes its signals, and ends it when a limit has passed, whatever its other
/// threads hang in. A store that is cut off so loses nothing that was acknowledged.
///
/// One for the process, never destroyed: it also watches what main() does last. Thread-safe.
class ExitWatch {
 public:
  static ExitWatch& Get();

  /// The first SIGTERM or SIGINT calls `on_signal` on the watch's thread; the second ends the process at once.
  void TakeSignals(std::function<void()> on_signal);
  /// `on_signal` is not called from here on.
  void Forget();
  /// The process ends at the latest so long from now; of several limits the first one counts. The log then says what
  /// was still running, and the exit status is kTimeout's.
  void Limit(std::chrono::seconds limit);

 private:
  using SteadyClock = std::chrono::steady_clock;

  ExitWatch();
  static void OnSignal(int signal);
  void Loop();
  void Wait();
  void Tell();

  sem_t wake_;
  /// Held while it is called, which may set a limit.
  Mutex calling_;
  std::function<void()> on_signal_ GUARDED_BY(calling_);
  Mutex mutex_;
  std::optional<SteadyClock::time_point> deadline_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
