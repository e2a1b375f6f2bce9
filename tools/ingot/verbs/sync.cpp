// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

using Steady = std::chrono::steady_clock;

struct Pushed {
  uint64_t offered = 0, waiting = 0;
  std::string trouble;  ///< Why what waits was not sent.
};

/// Offers all, then waits until the daemon has sent them. What cannot be sent stays in its queue.
Result<Pushed> Push(Session& session, const std::string& function, std::chrono::seconds patience) {
  Pushed pushed;
  StatusLine line;
  Json after = "";
  while (after.is_string()) {
    TRY_ASSIGN(const Json page, session.Ask("sync", {{"push", true}, {"function", function}, {"after", after}}));
    pushed.offered += page["offered"].get<uint64_t>();
    after = page.value("next", Json());
    line.Show(fmt::format("offers {} entries", pushed.offered));
  }
  auto moved = Steady::now();
  uint64_t most = pushed.offered;
  bool is_first = true;
  while (true) {
    TRY_ASSIGN(const Json outbox, session.Ask("outbox"));
    const auto waiting = outbox["waiting"].get<uint64_t>();
    if (is_first || waiting < pushed.waiting) moved = Steady::now();
    is_first = false;
    pushed.waiting = waiting;
    pushed.trouble = outbox.value("trouble", "");
    most = std::max(most, waiting);
    if (waiting == 0) return pushed;
    if (Steady::now() - moved > patience) return pushed;
    line.Show(fmt::format("sends, {} wait  {}", waiting, BarText(most - waiting, most)));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Result<Json> Pull(Session& session, const std::string& function) {
  StatusLine line;
  Json rows = Json::array();
  Json after = "";
  while (after.is_string()) {
    TRY_ASSIGN(Json page, session.Ask("sync", {{"function", function}, {"after", after}}));
    for (Json& row : page["entries"]) rows.push_back(std::move(row));
    after = page.value("next", Json());
    line.Show(fmt::format("brings entries, {} so far", rows.size()));
  }
  return rows;
}

Status RunSync(Session& session, const Arguments& arguments) {
  // Neither said: both.
  const bool pushes = arguments.Flag("push") || !arguments.Flag("pull");
  const bool pulls = arguments.Flag("pull") || !arguments.Flag("push");
  const std::string function = arguments.Text("--function");
  TRY_ASSIGN(const uint64_t patience_s,
             SecondsOf(arguments.Text("--patience").empty() ? "30s" : arguments.Text("--patience"), "--patience"));
  Json answer = Json::object();
  Pushed pushed;
  if (pushes) {
    TRY_ASSIGN(pushed, Push(session, function, std::chrono::seconds(patience_s)));
    answer["pushed"] = {{"offered", pushed.offered}, {"waiting", pushed.waiting}, {"trouble", pushed.trouble}};
  }
  std::map<std::string, uint64_t> counts;
  if (pulls) {
    TRY_ASSIGN(answer["pulled"], Pull(session, function));
    for (const Json& row : answer["pulled"]) ++counts[row.value("outcome", "")];
  }
  if (!PrintedJson(arguments, answer)) {
    if (pushes) {
      fmt::print("pushed: {} entries offered, {} still wait{}\n", pushed.offered, pushed.waiting,
                 pushed.waiting == 0 || pushed.trouble.empty() ? "" : ": " + pushed.trouble);
    }
    if (pulls) {
      for (const Json& row : answer["pulled"]) {
        if (row.value("why", "").empty()) continue;
        fmt::print("{} {}: {}: {}\n", row.value("key", "").substr(0, 12), Printable(row.value("function", "")),
                   row.value("outcome", ""), Printable(row.value("why", "")));
      }
      fmt::print("pulled: {} came, {} were there, {} were not taken, {} failed\n", counts["came"], counts["there"],
                 counts["not found"], counts["failed"]);
    }
  }
  if (pushed.waiting == 0) return {};
  return Error(Code::kUnavailable,
               fmt::format("{} entries wait to be sent and none was for {} s{}; the daemon goes on by itself, `ingot "
                           "doctor` says how the cluster is",
                           pushed.waiting, patience_s, pushed.trouble.empty() ? "" : " (" + pushed.trouble + ")"));
}

}  // namespace

Verb SyncVerb() {
  return {
      "sync",
      "Gives local entries to the cluster and brings what others have shared there",
      {{"push", "Only gives", Parameter::kFlag},
       {"pull", "Only brings", Parameter::kFlag},
       {"--function", "Entries of this function alone", Parameter::kOptional, values::kFunction},
       {"--patience", "How long nothing may be sent before it gives up (30s)", Parameter::kOptional, values::kTime}},
      true,
      RunSync,
      true};
}

}  // namespace ingot::tools
