// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/step_call.h"

#include <fmt/format.h>

#include "compiler/import/functional_name.h"
#include "compiler/import/positions.h"

namespace ingot::compiler {

Result<StepCall> StepCall::Read(Recording& recording, size_t i) {
  StepCall call;
  call.raw = &recording.step(i);
  call.number = static_cast<int32_t>(i);
  const std::optional<std::string> op = GraphOpName(call.raw->op()->string_view());
  if (!op) return Error(Code::kCorrupt, "is no operator name");
  // These names belong to nodes that no recording may forge.
  if (op->starts_with("guard.") || op->starts_with("ingot.")) {
    return Error(Code::kUnsupported, "operator namespace is reserved");
  }
  call.op = *op;
  if (call.raw->args()) {
    for (const proto::Arg* raw : *call.raw->args()) {
      TRY_ASSIGN(Arg arg, recording.ReadArg(*raw));
      ForEachId(arg, [&](uint32_t id) { call.operands.push_back(id); });
      call.args.push_back(std::move(arg));
    }
  }
  TRY(CountFromFront(call.op, recording, call.args));
  if (call.raw->results()) {
    for (const proto::Arg* raw : *call.raw->results()) {
      TRY_ASSIGN(Arg result, recording.ReadArg(*raw));
      ForEachId(result, [&](uint32_t id) { call.made.push_back(id); });
      call.results.push_back(std::move(result));
    }
  }
  if (const auto* writes = call.raw->writes()) call.writes.assign(writes->begin(), writes->end());
  std::sort(call.writes.begin(), call.writes.end());
  call.writes.erase(std::unique(call.writes.begin(), call.writes.end()), call.writes.end());
  for (uint32_t position : call.writes) {
    if (position >= call.args.size()) {
      return Error(Code::kCorrupt, fmt::format("writes argument {}", position));
    }
  }
  return call;
}

Result<std::vector<uint32_t>> StepCall::ResultIds() const {
  std::vector<uint32_t> ids;
  bool absent = false;
  const auto add = [&](uint32_t id) -> Status {
    if (id == kNoValue) {
      absent = true;
    } else if (absent) {
      return Error(Code::kUnsupported, "has an absent result before a present one");
    } else {
      ids.push_back(id);
    }
    return {};
  };
  for (const Arg& result : results) {
    if (std::holds_alternative<None>(result)) {
      TRY(add(kNoValue));
    } else if (const auto* ref = std::get_if<Ref>(&result)) {
      TRY(add(ref->id));
    } else if (const auto* list = std::get_if<RefList>(&result)) {
      for (uint32_t id : list->ids) TRY(add(id));
    } else {
      return Error(Code::kUnsupported, "returns something that is no tensor");
    }
  }
  return ids;
}

}  // namespace ingot::compiler
