// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "daemon/admin/verbs.h"
#include "daemon/compile/failure.h"
#include "daemon/compile/graph_record.h"
#include "daemon/explain/explain.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"

namespace ingot::daemon {
namespace {

using cache::Table;

/// Graph keys that begin with these hex digits and whose record is a failure.
Task<std::vector<Digest>> FailedGraphs(Core& core, std::string prefix, Until until) {
  std::vector<Digest> failed;
  Result<std::string> after = cache::DigestCursor(prefix);
  // A name of something else: no graph key begins so.
  if (!after) co_return failed;
  do {
    CO_TRY_ASSIGN(cache::Page<cache::StoreRow> page, core.store.List(Table::kGraphs, *after, Entries::kPageRows));
    for (const cache::StoreRow& row : page.rows) {
      if (!row.key.ToHex().starts_with(prefix)) co_return failed;
      CO_TRY(until.Check());
      CO_TRY_ASSIGN(const auto record, co_await ReadGraphRecord(core.index, row.key, until));
      if (record && record->failure) failed.push_back(row.key);
    }
    after = std::move(page.next);
  } while (!after->empty());
  co_return failed;
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

/// A client compared an artifact with eager and they differed.
Task<Json> QuarantineVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(const Digest artifact, Digest::FromHex(call.Text("artifact")));
  const std::string why = call.Text("why");
  if (why.empty()) co_return Error(Code::kInvalid, "say why the artifact goes into quarantine");
  // Where there are several, what one tenant says is so for its own entries.
  const Config& config = call.core.config;
  const bool is_alone = config.client_uids.empty() && config.client_gids.empty();
  std::optional<std::string> tenant;
  if (!is_alone && call.caller.right != Right::kAdminister) tenant = call.caller.tenant;
  CO_TRY_ASSIGN(const std::vector<Digest> entries,
                co_await Quarantine(call.core, artifact, why, call.until, std::move(tenant)));
  Json keys = Json::array();
  for (const Digest& entry : entries) keys.push_back(entry.ToHex());
  co_return Json{{"keys", keys}};
}

/// Forgets failures, of one entry or of the graph key an error named, and that an entry's program runs in parts.
Task<Json> RetryVerb(const VerbCall& call) {
  Core& core = call.core;
  const std::string prefix = call.Text("key");
  if (prefix.empty()) co_return Error(Code::kInvalid, "name the entry or graph key that failed");
  uint64_t cleared = 0;
  // A graph may have failed for no entry's sake: a template that was tried first.
  CO_TRY_ASSIGN(const std::vector<Digest> graphs, co_await FailedGraphs(core, prefix, call.until));
  for (const Digest& graph_key : graphs) {
    CO_TRY(core.store.Delete(Table::kGraphs, graph_key));
    ++cleared;
  }
  const auto graph_key_of = [](const Entry& entry) {
    std::optional<Digest> graph_key;
    if (const auto& failure = entry.record.failure) graph_key = {failure->graph_key_low, failure->graph_key_high};
    return graph_key;
  };
  std::vector<EntryRef> failed;
  const auto find = [&](const EntryRef& entry) {
    if (!entry->record.failure && entry->record.in_parts.empty()) return true;
    const auto graph_key = graph_key_of(*entry);
    const bool is_meant = entry->digest.ToHex().starts_with(prefix) || entry->function == prefix ||
                          LearntOf(entry->key) == prefix || (graph_key && graph_key->ToHex().starts_with(prefix));
    if (is_meant) failed.push_back(entry);
    return true;
  };
  CO_TRY(co_await core.entries.ForEach(find, call.until));
  for (const EntryRef& entry : failed) {
    if (const auto graph_key = graph_key_of(*entry)) {
      Ignore(core.store.Delete(Table::kGraphs, *graph_key), "absent is what is wanted");
    }
    Entries::Change clear = [](proto::EntryRecordT& record) {
      record.failure.reset();
      record.in_parts.clear();
    };
    CO_TRY_ASSIGN(const EntryRef changed,
                  co_await core.entries.ChangeStored(entry->digest, std::move(clear), call.until));
    if (changed->record.variants.empty()) CO_TRY(co_await core.entries.Delete(entry->digest, call.until));
    ++cleared;
  }
  if (cleared == 0) {
    co_return Error(Code::kNotFound, fmt::format("no failed entry or graph '{}'", prefix));
  }
  co_return Json{{"cleared", cleared}};
}

}  // namespace ingot::daemon
