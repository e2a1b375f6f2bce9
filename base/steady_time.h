// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace ingot {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Time that passes when a simulation says so, for a whole process: deadlines (base/until.h) and waits
/// (cache/async/waiter.h) of the daemon's own code then follow it.
class SimulatedTime {
 public:
  virtual ~SimulatedTime() = default;
  virtual SteadyTime Now() const = 0;
  /// Calls `then` once, at that time or at once where it has passed; never from within this call.
  virtual void At(SteadyTime time, std::function<void()> then) = 0;

  /// The process's; nullptr: the machine's clock counts. Set before anything waits, and while nothing does.
  static SimulatedTime* InForce() { return in_force_.load(std::memory_order_relaxed); }
  static void PutInForce(SimulatedTime* time) { in_force_.store(time, std::memory_order_relaxed); }

 private:
  static inline std::atomic<SimulatedTime*> in_force_{nullptr};
};

/// What time it is for deadlines and waits.
inline SteadyTime SteadyNow() {
  const SimulatedTime* const simulated = SimulatedTime::InForce();
  return simulated == nullptr ? std::chrono::steady_clock::now() : simulated->Now();
}

}  // namespace ingot
