// SPDX-License-Identifier: Apache-2.0
// A cluster of daemons under a clock of its own (docs/cluster.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "tests/simulation/simulation.h"

namespace {

using ingot::simulation::Percentile;
using ingot::simulation::Report;
using Json = nlohmann::ordered_json;

constexpr size_t kCurvePoints = 100;
constexpr size_t kSecondsABin = 10;

Json CurveOf(const std::vector<float>& ordered) {
  Json out = Json::array();
  for (size_t i = 0; i <= kCurvePoints; ++i) {
    out.push_back(Percentile(ordered, static_cast<double>(i) / static_cast<double>(kCurvePoints)));
  }
  return out;
}

/// Calls a second in each ten seconds.
Json LoadOf(const Report& report) {
  std::vector<double> calls;
  for (size_t second = 0; second < report.index_calls_by_s.size(); ++second) {
    calls.resize(second / kSecondsABin + 1);
    calls.back() += static_cast<double>(report.index_calls_by_s[second]) / kSecondsABin;
  }
  return {{"seconds_a_bin", kSecondsABin}, {"calls", calls}};
}

Json JsonOf(const Report& report, bool with_curves) {
  Json out = {
      {"scenario", report.scenario},
      {"nodes", report.scale.nodes},
      {"seed", report.scale.seed},
      {"first_calls", report.first_calls},
      {"hits", report.hits},
      {"failed", report.failed},
      {"keys", report.keys},
      {"keys_unfinished", report.keys_unfinished},
      {"compiles", report.compiles},
      {"compiles_a_key", report.compiles_a_key()},
      {"compiles_of_one_key_max", report.compiles_max},
      {"compiles_again", report.again},
      {"killed", report.killed},
      {"compile_s", report.compile_s},
      {"takeovers", report.takeovers},
      {"waiters_max", report.waiters_max},
      {"waits", report.waits},
      {"added_p50_s", Percentile(report.added_s, 0.5)},
      {"added_p99_s", Percentile(report.added_s, 0.99)},
      {"added_max_s", Percentile(report.added_s, 1)},
      {"ready_p50_s", Percentile(report.ready_s, 0.5)},
      {"ready_p99_s", Percentile(report.ready_s, 0.99)},
      {"ready_max_s", Percentile(report.ready_s, 1)},
      {"index_calls", report.index_calls},
      {"index_calls_a_second_max", report.index_calls_by_s_max},
      {"blob_reads", report.blob_reads},
      {"blob_writes", report.blob_writes},
      {"blob_bytes_read", report.blob_bytes_read},
      {"blob_bytes_written", report.blob_bytes_written},
      {"calls_failed", report.errors},
      {"calls_refused_by_breakers", report.refused},
      {"events", report.events},
      {"end_s", report.end_s},
  };
  if (with_curves) {
    out["added_s_by_percent"] = CurveOf(report.added_s);
    out["ready_s_by_percent"] = CurveOf(report.ready_s);
    out["load"] = LoadOf(report);
  }
  return out;
}

}  // namespace

int main(int count, char** values) {
  CLI::App app("Runs the daemon's own code on many machines under a clock of its own.");
  ingot::simulation::Scale scale;
  std::string name = "rolling-lost";
  bool is_json = false, has_curves = false, is_list = false;
  app.add_option("--nodes", scale.nodes, "machines")->capture_default_str();
  app.add_option("--keys", scale.keys, "keys, of which few are asked for often")->capture_default_str();
  app.add_option("--keys-per-node", scale.keys_per_node, "first calls of a daemon's life")->capture_default_str();
  app.add_option("--seed", scale.seed, "of all chance")->capture_default_str();
  app.add_option("--scenario", name, "what happens; see --list")->capture_default_str();
  app.add_flag("--json", is_json, "figures as JSON");
  app.add_flag("--curves", has_curves, "with distributions and load over time; implies --json");
  app.add_flag("--list", is_list, "the scenarios");
  CLI11_PARSE(app, count, values);
  if (is_list) {
    for (const auto& scenario : ingot::simulation::Scenarios()) {
      fmt::print("{:<14}{}\n", scenario.name, scenario.meaning);
    }
    return 0;
  }
  const auto* const found = ingot::simulation::FindScenario(name);
  if (found == nullptr || scale.nodes == 0 || scale.keys == 0) {
    fmt::print(stderr, "simulate: no scenario '{}' (--list names them), or no nodes or keys\n", name);
    return 2;
  }
  // Of thousands of machines that fail on purpose.
  ingot::Ignore(ingot::StartLog({.level = ingot::LogLevel::kOff}), "it would be loud");
  const auto began = std::chrono::steady_clock::now();
  const auto report = ingot::simulation::Simulate(*found, scale);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (!report) {
    fmt::print(stderr, "simulate: {}\n", report.error().ToText());
    return 1;
  }
  const Json out = JsonOf(*report, has_curves);
  if (is_json || has_curves) {
    fmt::print("{}\n", out.dump(1));
  } else {
    for (const auto& [key, value] : out.items()) fmt::print("{:<38}{}\n", key, value.dump());
  }
  fmt::print(stderr, "simulate: {:.1f} s of this machine\n", took.count());
  return 0;
}
