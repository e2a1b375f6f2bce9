// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/until.h"
#include "cache/waiter.h"

namespace ingot::daemon {

/// What a compile came to.
struct Landed {
  Digest artifact;
  uint64_t bytes = 0;
  float compile_s = 0;
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
  struct Flight {
    std::vector<cache::WaiterRef> waiters;
    std::optional<Result<T>> landed;
    SteadyTime since = std::chrono::steady_clock::now();
    std::string function;
    Lease lease = Lease::kNone;
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

  /// What the flight came to; kTimeout and kCancelled by `until`, while it goes on.
  cache::Task<T> Wait(FlightRef flight, Until until) {
    auto waiter = std::make_shared<cache::Waiter>();
    {
      MutexLock lock(mutex_);
      if (flight->landed) co_return *flight->landed;
      flight->waiters.push_back(waiter);
    }
    CO_TRY(co_await cache::Waiter::Wait(waiter, until));
    MutexLock lock(mutex_);
    co_return *flight->landed;
  }

  /// Ends the flight and wakes everybody.
  void Land(const Digest& key, Result<T> result) {
    std::vector<cache::WaiterRef> waiters;
    {
      MutexLock lock(mutex_);
      const auto at = flights_.find(key);
      if (at == flights_.end()) return;
      at->second->landed = std::move(result);
      waiters = std::move(at->second->waiters);
      flights_.erase(at);
    }
    for (const cache::WaiterRef& waiter : waiters) waiter->Wake();
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
  struct Facts {
    Digest key;
    SteadyTime since;
    size_t waiters = 0;
    std::string function;  ///< Empty: not said yet.
    Lease lease = Lease::kNone;
  };
  /// At most `limit` flights, in no order.
  std::vector<Facts> List(size_t limit) const {
    std::vector<Facts> all;
    MutexLock lock(mutex_);
    for (const auto& [key, flight] : flights_) {
      if (all.size() == limit) break;
      all.push_back({key, flight->since, flight->waiters.size(), flight->function, flight->lease});
    }
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<Digest, FlightRef> flights_ GUARDED_BY(mutex_);
};
/// Compiles by graph key.
using Flights = FlightsOf<Landed>;

}  // namespace ingot::daemon
