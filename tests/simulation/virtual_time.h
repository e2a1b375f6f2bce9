// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "base/steady_time.h"
#include "cache/async/task.h"

namespace ingot::simulation {

using Duration = std::chrono::nanoseconds;

inline Duration Seconds(double seconds) { return Duration(static_cast<int64_t>(seconds * 1e9)); }

/// A discrete-event clock in force for the whole process, and the executor of all that happens under it: whatever can
/// go on does so in no time; then time goes on to the next event. One thread, in a fixed order.
class VirtualTime final : public SimulatedTime {
 public:
  VirtualTime() { PutInForce(this); }
  ~VirtualTime() override { PutInForce(nullptr); }

  SteadyTime Now() const override { return now_; }
  void At(SteadyTime time, std::function<void()> then) override {
    events_.push({std::max(time, now_), next_++, std::move(then)});
  }
  void In(Duration left, std::function<void()> then) { At(now_ + left, std::move(then)); }
  double seconds() const { return std::chrono::duration<double>(now_ - SteadyTime()).count(); }
  boost::asio::io_context& io() { return io_; }
  /// Events that have happened.
  uint64_t events() const { return next_ - events_.size(); }

  /// Until nothing is to happen any more, or until that time.
  void Run(SteadyTime end) {
    while (true) {
      io_.restart();
      io_.poll();
      if (events_.empty() || events_.top().time > end) return;
      // What one event sets off comes before the next, as of one moment as it may be.
      std::function<void()> then = std::move(const_cast<Event&>(events_.top()).then);
      now_ = events_.top().time;
      events_.pop();
      then();
    }
  }

 private:
  struct Event {
    SteadyTime time;
    uint64_t number;
    std::function<void()> then;
    bool operator<(const Event& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };
  // One thread: nothing is locked.
  boost::asio::io_context io_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  SteadyTime now_ = SteadyTime() + std::chrono::seconds(1);
  std::priority_queue<Event> events_;
  uint64_t next_ = 0;
};

/// Comes back after a while of virtual time; kTimeout or kCancelled where `until` is sooner.
cache::Task<void> Sleep(Duration left, Until until);

/// A machine's clock, which may be wrong about the date.
class NodeClock final : public Clock {
 public:
  explicit NodeClock(int64_t skew_s) : skew_s_(skew_s) {}
  int64_t now_s() const override { return 1'800'000'000 + steady_ns() / 1'000'000'000 + skew_s_; }
  int64_t steady_ns() const override { return SteadyNow().time_since_epoch().count(); }

 private:
  const int64_t skew_s_;
};

}  // namespace ingot::simulation
