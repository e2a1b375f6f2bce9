// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "daemon/admin/key_json.h"
#include "daemon/admin/verbs.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

constexpr size_t kReasonBytesMax = 1024;

}  // namespace

/// A client has held an artifact against eager, or says why that cannot be done: the next process need not.
Task<Json> AgreedVerb(const VerbCall& call) {
  Core& core = call.core;
  CO_TRY_ASSIGN(const Digest artifact, Digest::FromHex(call.Text("artifact")));
  CO_TRY_ASSIGN(const proto::EntryKeyT key, KeyOf(call));
  proto::ComparisonT comparison;
  comparison.when = core.clock.now_s();
  comparison.build = proto::BuildId();
  comparison.why_not = call.Text("why_not").substr(0, kReasonBytesMax);
  const Json sizes = call.arguments.value("sizes", Json::array());
  if (!sizes.is_array()) co_return Error(Code::kInvalid, "'sizes' is no list");
  for (const Json& size : sizes) {
    if (!size.is_number_integer()) co_return Error(Code::kInvalid, "'sizes' holds something that is no integer");
    comparison.sizes.push_back(size.get<int64_t>());
  }
  const Digest digest = ToKey(key).ToDigest();
  bool is_noted = false;
  Entries::Change note = [&](proto::EntryRecordT& record) { is_noted = NoteComparison(record, artifact, comparison); };
  CO_TRY(co_await core.entries.ChangeStored(digest, std::move(note), call.until));
  if (!is_noted) {
    co_return Error(Code::kNotFound, fmt::format("entry {} has no artifact {} of {} symbols", digest.ToHex(),
                                                 artifact.ToHex(), comparison.sizes.size()));
  }
  co_return Json{{"key", digest.ToHex()}};
}

}  // namespace ingot::daemon
