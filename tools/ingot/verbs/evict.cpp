// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunEvict(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("evict", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("removed {} with {}, {}\n", answer["key"].get<std::string>(),
             CountText(answer["artifacts"].get<uint64_t>(), "artifact"), BytesText(answer["bytes"].get<uint64_t>()));
  return {};
}

}  // namespace

Verb EvictVerb() {
  return {"evict",
          "Removes one entry and the artifacts that no other entry names",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunEvict,
          true};
}

}  // namespace ingot::tools
