// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunGc(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("gc"));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("removed {} values, {}; {} entries and {} are left\n", answer["evicted"].dump(),
             BytesText(answer["evicted_bytes"].get<uint64_t>()), answer["entries"].dump(),
             BytesText(answer["bytes"].get<uint64_t>()));
  return {};
}

}  // namespace

Verb GcVerb() {
  return {"gc", "Removes what no entry names and what is over the limits", {}, true, RunGc, true};
}

}  // namespace ingot::tools
