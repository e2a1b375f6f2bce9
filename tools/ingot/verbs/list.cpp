// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// All pages as one answer, the last used first.
Result<Json> AllEntries(Session& session, const std::string& function) {
  std::vector<Json> entries;
  Json after = "";
  while (after.is_string()) {
    TRY_ASSIGN(Json page, session.Ask("list", {{"function", function}, {"after", after}}));
    for (Json& entry : page["entries"]) entries.push_back(std::move(entry));
    after = page.value("next", Json());
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Json& a, const Json& b) {
    return a["last_use"].get<int64_t>() > b["last_use"].get<int64_t>();
  });
  return Json{{"entries", std::move(entries)}};
}

Status RunList(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, AllEntries(session, arguments.Text("function")));
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
