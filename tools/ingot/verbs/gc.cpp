// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status PrintPlan(const Json& answer) {
  Table table({"table", "key", "function", "bytes#", "last use", "why"});
  const int64_t now = std::time(nullptr);
  for (const Json& one : answer["would_evict"]) {
    table.Add({one.value("table", ""), Painted(Paint::kName, one.value("key", "").substr(0, 12)),
               Printable(one.value("function", "")), BytesText(one["bytes"].get<uint64_t>()),
               AgeText(one["last_use"].get<int64_t>(), now), one.value("why", "")});
  }
  if (!answer["would_evict"].empty()) table.Print();
  fmt::print("would remove {} values, {}{}; {} entries and {} are there\n", answer["evicted"].dump(),
             BytesText(answer["evicted_bytes"].get<uint64_t>()),
             answer["more"].get<bool>() ? ", and more after them" : "", answer["entries"].dump(),
             BytesText(answer["bytes"].get<uint64_t>()));
  return {};
}

Status RunGc(Session& session, const Arguments& arguments) {
  const bool is_dry = arguments.Flag("dry-run");
  TRY_ASSIGN(const Json answer, session.AskLong("gc", {{"dry_run", is_dry}}));
  if (PrintedJson(arguments, answer)) return {};
  if (is_dry) return PrintPlan(answer);
  fmt::print("removed {} values, {}; {} entries and {} are left\n", answer["evicted"].dump(),
             BytesText(answer["evicted_bytes"].get<uint64_t>()), answer["entries"].dump(),
             BytesText(answer["bytes"].get<uint64_t>()));
  return {};
}

}  // namespace

Verb GcVerb() {
  return {"gc",
          "Removes what no entry names and what is over the limits",
          {{"dry-run", "Only says what would go, and why", Parameter::kFlag}},
          true,
          RunGc,
          true};
}

}  // namespace ingot::tools
