// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "daemon/admin/verbs.h"
#include "daemon/state/progress.h"

namespace ingot::daemon {
namespace {

/// Flights shown, the oldest.
constexpr size_t kFlightsShown = 32;

const char* NameOfLease(Flights::Lease lease) {
  switch (lease) {
    case Flights::Lease::kNone: return "none";
    case Flights::Lease::kWaits: return "waits";
    case Flights::Lease::kHeld: return "held";
  }
  return "none";
}

double InSeconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

Json FlightJson(const Core& core, const Flights::Facts& flight) {
  const SteadyTime now = SteadyNow();
  const auto left = flight.eta.Left(now);
  // A holder that is not heard of any more is not one.
  std::string holder = flight.lease == Flights::Lease::kWaits ? flight.eta.holder : std::string();
  if (flight.lease == Flights::Lease::kHeld) holder = core.cluster.facts().host;
  return {{"graph_key", flight.key.ToHex()},
          {"function", flight.function},
          {"age_s", InSeconds(now - flight.since)},
          {"waiters", flight.waiters},
          {"lease", NameOfLease(flight.lease)},
          {"holder", holder},
          {"state", NameOf(flight.eta.state)},
          {"compiles_s", flight.eta.since ? Json(InSeconds(now - *flight.eta.since)) : Json()},
          {"left_s", left ? Json(InSeconds(*left)) : Json()}};
}

}  // namespace

Json FlightsJson(const Core& core) {
  auto flights = core.flights.List(core.config.worker_queue_max);
  std::ranges::sort(flights, {}, &Flights::Facts::since);
  Json shown = Json::array();
  for (const Flights::Facts& flight : flights) {
    if (shown.size() == kFlightsShown) break;
    shown.push_back(FlightJson(core, flight));
  }
  return shown;
}

Task<Json> ProgressVerb(const VerbCall& call) {
  const auto state = Progress::Of(Progress::NameOf(call.caller.tenant, call.Text("progress")));
  if (!state) co_return Json::object();
  Json out = {{"what", state->what}, {"done", state->done}, {"all", state->all}};
  if (!state->flight) co_return out;
  const auto flight = call.core.flights.Of(*state->flight);
  if (flight) out["flight"] = FlightJson(call.core, *flight);
  co_return out;
}

}  // namespace ingot::daemon
