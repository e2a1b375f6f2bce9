// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/pattern_recording.h"

#include <fmt/format.h>

#include <vector>

#include "proto/graph_generated.h"
#include "proto/message.h"

namespace ingot::client {
namespace {

/// Recorders share the strings of steps.
constexpr uint64_t kSharesMax = 1024;

Error Refused(std::string why) { return Error(Code::kUnsupported, std::move(why)); }

Status Check(const proto::RecordingT& recording) {
  std::vector<bool> used(recording.values.size(), false);
  const auto note = [&](int64_t id) {
    if (id >= 0 && static_cast<size_t>(id) < used.size()) used[static_cast<size_t>(id)] = true;
  };
  if (recording.steps.empty()) return Refused("it computes nothing");
  if (recording.steps.size() > kPatternStepsMax) {
    return Refused(
        fmt::format("it has {} operators, at most {} make a pattern", recording.steps.size(), kPatternStepsMax));
  }
  for (const auto& step : recording.steps) {
    if (step->is_random) return Refused(fmt::format("{} gives other values in every call", step->op));
    for (const auto& result : step->results) {
      const bool is_tensor = result->kind == proto::ArgKind::Value || result->kind == proto::ArgKind::ValueList;
      if (!is_tensor && result->kind != proto::ArgKind::None) {
        return Refused(fmt::format("{} reads a number out of a tensor, and numbers decide", step->op));
      }
    }
    for (const auto& arg : step->args) {
      if (arg->kind != proto::ArgKind::Value && arg->kind != proto::ArgKind::ValueList) continue;
      for (const int64_t id : arg->ints) note(id);
    }
  }
  for (const auto& source : recording.sources) {
    if (source->kind != proto::SourceKind::Input) {
      return Refused(fmt::format("the tensor '{}' is none of its arguments: pass it", source->name));
    }
    if (source->value >= used.size() || !used[source->value]) {
      return Refused(fmt::format("nothing uses its argument '{}'", source->name));
    }
  }
  return {};
}

}  // namespace

Result<Buffer> PatternRecording(Bytes bytes) {
  const Buffer aligned(bytes.begin(), bytes.end());
  const auto* table = proto::ReadMessage<proto::Recording>(
      aligned, {.identifier = proto::RecordingIdentifier(), .shares_max = kSharesMax});
  if (table == nullptr) return Error(Code::kCorrupt, "the recording does not verify");
  proto::RecordingT recording;
  table->UnPackTo(&recording);
  TRY(Check(recording));
  recording.name = "pattern";
  recording.eager_ns = 0;
  for (const auto& step : recording.steps) step->eager_ns = 0;
  for (const auto& guard : recording.size_guards) guard->where.clear();
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishRecordingBuffer(builder, proto::Recording::Pack(builder, &recording));
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

}  // namespace ingot::client
