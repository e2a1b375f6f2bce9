// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunWhyMiss(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("why-miss", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  const auto text = [&](const char* name) { return answer.value(name, std::string()); };
  fmt::print("{} {}\n{}: {}\n", text("key").substr(0, 12), text("function"), text("reason"), text("why"));
  if (!answer.contains("nearest")) return {};
  fmt::print("nearest  {}\n", text("nearest").substr(0, 12));
  if (answer["graph"].is_object()) fmt::print("{}\n", answer["graph"]["text"].get<std::string>());
  return {};
}

}  // namespace

Verb WhyMissVerb() {
  return {"why-miss",
          "Why a key is not served, or what made its first call miss",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunWhyMiss};
}

}  // namespace ingot::tools
