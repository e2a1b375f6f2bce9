// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/failure.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/compile/graph_record.h"
#include "daemon/core.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"

namespace ingot::daemon {
namespace {

/// From here on the graph's compile answers with the failure.
cache::Task<void> PutFailure(Core& core, Digest graph_key, std::string function, const proto::FailureT& failure,
                             Until until) {
  proto::GraphRecordT record;
  record.function = std::move(function);
  record.failure = std::make_unique<proto::FailureT>(failure);
  co_return co_await PutGraphRecord(core.index, graph_key, record, until);
}

}  // namespace

bool IsRecorded(const Error& error) {
  return error.code() != Code::kCancelled && error.code() != Code::kUnavailable && error.code() != Code::kDenied;
}

std::unique_ptr<proto::FailureT> MakeFailure(const Error& error, const Digest& graph_key, const std::string& compiler,
                                             const Config& config, int64_t now_s) {
  auto failure = std::make_unique<proto::FailureT>();
  failure->code = static_cast<uint8_t>(error.code());
  failure->message = error.message();
  failure->compiler = compiler;
  failure->when = now_s;
  const bool lasting = error.code() == Code::kInvalid || error.code() == Code::kUnsupported;
  failure->retry_at = lasting ? 0 : now_s + static_cast<int64_t>(config.negative_retry_s);
  failure->graph_key_low = graph_key.low;
  failure->graph_key_high = graph_key.high;
  return failure;
}

std::unique_ptr<proto::FailureT> MakeQuarantine(const std::string& why, const Digest& graph_key,
                                                const std::string& compiler, int64_t now_s) {
  auto failure = std::make_unique<proto::FailureT>();
  failure->code = static_cast<uint8_t>(Code::kInternal);
  failure->message = why;
  failure->compiler = compiler;
  failure->when = now_s;
  failure->graph_key_low = graph_key.low;
  failure->graph_key_high = graph_key.high;
  failure->quarantined = true;
  return failure;
}

cache::Task<std::vector<Digest>> Quarantine(Core& core, Digest artifact, std::string why, Until until,
                                            std::optional<std::string> tenant) {
  CO_TRY_ASSIGN(const CompilerFacts facts, core.compilers.Facts());
  std::vector<std::pair<EntryRef, Digest>> found;  // with the graph key of the artifact
  const auto find = [&](const EntryRef& entry) {
    if (tenant && TenantOf(entry->key) != *tenant) return true;
    for (const auto& stored : entry->record.variants) {
      if (!IsOrWas(*stored, artifact)) continue;
      found.emplace_back(entry, Digest{stored->graph_key_low, stored->graph_key_high});
      break;
    }
    return true;
  };
  CO_TRY(co_await core.entries.ForEach(find, until));
  std::vector<Digest> entries;
  for (const auto& [entry, graph_key] : found) {
    const auto failure = MakeQuarantine(why, graph_key, facts.identity, core.clock.now_s());
    if (!tenant) CO_TRY(co_await PutFailure(core, graph_key, entry->function, *failure, until));
    Entries::Change drop = [&](proto::EntryRecordT& record) { DropQuarantined(record, artifact, *failure); };
    CO_TRY(co_await core.entries.ChangeStored(entry->digest, std::move(drop), until));
    entries.push_back(entry->digest);
  }
  if (entries.empty()) {
    co_return Error(Code::kNotFound, fmt::format("no entry has the artifact {}", artifact.ToHex()));
  }
  GlobalMetrics().Add(Counter::quarantined);
  LogWarn("put in quarantine", {{"artifact", artifact.ToHex()}, {"reason", why}});
  co_return entries;
}

Error ErrorOf(const proto::FailureT& failure) {
  const bool known =
      failure.code >= static_cast<uint8_t>(Code::kInvalid) && failure.code <= static_cast<uint8_t>(Code::kInternal);
  return Error(known ? static_cast<Code>(failure.code) : Code::kInternal, failure.message);
}

std::optional<Error> FailureInForce(const proto::FailureT& failure, int64_t now_s) {
  if (failure.retry_at != 0 && failure.retry_at <= now_s) return std::nullopt;
  return ErrorOf(failure);
}

}  // namespace ingot::daemon
