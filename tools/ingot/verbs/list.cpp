// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunList(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("list", {{"function", arguments.Text("function")}}));
  if (PrintedJson(arguments, answer)) return {};
  if (answer["entries"].empty()) {
    std::puts("no entries");
    return {};
  }
  const int64_t now = std::time(nullptr);
  Table table({"key", "function", "variants#", "bytes#", "hits#", "compile#", "last use", "rank",
               "state"});
  for (const Json& entry : answer["entries"]) {
    const bool failed = entry["failed"].get<bool>();
    const bool pinned = entry["pinned"].get<bool>();
    table.Add({entry["key"].get<std::string>().substr(0, 12), entry["function"].get<std::string>(),
               entry["variants"].dump(), BytesText(entry["bytes"].get<uint64_t>()),
               entry["hits"].dump(), fmt::format("{:.2f} s", entry["compile_s"].get<double>()),
               AgeText(entry["last_use"].get<int64_t>(), now), entry["rank"].get<std::string>(),
               failed ? "failed" : pinned ? "pinned" : ""});
  }
  table.Print();
  return {};
}

}  // namespace

Verb ListVerb() {
  return {"list",
          "Stored entries, the last used first",
          {{"function", "Only functions whose name contains this", Parameter::kOptional}},
          true,
          RunList};
}

}  // namespace ingot::tools
