// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/until.h"
#include "cache/async/waiter.h"
#include "daemon/compile/compile_eta.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What a compile came to.
struct Landed {
  Digest artifact;
  uint64_t bytes = 0;
  float compile_s = 0;
  proto::StageSeconds stages;
  /// The envelope by which it came from another machine; null: it was made here.
  std::shared_ptr<const Buffer> origin = nullptr;
};

/// At most one piece of work in progress for each key; everybody else waits for it. A request
/// whose client is gone changes nothing: the flight belongs to the daemon. Thread-safe.
template <typename T>
class FlightsOf {
 public:
  /// Where a flight stands among other machines.
  enum class Lease : uint8_t { kNone, kWaits, kHeld };
  struct Waiting {
    cache::WaiterRef waiter;
    SteadyTime time;  ///< Until when.
  };
  struct Flight {
    std::vector<Waiting> waiters;
    std::optional<Result<T>> landed;
    SteadyTime since = SteadyNow();
    std::string function;
    Lease lease = Lease::kNone;
    CompileEta eta;
  };
  using FlightRef = std::shared_ptr<Flight>;
  struct Joined {
    FlightRef flight;
    bool leads = false;  ///< The first: it must see to it that Land is called in the end.
  };

  Joined Join(const Digest& key) {
    MutexLock lock(mutex_);
    FlightRef& flight = flights_[key];
    const bool leads = flight == nullptr;
    if (leads) flight = std::make_shared<Flight>();
    return {flight, leads};
  }

  /// What the flight came to; kTimeout and kCancelled by `until`, while it goes on. kTimeout as soon as it is known to
  /// come much later than that: nobody waits for nothing.
  cache::Task<T> Wait(FlightRef flight, Until until) {
    auto waiter = std::make_shared<cache::Waiter>();
    {
      MutexLock lock(mutex_);
      if (flight->landed) co_return *flight->landed;
      if (flight->eta.IsTooLateFor(until.time, SteadyNow())) co_return TooLate(flight->eta);
      flight->waiters.push_back({waiter, until.time});
    }
    CO_TRY(co_await cache::Waiter::Wait(waiter, until));
    MutexLock lock(mutex_);
    if (!flight->landed) co_return TooLate(flight->eta);
    co_return *flight->landed;
  }
  bool HasLanded(const FlightRef& flight) const {
    MutexLock lock(mutex_);
    return flight->landed.has_value();
  }

  /// Ends the flight and wakes everybody.
  void Land(const Digest& key, Result<T> result) {
    std::vector<Waiting> waiters;
    {
      MutexLock lock(mutex_);
      const auto at = flights_.find(key);
      if (at == flights_.end()) return;
      at->second->landed = std::move(result);
      waiters = std::move(at->second->waiters);
      flights_.erase(at);
    }
    for (const Waiting& one : waiters) one.waiter->Wake();
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return flights_.size();
  }

  /// For people: whose flight it is and how far. Nothing where it has landed.
  void Say(const Digest& key, const std::string& function, Lease lease) {
    MutexLock lock(mutex_);
    const auto at = flights_.find(key);
    if (at == flights_.end()) return;
    at->second->function = function;
    at->second->lease = lease;
  }
  /// How far it is and until when it is expected. Whoever cannot wait so long is told now.
  void Expect(const Digest& key, const CompileEta& eta) {
    std::vector<Waiting> late;
    {
      MutexLock lock(mutex_);
      const auto at = flights_.find(key);
      if (at == flights_.end()) return;
      at->second->eta = eta;
      std::vector<Waiting>& waiters = at->second->waiters;
      const SteadyTime now = SteadyNow();
      const auto is_in_time = [&](const Waiting& one) { return !eta.IsTooLateFor(one.time, now); };
      const auto first = std::partition(waiters.begin(), waiters.end(), is_in_time);
      late.assign(first, waiters.end());
      waiters.erase(first, waiters.end());
    }
    for (const Waiting& one : late) one.waiter->Wake();
  }
  struct Facts {
    Digest key;
    SteadyTime since;
    size_t waiters = 0;
    std::string function;  ///< Empty: not said yet.
    Lease lease = Lease::kNone;
    CompileEta eta;
  };
  /// None: it has landed, or never was.
  std::optional<Facts> Of(const Digest& key) const {
    MutexLock lock(mutex_);
    const auto at = flights_.find(key);
    if (at == flights_.end()) return std::nullopt;
    return FactsOf(key, *at->second);
  }
  /// At most `limit` flights, in no order.
  std::vector<Facts> List(size_t limit) const {
    std::vector<Facts> all;
    MutexLock lock(mutex_);
    for (const auto& [key, flight] : flights_) {
      if (all.size() == limit) break;
      all.push_back(FactsOf(key, *flight));
    }
    return all;
  }

 private:
  static Facts FactsOf(const Digest& key, const Flight& flight) {
    return {key, flight.since, flight.waiters.size(), flight.function, flight.lease, flight.eta};
  }
  static Error TooLate(const CompileEta& eta) {
    const auto left = eta.Left(SteadyNow()).value_or(std::chrono::nanoseconds(0));
    return Error(Code::kTimeout, fmt::format("the compile goes on and is expected in about {} s, later than anybody "
                                             "waits for here",
                                             std::chrono::duration_cast<std::chrono::seconds>(left).count()));
  }

  mutable Mutex mutex_;
  std::unordered_map<Digest, FlightRef> flights_ GUARDED_BY(mutex_);
};
/// Compiles by graph key.
using Flights = FlightsOf<Landed>;

}  // namespace ingot::daemon
