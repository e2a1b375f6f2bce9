// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/import_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/generalize.h"
#include "compiler/import/import.h"
#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

Result<Graph> PatternGraph(Bytes recording) {
  TRY_ASSIGN(Graph exact, ImportRecording(recording));
  Result<Generalized> generalized = Generalize(recording, true);
  if (!generalized) return exact;
  return std::move(generalized->graph);
}

Status Read(const RecordedPattern& recorded, UserPattern& out) {
  TRY_ASSIGN(out.search, PatternGraph(recorded.search));
  TRY_ASSIGN(out.replace, PatternGraph(recorded.replace));
  if (!recorded.varied_search.empty() || !recorded.varied_replace.empty()) {
    TRY_ASSIGN(Graph search, PatternGraph(recorded.varied_search));
    TRY_ASSIGN(Graph replace, PatternGraph(recorded.varied_replace));
    out.varied = {std::move(search), std::move(replace)};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const UserPattern>> ImportPattern(const RecordedPattern& recorded) {
  auto pattern = std::make_shared<UserPattern>();
  pattern->name = recorded.name;
  const std::string who = fmt::format("pattern '{}'", recorded.name);
  if (Status status = Read(recorded, *pattern); !status) return std::move(status).error().Wrap(who);
  if (const std::string fault = FindFault(*pattern); !fault.empty()) {
    return Error(Code::kInvalid, fmt::format("{}: {}", who, fault));
  }
  return std::shared_ptr<const UserPattern>(std::move(pattern));
}

}  // namespace ingot::compiler
