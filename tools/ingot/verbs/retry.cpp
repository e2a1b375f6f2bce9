// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunRetry(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("retry", {{"key", arguments.Text("key")}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("forgot {}\n", CountText(answer["cleared"].get<uint64_t>(), "failure"));
  return {};
}

}  // namespace

Verb RetryVerb() {
  return {"retry",
          "Forgets that a compile failed: the next request tries again",
          {{"key", "Entry key, graph key, the start of one, or a function's name", Parameter::kRequired, values::kKey}},
          true,
          RunRetry,
          true};
}

}  // namespace ingot::tools
