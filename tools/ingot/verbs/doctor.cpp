// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunDoctor(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("doctor"));
  return PrintChecks(arguments, answer);
}

}  // namespace

Status PrintChecks(const Arguments& arguments, const Json& answer) {
  if (!PrintedJson(arguments, answer)) {
    Table table({"check", "state", "finding"});
    for (const Json& check : answer["checks"]) {
      table.Add({Printable(check["check"].get<std::string>()),
                 check["ok"].get<bool>() ? Painted(Paint::kGood, "ok") : Painted(Paint::kBad, "PROBLEM"),
                 Printable(check["text"].get<std::string>())});
    }
    table.Print();
  }
  if (answer["ok"].get<bool>()) return {};
  return Error(Code::kUnavailable, "something is not as it should be");
}

Verb DoctorVerb() {
  return {"doctor", "Checks store, compiler and workers, and says what is wrong", {}, true, RunDoctor};
}

}  // namespace ingot::tools
