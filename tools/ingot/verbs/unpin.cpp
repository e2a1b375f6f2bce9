// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunUnpin(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("unpin", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("unpinned {} with {}\n", answer["key"].get<std::string>(),
             CountText(answer["artifacts"].get<uint64_t>(), "artifact"));
  return {};
}

}  // namespace

Verb UnpinVerb() {
  return {"unpin",
          "Lets one entry be evicted again",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunUnpin,
          true};
}

}  // namespace ingot::tools
