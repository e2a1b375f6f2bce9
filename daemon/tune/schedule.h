// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/steady_time.h"
#include "daemon/compile/compile_eta.h"

namespace ingot::daemon {

/// The compiles of this daemon under way in the order in which workers take them, so many at a time, and when each is
/// expected to be done. Thread-safe.
class Schedule {
 public:
  /// Told of each compile whose estimate has changed, in order; must not call back.
  using Told = std::function<void(const Digest&, const CompileEta&)>;
  explicit Schedule(Told told) : told_(std::move(told)) {}

  /// A compile that is given to the workers, `width` of which there are.
  void Begin(const Digest& graph_key, size_t width);
  /// How long it is likely to take once a worker has it, in seconds.
  void Expect(const Digest& graph_key, double seconds);
  void End(const Digest& graph_key);

 private:
  struct Work {
    Digest graph_key;
    std::optional<std::chrono::nanoseconds> takes;
    std::optional<SteadyTime> began;
    CompileEta told;
  };
  /// Gives free workers work, and tells what has changed by that.
  void Advance() REQUIRES(mutex_);

  const Told told_;
  Mutex mutex_;
  size_t width_ GUARDED_BY(mutex_) = 1;
  std::vector<Work> works_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
