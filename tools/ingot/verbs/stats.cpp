// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

constexpr std::string_view kNs = "_ns";

Status RunStats(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("stats"));
  if (PrintedJson(arguments, answer)) return {};
  Table table({"counter", "value#"});
  for (const auto& [name, value] : answer.items()) {
    if (value == 0 && !arguments.Flag("all")) continue;
    // Nanoseconds are for programs.
    const bool is_time = name.ends_with(kNs);
    table.Add(is_time ? std::vector<std::string>{name.substr(0, name.size() - kNs.size()) + "_time",
                                                 SecondsText(value.get<double>() / 1e9)}
                      : std::vector<std::string>{name, value.dump()});
  }
  table.Print();
  return {};
}

}  // namespace

Verb StatsVerb() {
  return {"stats",
          "Counters of the daemon since it started",
          {{"all", "Also those that are zero", Parameter::kFlag}},
          true,
          RunStats};
}

}  // namespace ingot::tools
