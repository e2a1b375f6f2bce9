// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/convert.h"
#include "daemon/explain.h"
#include "daemon/failure.h"
#include "daemon/variants.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

using cache::Table;

/// Graph keys that begin with these hex digits and whose record is a failure.
Result<std::vector<Digest>> FailedGraphs(cache::Store& store, const std::string& prefix) {
  std::vector<Digest> candidates;
  TRY(store.ForEach(Table::kGraphs, [&](const Digest& graph_key, const cache::Stat&) {
    if (graph_key.ToHex().starts_with(prefix)) candidates.push_back(graph_key);
    return true;
  }));
  std::erase_if(candidates, [&](const Digest& graph_key) {
    const Result<Buffer> bytes = store.Get(Table::kGraphs, graph_key);
    const auto* record = bytes ? proto::ReadMessage<proto::GraphRecord>(*bytes) : nullptr;
    return record == nullptr || record->failure() == nullptr;
  });
  return candidates;
}

/// From here on the graph's compile answers with the failure.
Status PutFailure(Core& core, const Digest& graph_key, const std::string& function,
                  const proto::FailureT& failure) {
  proto::GraphRecordT record;
  record.function = function;
  record.failure = std::make_unique<proto::FailureT>(failure);
  return core.store.Put(Table::kGraphs, graph_key, proto::PackMessage<proto::GraphRecord>(record), 0);
}

}  // namespace

Json FailureJson(const proto::FailureT& failure, int64_t now_s) {
  return {{"code", CodeName(static_cast<Code>(failure.code))},
          {"message", failure.message},
          {"compiler", failure.compiler},
          {"when", failure.when},
          {"retry_at", failure.retry_at},
          {"graph_key", Digest{failure.graph_key_low, failure.graph_key_high}.ToHex()},
          {"quarantined", failure.quarantined},
          {"text", FailureText(failure, now_s)}};
}

/// A client compared an artifact with eager and they differed: nobody gets it any more, and its
/// graph is not compiled again before `ingot retry`.
Result<Json> QuarantineVerb(const VerbCall& call) {
  Core& core = call.core;
  TRY_ASSIGN(const Digest artifact, Digest::FromHex(call.Text("artifact")));
  const std::string why = call.Text("why");
  if (why.empty()) return Error(Code::kInvalid, "say why the artifact goes into quarantine");
  TRY_ASSIGN(const CompilerFacts facts, core.compilers.Facts());
  Json keys = Json::array();
  for (const Digest& digest : core.entries.All()) {
    const auto entry = core.entries.Get(digest);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      if (ArtifactOf(*stored->variant) != artifact) continue;
      const Digest graph_key{stored->graph_key_low, stored->graph_key_high};
      const auto failure =
          MakeQuarantine(why, graph_key, facts.identity, core.clock.now_s());
      TRY(PutFailure(core, graph_key, (*entry)->function, *failure));
      TRY(core.entries.Change(digest, [&](proto::EntryRecordT& record) {
        DropQuarantined(record, artifact, *failure);
      }));
      keys.push_back(digest.ToHex());
      break;
    }
  }
  if (keys.empty()) {
    return Error(Code::kNotFound, fmt::format("no entry has the artifact {}", artifact.ToHex()));
  }
  GlobalMetrics().Add(Counter::quarantined);
  LogWarn("put in quarantine", {{"artifact", artifact.ToHex()}, {"reason", why}});
  return Json{{"keys", keys}};
}

/// Forgets failures, of one entry or of the graph key an error named, and that an entry's program runs in parts.
Result<Json> RetryVerb(const VerbCall& call) {
  Core& core = call.core;
  const std::string prefix = call.Text("key");
  if (prefix.empty()) return Error(Code::kInvalid, "name the entry or graph key that failed");
  uint64_t cleared = 0;
  // A graph may have failed for no entry's sake: a template that was tried first.
  TRY_ASSIGN(const std::vector<Digest> graphs, FailedGraphs(core.store, prefix));
  for (const Digest& graph_key : graphs) {
    TRY(core.store.Delete(Table::kGraphs, graph_key));
    ++cleared;
  }
  for (const Digest& digest : core.entries.All()) {
    const auto entry = core.entries.Get(digest);
    if (!entry || (!(*entry)->record.failure && (*entry)->record.in_parts.empty())) continue;
    std::optional<Digest> graph_key;
    if (const auto& failure = (*entry)->record.failure) graph_key = {failure->graph_key_low, failure->graph_key_high};
    if (!digest.ToHex().starts_with(prefix) && !(graph_key && graph_key->ToHex().starts_with(prefix)) &&
        (*entry)->function != prefix) {
      continue;
    }
    if (graph_key) Ignore(core.store.Delete(Table::kGraphs, *graph_key), "absent is what is wanted");
    TRY_ASSIGN(const EntryRef changed, core.entries.Change(digest, [](proto::EntryRecordT& record) {
      record.failure.reset();
      record.in_parts.clear();
    }));
    if (changed->record.variants.empty()) TRY(core.entries.Delete(digest));
    ++cleared;
  }
  if (cleared == 0) {
    return Error(Code::kNotFound, fmt::format("no failed entry or graph '{}'", prefix));
  }
  return Json{{"cleared", cleared}};
}

}  // namespace ingot::daemon
