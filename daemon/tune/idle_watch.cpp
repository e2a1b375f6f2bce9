// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/idle_watch.h"

#include <chrono>
#include <memory>
#include <utility>

#include "daemon/core.h"

namespace ingot::daemon {

bool IsFree(const Core& core) { return core.flights.size() == 0 && core.compilers.pending() == 0; }

boost::asio::awaitable<void> PauseToLook(Until until) {
  constexpr std::chrono::seconds kPause{1};
  const auto nothing = std::make_shared<cache::Waiter>();
  const Until pause = until.AtMost(kPause);
  Ignore(co_await cache::Waiter::Wait(nothing, pause), "it is looked at in any case");
}

IdleWatch::IdleWatch(const Core& core, uint64_t idle_s_min, std::function<bool()> has_work,
                     std::function<bool()> is_idle)
    : core_(core),
      idle_ns_min_(static_cast<int64_t>(idle_s_min) * 1'000'000'000),
      has_work_(std::move(has_work)),
      is_idle_(std::move(is_idle)) {}

void IdleWatch::Wake() {
  cache::WaiterRef asleep;
  {
    MutexLock lock(mutex_);
    asleep = std::move(asleep_);
  }
  if (asleep) asleep->Wake();
}

void IdleWatch::StartAgain() { since_ns_ = core_.clock.steady_ns(); }

/// True: it was waited for.
boost::asio::awaitable<bool> IdleWatch::SleepUntilWork(std::stop_token stop) {
  const auto waiter = std::make_shared<cache::Waiter>();
  {
    MutexLock lock(mutex_);
    asleep_ = waiter;
  }
  // Work that came before is seen here, work that comes from now on wakes.
  if (has_work_()) co_return false;
  const Until until{.stop = stop};
  Ignore(co_await cache::Waiter::Wait(waiter, until), "it is looked at in any case");
  co_return true;
}

boost::asio::awaitable<bool> IdleWatch::Look(std::stop_token stop) {
  const bool has_slept = co_await SleepUntilWork(stop);
  // Nobody has looked meanwhile.
  if (has_slept || !since_ns_) StartAgain();
  const Until until{.stop = stop};
  co_await PauseToLook(until);
  if (!is_idle_()) {
    StartAgain();
    co_return false;
  }
  co_return core_.clock.steady_ns() - *since_ns_ >= idle_ns_min_;
}

}  // namespace ingot::daemon
