// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunConfig(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("config"));
  if (PrintedJson(arguments, answer)) return {};
  Table table({"field", "value", "default", "meaning"});
  for (const Json& field : answer["fields"]) {
    table.Add({field["name"].get<std::string>(), field["value"].get<std::string>(),
               field["default"].get<std::string>(), field["meaning"].get<std::string>()});
  }
  table.Print();
  return {};
}

}  // namespace

Verb ConfigVerb() {
  return {"config", "Every setting and limit of the running daemon", {}, true, RunConfig};
}

}  // namespace ingot::tools
