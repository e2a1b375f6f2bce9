// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/metrics.h"
#include "base/until.h"
#include "cache/async/circuit_breaker.h"
#include "cache/async/task.h"
#include "cache/async/waiter.h"
#include "cache/index/rendezvous.h"

namespace ingot::cache {

struct ShardLimits {
  BreakerLimits breaker;
  /// No answer takes so long: a shard that is silent for this time has failed, and the next is asked.
  std::chrono::milliseconds answer_max{500};
  /// A call that had less time than this, and no answer, says nothing of its shard.
  std::chrono::milliseconds fair_min{100};
  /// Times that one call is tried in one shard, while its breaker lets it.
  uint32_t tries_max = 10;
};

/// Whether an error says that the shard is in trouble, not the call.
inline bool SaysAway(const Error& error) {
  return error.code() == Code::kUnavailable || error.code() == Code::kTimeout;
}

/// Several stores of one port that share the keys among them: a key lives in the first of its rendezvous order
/// (cache/index/rendezvous.h) that answers, and in no place beyond the third. One breaker for each. Thread-safe.
template <typename Port>
class Shards {
 public:
  /// One of them.
  struct Shard {
    std::string name;  ///< Keys are dealt out by it: the same for all who share.
    std::shared_ptr<Port> port;
  };
  template <typename T>
  using Calls = std::function<Task<T>(Port&, Until)>;

  Shards(std::vector<Shard> shards, const Clock& clock, const ShardLimits& limits) : limits_(limits) {
    for (Shard& shard : shards) {
      names_.push_back(std::move(shard.name));
      held_.push_back(std::make_unique<Held>(limits.breaker, clock));
      held_.back()->port = std::move(shard.port);
    }
  }

  size_t size() const { return held_.size(); }
  /// Places in which a key may be: as many of its order as are ever asked for it.
  size_t places() const { return std::min<size_t>(kPlacesMax, held_.size()); }
  /// Which shard is a key's `place`.
  size_t ShardOf(const Digest& key, size_t place) const { return RendezvousOrder(names_, key, place + 1)[place]; }
  Port& port(size_t shard) const { return *held_[shard]->port; }
  CircuitBreaker& breaker(size_t shard) const { return held_[shard]->breaker; }

  /// What is left for one place while another may follow: half, so that one that is silent leaves time for it.
  Until TimeFor(size_t place, const Until& until) const {
    return place + 1 < places() ? until.AtMost(until.Left() / 2) : until;
  }

  /// A call to one shard, tried again while its breaker lets it and `limit` has not come.
  template <typename T>
  Task<T> Call(size_t shard, Calls<T> call, Until limit, Until until) {
    Held& held = *held_[shard];
    for (uint32_t tries = 1;; ++tries) {
      CO_TRY(until.Check());
      CO_TRY(limit.Check());
      if (!held.breaker.Allow()) {
        GlobalMetrics().Add(Counter::cluster_refused);
        co_return Error(Code::kUnavailable,
                        "the shard failed of late and is left alone for a while: " + held.breaker.facts().why);
      }
      const bool is_fair = limit.Left() >= std::min<std::chrono::nanoseconds>(limits_.fair_min, limits_.answer_max);
      const Until answer = limit.AtMost(limits_.answer_max);
      Result<T> result = co_await call(*held.port, answer);
      if (result || !SaysAway(result.error())) {
        const bool gave_up = !result && result.error().code() == Code::kCancelled;
        gave_up ? held.breaker.GaveUp() : held.breaker.Succeeded();
        co_return result;
      }
      const Status over = until.Check();
      const bool is_silent = result.error().code() == Code::kTimeout;
      if (!over || (!is_fair && is_silent)) {
        held.breaker.GaveUp();
      } else {
        held.breaker.Failed(result.error().ToText());
      }
      const bool is_left_alone = held.breaker.facts().state != CircuitBreaker::State::kClosed;
      // One connection that was cut is no shard that is away; where one answer did not come the next takes as long.
      if (!over || is_silent || is_left_alone || tries >= limits_.tries_max) co_return std::move(result).error();
      // While it is made anew; what fails sooner is no other failure for the breaker either.
      const auto nothing = std::make_shared<Waiter>();
      const Until pause = limit.AtMost(std::chrono::milliseconds(limits_.breaker.apart_ms_min));
      Ignore(co_await Waiter::Wait(nothing, pause), "the loop looks at its time");
    }
  }
  template <typename T>
  Task<T> CallAt(size_t place, Digest key, Calls<T> call, Until until) {
    if (place >= size()) co_return Error(Code::kUnavailable, "there is no such shard");
    const Until limit = until;
    co_return co_await Call<T>(ShardOf(key, place), std::move(call), limit, until);
  }
  /// A call to the first shard that answers, and its place.
  template <typename T>
  Task<std::pair<T, size_t>> CallFirst(Digest key, Calls<T> call, Until until) {
    std::optional<Error> away;
    for (size_t place = 0; place < places(); ++place) {
      const Until limit = TimeFor(place, until);
      Result<T> result = co_await Call<T>(ShardOf(key, place), call, limit, until);
      if (result) co_return std::pair(std::move(*result), place);
      CO_TRY(until.Check());
      if (!SaysAway(result.error())) co_return std::move(result).error();
      away = std::move(result).error();
    }
    co_return std::move(*away);
  }

  /// Of all together: open once every one is left alone.
  CircuitBreaker::Facts breakers() const {
    CircuitBreaker::Facts all;
    size_t left_alone = 0;
    for (const auto& held : held_) {
      const CircuitBreaker::Facts facts = held->breaker.facts();
      all.opened += facts.opened;
      all.refused += facts.refused;
      if (!facts.why.empty()) all.why = facts.why;
      left_alone += facts.state != CircuitBreaker::State::kClosed;
    }
    if (left_alone == held_.size()) all.state = CircuitBreaker::State::kOpen;
    return all;
  }

  /// For people: one line, of all.
  std::string Describe() const {
    std::string out;
    for (size_t i = 0; i < held_.size(); ++i) {
      out += (i == 0 ? "" : "; ") + held_[i]->port->Describe();
      const CircuitBreaker::Facts facts = held_[i]->breaker.facts();
      if (facts.state != CircuitBreaker::State::kClosed) out += " (left alone: " + facts.why + ")";
    }
    return out;
  }

 private:
  static constexpr size_t kPlacesMax = 3;
  struct Held {
    Held(const BreakerLimits& limits, const Clock& clock) : breaker(limits, clock) {}
    std::shared_ptr<Port> port;
    CircuitBreaker breaker;
  };

  const ShardLimits limits_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Held>> held_;
};

}  // namespace ingot::cache
