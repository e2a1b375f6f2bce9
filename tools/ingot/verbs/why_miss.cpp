// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status Run(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("why-miss", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("{} {}\n{}\n", answer["key"].get<std::string>().substr(0, 12),
             answer["function"].get<std::string>(), answer["why"].get<std::string>());
  return {};
}

}  // namespace

Verb WhyMissVerb() {
  return {"why-miss",
          "The first thing in which an entry differs from its nearest relative",
          {{"key", "Key, the start of one, or a function's name"}},
          true,
          Run};
}

}  // namespace ingot::tools
