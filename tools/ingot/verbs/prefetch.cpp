// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/ingot/manifest_file.h"
#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"

namespace ingot::tools {
namespace {

/// Asked for at once: each may have to come from other machines, and between two we say how far it is.
constexpr size_t kAtOnce = 8;

Status RunPrefetch(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json entries, ReadManifest(arguments.Text("manifest")));
  Json rows = Json::array();
  {
    StatusLine line;
    for (size_t at = 0; at < entries.size(); at += kAtOnce) {
      line.Show(fmt::format("brings {} of {}  {}", at, entries.size(), BarText(at, entries.size())));
      Json some = Json::array();
      for (size_t i = at; i < std::min(entries.size(), at + kAtOnce); ++i) some.push_back(entries[i]);
      TRY_ASSIGN(Json answer, session.Ask("prefetch", {{"entries", std::move(some)}}));
      for (Json& row : answer["entries"]) rows.push_back(std::move(row));
    }
  }
  std::map<std::string, uint64_t> counts;
  uint64_t bytes = 0;
  for (const Json& row : rows) {
    ++counts[row.value("outcome", "")];
    bytes += row.value("bytes", uint64_t{0});
  }
  const uint64_t missing = counts["not found"] + counts["failed"];
  if (!PrintedJson(arguments, {{"entries", rows}})) {
    Table table({"key", "function", "artifacts#", "bytes#", "outcome", "why"});
    for (const Json& row : rows) {
      const std::string outcome = row.value("outcome", "");
      const Paint paint = outcome == "came" ? Paint::kGood : outcome == "there" ? Paint::kDim : Paint::kBad;
      table.Add({row.value("key", "").substr(0, 12), Printable(row.value("function", "")), row["artifacts"].dump(),
                 BytesText(row["bytes"].get<uint64_t>()), Painted(paint, outcome), Printable(row.value("why", ""))});
    }
    table.Print();
    fmt::print("{} came, {} were there, {} were not found, {} failed; {} are in memory\n", counts["came"],
               counts["there"], counts["not found"], counts["failed"], BytesText(bytes));
  }
  if (missing == 0) return {};
  return Error(missing == rows.size() ? Code::kNotFound : Code::kHalfDone,
               fmt::format("{} of {} entries could not be brought", missing, rows.size()));
}

}  // namespace

Verb PrefetchVerb() {
  return {"prefetch",
          "Brings what a manifest names from the cluster, and its artifacts into memory",
          {{"manifest", "The manifest", Parameter::kRequired, values::kFile}},
          true,
          RunPrefetch,
          true};
}

}  // namespace ingot::tools
