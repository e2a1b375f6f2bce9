// SPDX-License-Identifier: Apache-2.0
// What the page and those who scrape ask beside the verbs of the command line.
#include <unistd.h>

#include <algorithm>

#include "base/metrics.h"
#include "daemon/admin/verbs.h"
#include "daemon/web/exposition.h"
#include "daemon/web/own_use.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

Json StoreJson(Core& core) {
  Json tables = Json::array();
  uint64_t bytes = 0;
  const auto totals = core.store.TotalsOf();
  for (size_t table = 0; table < totals.size(); ++table) {
    bytes += totals[table].bytes;
    tables.push_back({{"table", NameOf(static_cast<cache::Table>(table))},
                      {"count", totals[table].count},
                      {"bytes", totals[table].bytes}});
  }
  return {{"state", core.store.Describe()},
          {"trouble", core.store_note.trouble()},
          {"bytes", bytes},
          {"bytes_max", core.store_note.bytes_max()},
          {"entries", totals[static_cast<size_t>(cache::Table::kEntries)].count},
          {"entries_max", core.config.store_entries_max},
          {"tables", tables}};
}

/// By columns: they are many and their names few.
Json SamplesJson(const Core& core) {
  Json when = Json::array(), hits = Json::array(), misses = Json::array(), compiles = Json::array(),
       requests = Json::array(), flights = Json::array();
  for (const Recent::Sample& sample : core.recent.samples()) {
    when.push_back(sample.when);
    hits.push_back(sample.hits);
    misses.push_back(sample.misses);
    compiles.push_back(sample.compiles);
    requests.push_back(sample.requests);
    flights.push_back(sample.flights);
  }
  return {{"period_s", core.config.web_sample_s},
          {"when", when},
          {"hits", hits},
          {"misses", misses},
          {"compiles", compiles},
          {"requests", requests},
          {"flights", flights}};
}

Json MissesJson(const Core& core) {
  Json misses = Json::array();
  for (const Recent::Miss& miss : core.recent.misses()) {
    misses.push_back({{"when", miss.when},
                      {"key", miss.key.ToHex()},
                      {"function", miss.function},
                      {"reason", miss.reason},
                      {"why", miss.why}});
  }
  return misses;
}

}  // namespace

Task<Json> OverviewVerb(const VerbCall& call) {
  Core& core = call.core;
  const Artifacts::Use open = core.artifacts.open();
  const web::ProcessUse use = web::OwnUse();
  const Metrics& metrics = GlobalMetrics();
  co_return Json{{"now", core.clock.now_s()},
                 {"pid", getpid()},
                 {"version", proto::Version()},
                 {"build", proto::BuildId()},
                 {"place", call.hooks.store_dir},
                 {"uptime_s", call.hooks.uptime_s()},
                 {"clients", call.hooks.clients()},
                 {"resident_bytes", use.resident_bytes},
                 {"open_artifacts", open.count},
                 {"open_artifact_bytes", open.bytes},
                 {"hits", metrics.Get(Counter::entry_hits)},
                 {"misses", metrics.Get(Counter::entry_misses)},
                 {"compiles", metrics.Get(Counter::compiles)},
                 {"compile_failures", metrics.Get(Counter::compile_failures)},
                 {"compile_s", static_cast<double>(metrics.NsOf(Timer::compile)) / 1e9},
                 {"compiles_pending", core.compilers.pending()},
                 {"workers", core.compilers.alive()},
                 {"flights", core.flights.size()},
                 {"oldest_flights", FlightsJson(core)},
                 {"load", LoadJson(core)},
                 {"store", StoreJson(core)},
                 {"cluster", ClusterJson(core)},
                 {"samples", SamplesJson(core)},
                 {"newest_misses", MissesJson(core)}};
}

Task<Json> MetricsVerb(const VerbCall& call) { co_return Json{{"text", web::Exposition(GlobalMetrics(), call)}}; }

}  // namespace ingot::daemon
