// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunRanks(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("ranks", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  const std::string asked = answer["key"].get<std::string>();
  Table table({"key", "rank", "artifact", "graphs"});
  std::string differences;
  for (const Json& rank : answer["ranks"]) {
    const std::string key = rank["key"].get<std::string>().substr(0, 12);
    const bool same = rank["same_graphs"].get<bool>();
    const Json& artifacts = rank["artifacts"];
    table.Add({key, rank["rank"].get<std::string>(),
               artifacts.empty() ? "" : artifacts.back().get<std::string>().substr(0, 12),
               rank["key"] == asked ? ""
               : same               ? "same"
                                    : "differ"});
    for (const char* field : {"key_difference", "graph_difference"}) {
      const std::string text = rank[field].get<std::string>();
      if (!text.empty()) differences += fmt::format("{}  {}\n", key, text);
    }
  }
  table.Print();
  fmt::print("{}", differences);
  return {};
}

}  // namespace

Verb RanksVerb() {
  return {"ranks",
          "What other ranks of a job made of the same call, and where their graphs part",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunRanks};
}

}  // namespace ingot::tools
