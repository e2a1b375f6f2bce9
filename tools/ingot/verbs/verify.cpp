// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunVerify(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("verify", {{"recompile", arguments.Flag("recompile")}}));
  const Json& problems = answer["problems"];
  if (!PrintedJson(arguments, answer)) {
    fmt::print("checked {} values, {}; compiled {} again\n", answer["checked"].dump(),
               BytesText(answer["bytes"].get<uint64_t>()), answer["recompiled"].dump());
    Table table({"table", "key", "problem"});
    for (const Json& problem : problems) {
      table.Add({problem["table"].get<std::string>(), problem["key"].get<std::string>(),
                 problem["message"].get<std::string>()});
    }
    if (!problems.empty()) table.Print();
  }
  if (problems.empty()) return {};
  return Error(Code::kCorrupt, fmt::format("{} values have problems", problems.size()));
}

}  // namespace

Verb VerifyVerb() {
  return {"verify",
          "Reads every stored value and checks it against its digest",
          {{"recompile", "Also compile every graph again and compare the bytes", Parameter::kFlag}},
          true,
          RunVerify,
          true};
}

}  // namespace ingot::tools
