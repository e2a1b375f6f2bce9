// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunTune(Session& session, const Arguments& arguments) {
  const std::string key = arguments.Text("key");
  const bool is_all = arguments.Flag("all");
  if (key.empty() && !is_all) return Error(Code::kInvalid, "name an entry, or say --all; `ingot list` shows them");
  TRY_ASSIGN(const Json answer, session.AskLong("tune", {{"key", key}, {"all", is_all}}));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("looked at {}, made {} better; arenas are {} smaller, {} of {} measured are faster\n",
             CountText(answer["variants"].get<uint64_t>(), "variant"), answer["improved"].dump(),
             BytesText(answer["arena_bytes_saved"].get<uint64_t>()), answer["kernels_tuned"].dump(),
             CountText(answer["kernels_measured"].get<uint64_t>(), "kernel"));
  return {};
}

}  // namespace

Verb TuneVerb() {
  return {"tune",
          "Improves what was compiled, now rather than in idle time",
          {{"key", "Key, the start of one, or a function's name", Parameter::kOptional, values::kKey},
           {"all", "All entries", Parameter::kFlag}},
          true,
          RunTune,
          true};
}

}  // namespace ingot::tools
