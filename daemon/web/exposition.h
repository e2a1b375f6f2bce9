// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "daemon/admin/verbs.h"

namespace ingot::daemon::web {

/// One value of a family; values of one family differ in their labels.
struct Series {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

/// What is measured beside base/metrics.h's counters and timers: the state of the daemon when it is asked. Labels take
/// values from the code alone, except those of `build_info`, which has one series: what is scraped never grows.
struct StateMetric {
  const char* name;  ///< Without "ingot_".
  const char* type;  ///< "gauge" or "counter".
  const char* help;
  std::vector<Series> (*read)(const VerbCall& call);
};
const std::vector<StateMetric>& StateMetrics();

/// The text format of Prometheus, version 0.0.4: all counters as `ingot_NAME_total`, timers as histograms
/// `ingot_NAME_seconds`, and StateMetrics. May wait for the disk.
std::string Exposition(const Metrics& metrics, const VerbCall& call);
inline constexpr std::string_view kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

/// The same as the rows of a Markdown table: name, type, meaning (docs/metrics.md).
std::string MetricsTable();

}  // namespace ingot::daemon::web
