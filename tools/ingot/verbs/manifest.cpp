// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/manifest_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "tools/ingot/table.h"

namespace ingot::tools {
namespace {

Status RunManifest(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(Json ask, SelectionOf(arguments));
  // Without any choice: all that this daemon has served, within --since where that is said.
  if (ask["keys"].empty() && !ask.contains("function")) ask["all"] = true;
  Json entries = Json::array();
  Json after = "";
  while (after.is_string()) {
    ask["after"] = after;
    TRY_ASSIGN(Json page, session.Ask("manifest", ask));
    for (Json& entry : page["entries"]) entries.push_back(std::move(entry));
    after = page.value("next", Json());
  }
  const std::string file = arguments.Text("--output");
  if (!file.empty()) TRY(WriteManifest(file, entries));
  if (PrintedJson(arguments, {{"file", file}, {"entries", entries}})) return {};
  uint64_t bytes = 0;
  std::set<std::string> artifacts;
  for (const Json& entry : entries) {
    for (const Json& variant : entry["variants"]) {
      if (artifacts.insert(variant.value("artifact", "")).second) bytes += variant.value("artifact_bytes", uint64_t{0});
    }
  }
  if (file.empty()) {
    Table table({"key", "function", "variants#"});
    for (const Json& entry : entries) {
      table.Add({entry.value("key", "").substr(0, 12), entry.value("function", ""),
                 std::to_string(entry["variants"].size())});
    }
    table.Print();
  }
  fmt::print("{}{} entries with {} artifacts, {}\n", file.empty() ? "" : "wrote " + file + ": ", entries.size(),
             artifacts.size(), BytesText(bytes));
  return {};
}

}  // namespace

Verb ManifestVerb() {
  return {"manifest",
          "Names what was used, for `ingot prefetch` on other machines",
          {{"keys", "Keys, starts of keys, or functions' names", Parameter::kList, values::kKey},
           {"--function", "Entries of a function", Parameter::kOptional, values::kFunction},
           {"all", "All entries", Parameter::kFlag},
           {"--since", "Only what was used within this time (1h, 2d)", Parameter::kOptional, values::kTime},
           {"-o,--output", "The manifest to write", Parameter::kOptional, values::kFile}},
          true,
          RunManifest};
}

}  // namespace ingot::tools
