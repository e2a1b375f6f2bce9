// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunStats(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("stats"));
  if (PrintedJson(arguments, answer)) return {};
  Table table({"counter", "value#"});
  for (const auto& [name, value] : answer.items()) {
    if (value != 0 || arguments.Flag("all")) table.Add({name, value.dump()});
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
