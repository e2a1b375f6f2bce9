// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunPin(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("pin", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("pinned {} with {}\n", answer["key"].get<std::string>(),
             CountText(answer["artifacts"].get<uint64_t>(), "artifact"));
  return {};
}

}  // namespace

Verb PinVerb() {
  return {"pin",
          "Keeps one entry from being evicted",
          {{"key", "Key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunPin,
          true};
}

}  // namespace ingot::tools
