// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "cache/trust/revocation.h"
#include "tools/ingot/inspect_files.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

std::string Text(const Json& object, const char* name) {
  const Json& value = object[name];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void PrintVariants(const Json& variants) {
  Table table({"number", "variant", "artifact", "bytes#", "compile#", "proven sizes"});
  size_t number = 0;
  for (const Json& variant : variants) {
    table.Add({std::to_string(++number), Text(variant, "kind"), Text(variant, "artifact").substr(0, 12),
               BytesText(variant["artifact_bytes"].get<uint64_t>()),
               fmt::format("{:.2f} s", variant["compile_s"].get<double>()),
               variant["proven"].empty() ? "" : Text(variant, "proven")});
  }
  table.Print();
}

void PrintProvenance(const Json& variants) {
  Table table({"artifact", "native#", "aten#", "copies#", "kernels#", "special#", "proved#", "fused#", "arena#",
               "code#", "constants#", "target"});
  std::string troubles;
  for (const Json& variant : variants) {
    const std::string artifact = Text(variant, "artifact").substr(0, 12);
    if (!variant.contains("provenance")) {
      troubles += fmt::format("{}  {}\n", artifact, Text(variant, "trouble"));
      continue;
    }
    const Json& made = variant["provenance"];
    const auto number = [&](const char* name) { return made.value(name, uint64_t{0}); };
    table.Add({artifact, std::to_string(number("native_steps")), std::to_string(number("aten_steps")),
               std::to_string(number("copy_steps")), std::to_string(number("kernels")),
               std::to_string(number("special_kernels")), std::to_string(number("proof_kernels")),
               fmt::format("{}/{}", number("fused_nodes"), number("nodes")), BytesText(number("arena_bytes")),
               BytesText(number("code_bytes")), BytesText(number("constant_bytes")), made.value("target", "")});
    for (const Json& proof : made.value("proofs", Json::array())) {
      const std::string why = Text(proof, "skipped");
      if (!why.empty()) troubles += fmt::format("{}  no proof of {}: {}\n", artifact, Text(proof, "kernel"), why);
    }
    for (const Json& proof : made.value("launch_proofs", Json::array())) {
      const std::string why = Text(proof, "skipped");
      if (!why.empty())
        troubles += fmt::format("{}  {} not compared with its nodes: {}\n", artifact, Text(proof, "kernel"), why);
    }
    if (made.contains("graph_proof")) {
      const std::string why = Text(made["graph_proof"], "skipped");
      if (!why.empty()) troubles += fmt::format("{}  not compared as a whole: {}\n", artifact, why);
    }
  }
  table.Print();
  std::fputs(troubles.c_str(), stdout);
}

void PrintComponents(const Json& components) {
  Table table({"component", "item", "digest", "value"});
  for (const Json& component : components) {
    for (const Json& item : component["items"]) {
      table.Add({Text(component, "name"), Text(item, "name"), Text(item, "digest").substr(0, 12), Text(item, "text")});
    }
  }
  table.Print();
}

/// Where variants are from, and which have been held against eager, and which not and why.
void PrintAgreed(const Json& variants) {
  for (const Json& variant : variants) {
    const std::string artifact = Text(variant, "artifact").substr(0, 12);
    fmt::print("{}  {}\n", artifact, Text(variant, "from"));
    const Json& agreed = variant["agreed"];
    if (agreed.empty()) fmt::print("{}  not compared with eager by any process\n", artifact);
    for (const Json& one : agreed) {
      const std::string why = Text(one, "why_not");
      const std::string sizes = one["sizes"].empty() ? "" : " at sizes " + Text(one, "sizes");
      fmt::print("{}  {}{}, {}, build {}\n", artifact,
                 why.empty() ? "agreed with eager" : "not compared with eager (" + why + ")", sizes,
                 cache::TimeText(one["when"].get<int64_t>()), Text(one, "build"));
    }
  }
}

/// The dependency record: what is proved when it is loaded, and what is assumed. What only some variants
/// depend on stands under their numbers.
void PrintDependencies(const Json& variants) {
  std::vector<std::string> lines;
  std::map<std::string, std::set<size_t>> variants_of;
  size_t number = 0;
  for (const Json& variant : variants) {
    ++number;
    for (const Json& d : variant["dependencies"]) {
      const std::string words = Text(d, "words");
      if (!variants_of.contains(words)) lines.push_back(words);
      variants_of[words].insert(number);
    }
  }
  std::vector<std::set<size_t>> groups;
  for (const std::string& line : lines) {
    const auto& group = variants_of[line];
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  std::ranges::stable_sort(groups, std::greater<>(), [](const auto& group) { return group.size(); });
  for (const std::set<size_t>& group : groups) {
    if (group.size() < variants.size()) fmt::print("only variant {}:\n", fmt::join(group, ", "));
    for (const std::string& line : lines) {
      if (variants_of[line] == group) std::puts(line.c_str());
    }
  }
}

Status RunInspect(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("inspect", {{"key", arguments.Text("key")}}));
  const std::string graph = arguments.Text("--graph"), timeline = arguments.Text("--timeline");
  if (!graph.empty()) TRY(SaveGraph(session, Text(answer, "key"), graph));
  if (!timeline.empty()) TRY(SaveCompiles(answer, timeline));
  if (PrintedJson(arguments, answer)) return {};
  for (const std::string& file : {graph, timeline}) {
    if (!file.empty()) fmt::print("wrote {}\n", file);
  }
  if (!graph.empty() || !timeline.empty()) return {};
  fmt::print("entry    {}\nfunction {}\nhits     {}\n\n", Text(answer, "key"), Text(answer, "function"),
             Text(answer, "hits"));
  if (answer.contains("failure")) {
    const Json& failure = answer["failure"];
    fmt::print("{} {}\n\n", failure["quarantined"].get<bool>() ? "quarantined" : "failed  ", Text(failure, "text"));
  }
  if (answer.contains("in_parts")) {
    fmt::print("in parts {}\n\n", Text(answer, "in_parts"));
  }
  if (answer.contains("rejection")) {
    fmt::print("rejected {}\n\n", Text(answer["rejection"], "why"));
  }
  PrintVariants(answer["variants"]);
  std::puts("");
  PrintProvenance(answer["variants"]);
  std::puts("");
  PrintAgreed(answer["variants"]);
  std::puts("");
  PrintComponents(answer["components"]);
  std::puts("");
  PrintDependencies(answer["variants"]);
  return {};
}

}  // namespace

Verb InspectVerb() {
  return {"inspect",
          "One entry: its key, its variants and what they depend on",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey},
           {"--graph", "Draws the newest variant's graph into FILE.svg, .png, .pdf or .dot, kernels as clusters",
            Parameter::kOptional, values::kFile},
           {"--timeline", "Writes how long the stages of its compiles took, for Perfetto", Parameter::kOptional,
            values::kFile}},
          true,
          RunInspect};
}

}  // namespace ingot::tools
