// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunText(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer,
             session.Ask("text", {{"graph", arguments.Text("key")}, {"stage", arguments.Text("stage")}}));
  if (PrintedJson(arguments, answer)) return {};
  std::fputs(answer["text"].get_ref<const std::string&>().c_str(), stdout);
  return {};
}

}  // namespace

Verb TextVerb() {
  return {"text",
          "A stored graph as text, as imported or at a stage of its compile",
          {{"key", "Graph, graph key or entry: its start, or a function's name", Parameter::kRequired, values::kKey},
           {"stage", "At which stage (graph)", Parameter::kOptional, "graph|optimized|loop|schedule|llvm|asm|dot"}},
          true,
          RunText};
}

}  // namespace ingot::tools
