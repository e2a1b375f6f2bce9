// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "daemon/config.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// What a daemon that is started here would use.
Result<Json> OfNone(Session& session) {
  TRY_ASSIGN(daemon::Config config, daemon::ConfigOfEnvironment());
  if (const std::string& store = session.options().store_dir; store != config.store_dir) {
    TRY(daemon::SetField(config, "store_dir", store, "--store"));
  }
  if (const std::string& socket = session.options().socket; socket != config.socket) {
    TRY(daemon::SetField(config, "socket", socket, "--socket"));
  }
  return Json{{"pid", nullptr}, {"fields", daemon::FieldsJson(config)}};
}

Status RunConfig(Session& session, const Arguments& arguments) {
  Result<Json> answer = session.Ask("config");
  if (!answer && answer.error().code() == Code::kUnavailable) answer = OfNone(session);
  if (!answer) return std::move(answer).error();
  if (PrintedJson(arguments, *answer)) return {};
  if ((*answer)["pid"].is_null()) std::puts("no daemon runs; one that is started here would use:");
  Table table({"field", "value", "from", "default", "meaning"});
  for (const Json& field : (*answer)["fields"]) {
    table.Add({field["name"].get<std::string>(), field["value"].get<std::string>(), field["source"].get<std::string>(),
               field["default"].get<std::string>(), field["meaning"].get<std::string>()});
  }
  table.Print();
  return {};
}

}  // namespace

Verb ConfigVerb() {
  return {"config", "Every setting and limit of the daemon, and where it comes from", {}, true, RunConfig};
}

}  // namespace ingot::tools
