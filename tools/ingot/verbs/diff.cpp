// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

std::string Short(const Json& side, const char* name) { return side[name].get<std::string>().substr(0, 12); }

void PrintSide(const char* sign, const Json& side) {
  const std::string graph = Short(side, "graph");
  fmt::print("{} {} {} {}\n", sign, Short(side, "key"), side["function"].get<std::string>(),
             graph.empty() ? "(no graph)" : "graph " + graph);
}

void PrintGraph(const Json& graph) {
  if (graph.is_null()) return;
  if (!graph.contains("place")) {
    fmt::print("{}\n", graph["text"].get<std::string>());
    return;
  }
  const auto line = [&](const char* name) {
    const std::string text = graph[name].get<std::string>();
    return text.empty() ? "(absent)" : text;
  };
  fmt::print("graph {}\n- {}\n+ {}\n", graph["place"].get<std::string>(), line("stored"), line("asked"));
}

Status RunDiff(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("diff", {{"a", arguments.Text("a")}, {"b", arguments.Text("b")}}));
  if (PrintedJson(arguments, answer)) return {};
  PrintSide("-", answer["a"]);
  PrintSide("+", answer["b"]);
  for (const Json& difference : answer["differences"]) {
    fmt::print("{}\n", difference["text"].get<std::string>());
  }
  if (answer["differences"].empty()) std::puts("the keys are equal");
  PrintGraph(answer["graph"]);
  return {};
}

}  // namespace

Verb DiffVerb() {
  return {"diff",
          "Everything in which two entries or graphs differ",
          {{"a", "Key, the start of one, a function's name, or a graph", Parameter::kRequired, values::kKey},
           {"b", "The other one", Parameter::kRequired, values::kKey}},
          true,
          RunDiff};
}

}  // namespace ingot::tools
