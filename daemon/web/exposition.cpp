// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/exposition.h"

#include <fmt/format.h>

#include "daemon/web/own_use.h"
#include "proto/endpoint.h"

namespace ingot::daemon::web {
namespace {

using cache::CircuitBreaker;

std::vector<Series> One(double value) { return {{{}, value}}; }

std::vector<Series> OfTables(const VerbCall& call, uint64_t cache::Totals::* member) {
  std::vector<Series> out;
  const auto totals = call.core.store.TotalsOf();
  for (size_t table = 0; table < totals.size(); ++table) {
    out.push_back({{{"table", std::string(NameOf(static_cast<cache::Table>(table)))}},
                   static_cast<double>(totals[table].*member)});
  }
  return out;
}

/// One series a tier; none where nothing is shared.
std::vector<Series> OfTiers(const VerbCall& call, double (*value)(const CircuitBreaker::Facts&)) {
  if (!call.core.cluster.is_shared()) return {};
  const Cluster::Facts facts = call.core.cluster.facts();
  return {{{{"tier", "index"}}, value(facts.index_breaker)}, {{{"tier", "blobs"}}, value(facts.blobs_breaker)}};
}

std::vector<Series> OfLeases(const VerbCall& call) {
  double held = 0, waits = 0;
  for (const Flights::Facts& flight : call.core.flights.List(call.core.config.worker_queue_max)) {
    held += flight.lease == Flights::Lease::kHeld;
    waits += flight.lease == Flights::Lease::kWaits;
  }
  return {{{{"state", "held"}}, held}, {{{"state", "waited_for"}}, waits}};
}

double RunningOf(const VerbCall& call) {
  double running = 0;
  for (const LoadBoard::ClientFacts& client : call.core.load.facts().clients) running += client.running;
  return running;
}

/// Of a label's value or of a help text.
std::string Escaped(std::string_view text, bool is_label) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && is_label)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

void AddHead(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, Escaped(help, false), name, type);
}

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string NameOfCounter(Counter counter) { return fmt::format("ingot_{}_total", NameOf(counter)); }
std::string NameOfTimer(Timer timer) { return fmt::format("ingot_{}_seconds", NameOf(timer)); }
std::string HelpOfTimer(Timer timer) { return fmt::format("seconds of {}", HelpOf(timer)); }

void AddTimer(std::string& out, const Metrics& metrics, Timer timer) {
  const std::string name = NameOfTimer(timer);
  AddHead(out, name, "histogram", HelpOfTimer(timer));
  const TimerBuckets buckets = metrics.BucketsOf(timer);
  uint64_t count = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    count += buckets[i];
    const std::string bound = i < kTimerBounds.size() ? fmt::format("{}", Seconds(kTimerBounds[i])) : "+Inf";
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  out += fmt::format("{}_sum {}\n{}_count {}\n", name, Seconds(metrics.NsOf(timer)), name, count);
}

}  // namespace

const std::vector<StateMetric>& StateMetrics() {
  // One line a metric: the list is what docs/metrics.md is checked against.
  static const std::vector<StateMetric> all = {
      {"build_info", "gauge", "1; its labels say which daemon this is",
       [](const VerbCall&) -> std::vector<Series> {
         return {{{{"version", std::string(proto::Version())}, {"build", std::string(proto::BuildId())}}, 1}};
       }},
      {"uptime_seconds", "gauge", "seconds since the daemon started",
       [](const VerbCall& call) { return One(static_cast<double>(call.hooks.uptime_s())); }},
      {"clients", "gauge", "connections of programs",
       [](const VerbCall& call) { return One(static_cast<double>(call.hooks.clients())); }},
      {"flights", "gauge", "graph keys that are being compiled or looked for",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.flights.size())); }},
      {"leases", "gauge", "flights whose lease in the cluster this daemon holds, or waits for",
       [](const VerbCall& call) { return OfLeases(call); }},
      {"compiles_pending", "gauge", "compiles that wait for a worker or run in one",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.compilers.pending())); }},
      {"workers", "gauge", "compile workers that run",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.compilers.alive())); }},
      {"load_clients", "gauge", "programs that run compiled models and share the processors",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.load.facts().clients.size())); }},
      {"load_running", "gauge", "calls of these programs that compute, averaged over some 40 ms",
       [](const VerbCall& call) { return One(RunningOf(call)); }},
      {"load_others", "gauge", "processors that are busy with other things than these calls; 0 while nobody looks",
       [](const VerbCall& call) { return One(call.core.load.facts().others.value_or(0)); }},
      {"store_usable", "gauge", "1: the store on disk is used; 0: memory takes its place",
       [](const VerbCall& call) { return One(call.core.store_note.trouble().empty() ? 1 : 0); }},
      {"store_values", "gauge", "values in the store; zeros until it is open",
       [](const VerbCall& call) { return OfTables(call, &cache::Totals::count); }},
      {"store_bytes", "gauge", "bytes of the values in the store; zeros until it is open",
       [](const VerbCall& call) { return OfTables(call, &cache::Totals::bytes); }},
      {"store_bytes_max", "gauge", "bytes below which eviction keeps the store; 0 = no limit",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.store_note.bytes_max())); }},
      {"store_entries_max", "gauge", "entries below which eviction keeps the store; 0 = no limit",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.config.store_entries_max)); }},
      {"open_artifacts", "gauge", "artifacts kept as memory files",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.artifacts.open().count)); }},
      {"open_artifact_bytes", "gauge", "bytes of the artifacts kept as memory files",
       [](const VerbCall& call) { return One(static_cast<double>(call.core.artifacts.open().bytes)); }},
      {"tier_state", "gauge", "a cluster tier's circuit breaker: 0 calls go through, 1 one call tries, 2 none is made",
       [](const VerbCall& call) {
         return OfTiers(call, [](const CircuitBreaker::Facts& facts) {
           return facts.state == CircuitBreaker::State::kClosed   ? 0.0
                  : facts.state == CircuitBreaker::State::kTrying ? 1.0
                                                                  : 2.0;
         });
       }},
      {"tier_opened_total", "counter", "times that a cluster tier was left alone, since it failed",
       [](const VerbCall& call) {
         return OfTiers(call, [](const CircuitBreaker::Facts& facts) { return static_cast<double>(facts.opened); });
       }},
      {"tier_refused_total", "counter", "calls of a cluster tier that were not made, since it was left alone",
       [](const VerbCall& call) {
         return OfTiers(call, [](const CircuitBreaker::Facts& facts) { return static_cast<double>(facts.refused); });
       }},
      {"cluster_outbox", "gauge", "entries that wait to be given to other machines, as far as one look sees",
       [](const VerbCall& call) {
         return One(call.core.cluster.can_write() ? static_cast<double>(call.core.sharing.unsent()) : 0);
       }},
      {"process_resident_bytes", "gauge", "memory of the daemon that is in use",
       [](const VerbCall&) { return One(static_cast<double>(OwnUse().resident_bytes)); }},
      {"process_open_files", "gauge", "open files of the daemon",
       [](const VerbCall&) { return One(static_cast<double>(OwnUse().open_files)); }},
      {"process_open_files_max", "gauge", "open files that the daemon may have",
       [](const VerbCall&) { return One(static_cast<double>(OwnUse().open_files_max)); }},
      {"process_cpu_seconds_total", "counter", "processor time of the daemon, without its workers",
       [](const VerbCall&) { return One(OwnUse().cpu_s); }},
  };
  return all;
}

std::string Exposition(const Metrics& metrics, const VerbCall& call) {
  std::string out;
  for (size_t i = 0; i < kCounters; ++i) {
    const Counter counter = static_cast<Counter>(i);
    const std::string name = NameOfCounter(counter);
    AddHead(out, name, "counter", HelpOf(counter));
    out += fmt::format("{} {}\n", name, metrics.Get(counter));
  }
  for (size_t i = 0; i < kTimers; ++i) AddTimer(out, metrics, static_cast<Timer>(i));
  for (const StateMetric& metric : StateMetrics()) {
    const std::string name = fmt::format("ingot_{}", metric.name);
    AddHead(out, name, metric.type, metric.help);
    for (const Series& series : metric.read(call)) {
      std::string labels;
      for (const auto& [label, value] : series.labels) {
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", label, Escaped(value, true));
      }
      out += labels.empty() ? fmt::format("{} {}\n", name, series.value)
                            : fmt::format("{}{{{}}} {}\n", name, labels, series.value);
    }
  }
  return out;
}

std::string MetricsTable() {
  std::string out = "| metric | type | meaning |\n|---|---|---|\n";
  const auto row = [&out](std::string_view name, std::string_view type, std::string_view help) {
    out += fmt::format("| `{}` | {} | {} |\n", name, type, help);
  };
  for (size_t i = 0; i < kCounters; ++i) {
    const Counter counter = static_cast<Counter>(i);
    row(NameOfCounter(counter), "counter", HelpOf(counter));
  }
  for (size_t i = 0; i < kTimers; ++i) {
    const Timer timer = static_cast<Timer>(i);
    row(NameOfTimer(timer), "histogram", HelpOfTimer(timer));
  }
  for (const StateMetric& metric : StateMetrics()) {
    row(fmt::format("ingot_{}", metric.name), metric.type, metric.help);
  }
  return out;
}

}  // namespace ingot::daemon::web
