// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/store/evict.h"
#include "daemon/admin/check_serve.h"
#include "daemon/admin/verbs.h"
#include "daemon/compile/compile_on.h"
#include "daemon/compile/graph_record.h"
#include "daemon/compile/recipe.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

using cache::Table;

/// Compiles the variant's graph again; equal bytes are the promise that is checked.
Task<void> Recompile(Core& core, const proto::StoredVariantT& stored, Until until) {
  CO_TRY_ASSIGN(std::string text,
                co_await core.cluster.TextOf({stored.text_low, stored.text_high}, stored.compile_s, until));
  CO_TRY_ASSIGN(const Digest graph, core.graphs.DigestOf(text));
  CO_TRY_ASSIGN(const CompilerFacts facts, core.compilers.Facts());
  const Digest graph_key{stored.graph_key_low, stored.graph_key_high};
  if (GraphKey(graph, facts, stored.gears).ToDigest() != graph_key) {
    co_return Error(Code::kIncompatible, "compiled by another compiler or for another target");
  }
  CompileJob job{.graph = std::move(text), .name = "verify", .gears = stored.gears};
  const Result<SealedRef> file = co_await core.blobs.Get(ArtifactOf(*stored.variant), until);
  const auto recipe = file ? RecipeOf((*file)->bytes()) : Result<std::shared_ptr<const proto::RecipeT>>(nullptr);
  if (recipe) job.recipe = *recipe;
  CO_TRY_ASSIGN(const CompiledArtifact again, co_await CompileOn(core.compilers, std::move(job), until));
  if (again.digest == ArtifactOf(*stored.variant)) co_return Status();
  co_return Error(Code::kCorrupt, fmt::format("compiled again it is {}", again.digest.ToHex()));
}

struct Findings {
  uint64_t checked = 0;
  uint64_t bytes = 0;
  Json problems = Json::array();

  void Add(const std::string& table, const Digest& key, const Error& error) {
    problems.push_back(
        {{"table", table}, {"key", key.ToHex()}, {"code", CodeName(error.code())}, {"message", error.message()}});
  }
};

/// Reads every value; the store holds each against its digest.
Status VerifyTable(Core& core, Table table, const Until& until, Findings& found) {
  std::string after;
  do {
    TRY_ASSIGN(const cache::Page<cache::StoreRow> page, core.store.List(table, after, Entries::kPageRows));
    for (const cache::StoreRow& row : page.rows) {
      TRY(until.Check());
      const Result<cache::Value> value = core.store.Get(table, row.key);
      if (!value && value.error().code() == Code::kNotFound) continue;  // evicted meanwhile
      ++found.checked;
      found.bytes += row.stat.bytes;
      const std::string name(NameOf(table));
      if (!value) {
        found.Add(name, row.key, value.error());
      } else if (table == Table::kEntries && proto::ReadMessage<proto::EntryRecord>(value->bytes) == nullptr) {
        found.Add(name, row.key, Error(Code::kCorrupt, "the record does not verify"));
      }
    }
    after = page.next;
  } while (!after.empty());
  return {};
}

Task<Json> SetPin(const VerbCall& call, bool pinned) {
  CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, call.Text("key")));
  CO_TRY_ASSIGN(const EntryRef entry, co_await call.core.entries.Get(digest, call.until));
  CO_TRY(call.core.store.Pin(Table::kEntries, digest, pinned));
  uint64_t artifacts = 0;
  for (const Digest& artifact : entry->artifacts) {
    CO_TRY(call.core.store.Pin(Table::kArtifacts, artifact, pinned));
    ++artifacts;
  }
  for (const auto& stored : entry->record.variants) {
    Ignore(call.core.store.Pin(Table::kArtifacts, {stored->text_low, stored->text_high}, pinned),
           "a missing text costs a later size a compile");
  }
  co_return Json{{"key", digest.ToHex()}, {"pinned", pinned}, {"artifacts", artifacts}};
}

/// Which artifacts anything names. A value that is not in it is named by nothing; one that is may be a stranger of
/// the same number, and stays.
class Named {
 public:
  void Add(const Digest& digest) { numbers_.push_back(digest.low); }
  void Seal() {
    std::ranges::sort(numbers_);
    const auto rest = std::ranges::unique(numbers_);
    numbers_.erase(rest.begin(), rest.end());
  }
  bool Contains(const Digest& digest) const { return std::ranges::binary_search(numbers_, digest.low); }

 private:
  std::vector<uint64_t> numbers_;  // of 10^6 entries with two artifacts each: 16 MB
};

/// Everything that entries name, and graph records where they are asked too. An error where one of them cannot be read:
/// nothing is proved to be unnamed then.
Task<Named> NamedBy(Core& core, bool also_graphs, Until until) {
  Named named;
  uint64_t unread = 0;
  const auto add = [&](const Digest&, const proto::EntryRecord& record) {
    for (size_t i = 0; record.variants() != nullptr && i < record.variants()->size(); ++i) {
      const proto::StoredVariant& stored = *record.variants()->Get(static_cast<uint32_t>(i));
      named.Add({stored.variant()->artifact_low(), stored.variant()->artifact_high()});
      named.Add({stored.text_low(), stored.text_high()});
    }
    return true;
  };
  CO_TRY(co_await core.entries.ForEachRecord(add, until, &unread));
  std::string after;
  while (also_graphs) {
    CO_TRY_ASSIGN(cache::Page<cache::StoreRow> page, core.store.List(Table::kGraphs, after, Entries::kPageRows));
    for (const cache::StoreRow& row : page.rows) {
      CO_TRY(until.Check());
      const Result<std::optional<proto::GraphRecordT>> record = co_await ReadGraphRecord(core.index, row.key, until);
      if (!record) ++unread;
      if (record && *record) named.Add({(*record)->artifact_low, (*record)->artifact_high});
    }
    after = std::move(page.next);
    also_graphs = !after.empty();
  }
  if (unread != 0) {
    co_return Error(Code::kUnavailable,
                    fmt::format("{} records could not be read, so no artifact is proved to be unused and none was "
                                "deleted; `ingot doctor` says how the store is",
                                unread));
  }
  named.Seal();
  co_return named;
}

}  // namespace

Task<Json> VerifyVerb(const VerbCall& call) {
  Core& core = call.core;
  Findings found;
  for (size_t table = 0; table < cache::kTables; ++table) {
    CO_TRY(VerifyTable(core, static_cast<Table>(table), call.until, found));
  }
  uint64_t recompiled = 0;
  std::string after;
  while (call.Flag("recompile")) {
    CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.Page(after, Entries::kPageRows, call.until));
    for (const Digest& digest : names.digests) {
      const Result<EntryRef> entry = co_await core.entries.Look(digest, call.until);
      if (!entry) continue;
      for (const auto& stored : (*entry)->record.variants) {
        CO_TRY(call.until.Check());
        ++recompiled;
        const Status same = co_await Recompile(core, *stored, call.until);
        if (!same) found.Add("entries", digest, same.error());
      }
    }
    after = std::move(names.next);
    if (after.empty()) break;
  }
  co_return Json{
      {"checked", found.checked}, {"bytes", found.bytes}, {"recompiled", recompiled}, {"problems", found.problems}};
}

Task<Json> DoctorVerb(const VerbCall& call) {
  Core& core = call.core;
  Checks checks;
  const auto add = [&](const char* name, bool good, const std::string& text) { checks.Add(name, good, text); };
  const std::string trouble = core.store_note.trouble();
  add("store", trouble.empty() && core.store.Trouble().empty(),
      trouble.empty() ? core.store.Describe() : trouble + "; artifacts are kept in memory only");
  const auto facts = core.compilers.Facts();
  add("compiler", facts.has_value(),
      facts ? fmt::format("{} for {}", facts->identity.substr(0, facts->identity.find("; passes")), facts->level)
            : facts.error().ToText());
  size_t damaged = 0;
  std::string last;
  Ignore(core.store.ForEachDamaged([&](const cache::Damage& damage) {
    ++damaged;
    last = fmt::format("{} {}: {}", NameOf(damage.table), damage.key.ToShort(), damage.reason);
    return true;
  }),
         "an unreadable list of damages shows in the store's own state");
  add("damage", damaged == 0,
      damaged == 0 ? "no damaged value was found"
                   : fmt::format("{} damaged values were dropped, the last: {}", damaged, last));
  const uint64_t crashes = GlobalMetrics().Get(Counter::worker_crashes);
  add("workers", crashes == 0, fmt::format("{} crashed since the daemon started", crashes));
  for (const CompilersCondition& condition : core.compilers.Conditions()) {
    add(condition.name.c_str(), condition.good, condition.text);
  }
  size_t failed = 0;
  const auto count = [&](const Digest&, const proto::EntryRecord& record) {
    failed += record.failure() != nullptr;
    return true;
  };
  CO_TRY(co_await core.entries.ForEachRecord(count, call.until));
  add("failures", failed == 0, fmt::format("{} entries failed to compile; `ingot why-miss KEY` says why", failed));
  for (const FallingFunction& fell : core.workload.Falling()) {
    add("hit ratio", false, fell.ToText());
  }
  if (const std::string why = call.hooks.web_trouble(); !why.empty()) add("web page", false, why);
  if (!call.hooks.sessions_trouble.empty()) add("sessions", false, call.hooks.sessions_trouble);
  if (core.cluster.is_shared()) {
    const Cluster::Facts facts = core.cluster.facts();
    using State = cache::CircuitBreaker::State;
    const auto tier = [&](const char* name, const std::string& place, const cache::CircuitBreaker::Facts& breaker) {
      add(name, breaker.state == State::kClosed,
          breaker.state == State::kClosed ? place : fmt::format("{}, left alone for a while: {}", place, breaker.why));
    };
    tier("cluster index", facts.index, facts.index_breaker);
    tier("cluster blobs", facts.blobs, facts.blobs_breaker);
    add("cluster trust", facts.trust_trouble.empty(),
        facts.trust_trouble.empty() ? (facts.can_write ? "takes what is trusted, and signs" : "takes what is trusted")
                                    : "nothing is taken: " + facts.trust_trouble);
  }
  constexpr std::chrono::seconds kServeMax{2};
  CheckServe(core.config, kServeMax, core.clock, checks);
  co_return std::move(checks).Finish();
}

namespace {

/// Calls `use` for each artifact that nothing names, but for those that are pinned or young, until it returns an error.
Task<void> ForEachUnnamed(Core& core, std::function<Status(const cache::StoreRow&)> use, Until until) {
  CO_TRY_ASSIGN(const Named named, co_await NamedBy(core, /*also_graphs=*/true, until));
  const int64_t grace_s = static_cast<int64_t>(core.config.gc_grace_s);
  std::string after;
  do {
    CO_TRY_ASSIGN(cache::Page<cache::StoreRow> page, core.store.List(Table::kArtifacts, after, Entries::kPageRows));
    for (const cache::StoreRow& row : page.rows) {
      CO_TRY(until.Check());
      const bool young = std::max(row.stat.created, row.stat.used) + grace_s > core.clock.now_s();
      if (named.Contains(row.key) || row.stat.pinned || young) continue;
      CO_TRY(use(row));
    }
    after = std::move(page.next);
  } while (!after.empty());
  co_return Status();
}

/// What `gc` would remove, and why; at most list_entries_max values by name.
Task<Json> GcPlan(const VerbCall& call) {
  Core& core = call.core;
  Json rows = Json::array();
  uint64_t evicted = 0, evicted_bytes = 0;
  const auto add = [&](const cache::StoreRow& row, const std::string& function, const std::string& why) {
    ++evicted;
    evicted_bytes += row.stat.bytes;
    if (rows.size() >= core.config.list_entries_max) return;
    rows.push_back({{"table", NameOf(row.table)},
                    {"key", row.key.ToHex()},
                    {"function", function},
                    {"bytes", row.stat.bytes},
                    {"last_use", row.stat.used},
                    {"why", why}});
  };
  CO_TRY_ASSIGN(const cache::EvictReport plan, core.sweeper.Step(/*dry_run=*/true));
  std::set<Digest> planned;
  for (const cache::Victim& victim : plan.victims) {
    const char* const why = victim.reason == cache::EvictReason::kAge       ? "unused for longer than gc_age_s_max"
                            : victim.reason == cache::EvictReason::kEntries ? "more entries than store_entries_max"
                                                                            : "more bytes than store_bytes_max";
    const Result<std::string> group = core.store.GroupOf(victim.row.table, victim.row.key);
    add(victim.row, group && victim.row.table == Table::kEntries ? *group : "", why);
    if (victim.row.table == Table::kArtifacts) planned.insert(victim.row.key);
  }
  std::function<Status(const cache::StoreRow&)> unnamed = [&](const cache::StoreRow& row) {
    if (!planned.contains(row.key)) add(row, "", "no entry names it");
    return Status();
  };
  CO_TRY(co_await ForEachUnnamed(core, std::move(unnamed), call.until));
  uint64_t bytes = 0;
  const auto totals = core.store.TotalsOf();
  for (const cache::Totals& table : totals) bytes += table.bytes;
  co_return Json{{"dry_run", true},
                 {"evicted", evicted},
                 {"evicted_bytes", evicted_bytes},
                 {"more", plan.more},
                 {"bytes", bytes},
                 {"entries", totals[static_cast<size_t>(Table::kEntries)].count},
                 {"would_evict", std::move(rows)}};
}

}  // namespace

Task<Json> GcVerb(const VerbCall& call) {
  Core& core = call.core;
  if (call.Flag("dry_run")) co_return co_await GcPlan(call);
  uint64_t evicted = 0, evicted_bytes = 0;
  // Bounded steps: each looks at the store anew, so lookups and writes go on in between.
  for (bool more = true; more;) {
    CO_TRY(call.until.Check());
    CO_TRY_ASSIGN(const cache::EvictReport step, core.sweeper.Step());
    evicted += step.victims.size();
    evicted_bytes += step.evicted_bytes;
    more = step.more && !step.victims.empty();
  }
  std::function<Status(const cache::StoreRow&)> remove = [&](const cache::StoreRow& row) {
    const Result<bool> deleted = core.store.Delete(Table::kArtifacts, row.key, row.stat.version);
    if (!deleted || !*deleted) return Status();
    core.artifacts.Forget(row.key);
    ++evicted;
    evicted_bytes += row.stat.bytes;
    return Status();
  };
  CO_TRY(co_await ForEachUnnamed(core, std::move(remove), call.until));
  CO_TRY(core.store.Compact(call.until.stop));
  uint64_t bytes = 0;
  const auto totals = core.store.TotalsOf();
  for (const cache::Totals& table : totals) bytes += table.bytes;
  co_return Json{{"evicted", evicted},
                 {"evicted_bytes", evicted_bytes},
                 {"bytes", bytes},
                 {"entries", totals[static_cast<size_t>(Table::kEntries)].count}};
}

Task<Json> EvictVerb(const VerbCall& call) {
  Core& core = call.core;
  CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, call.Text("key")));
  CO_TRY_ASSIGN(const EntryRef entry, co_await core.entries.Get(digest, call.until));
  CO_TRY(co_await core.entries.Delete(digest, call.until));
  // A graph that others' entries share stays theirs; one of this entry alone goes with it.
  CO_TRY_ASSIGN(const Named named, co_await NamedBy(core, /*also_graphs=*/false, call.until));
  uint64_t artifacts = 0;
  uint64_t bytes = 0;
  for (const auto& stored : entry->record.variants) {
    const Digest artifact = ArtifactOf(*stored->variant);
    if (named.Contains(artifact)) continue;
    Ignore(core.store.Delete(Table::kArtifacts, artifact), "absent is what is wanted");
    Ignore(core.store.Delete(Table::kGraphs, {stored->graph_key_low, stored->graph_key_high}),
           "absent is what is wanted");
    core.artifacts.Forget(artifact);
    ++artifacts;
    bytes += stored->variant->artifact_bytes;
  }
  core.tombstones.Add({{Table::kEntries, digest, proto::Reason::Hand, core.clock.now_s(), entry->function}});
  LogInfo("evicted", {{"key", digest.ToHex()}, {"function", entry->function}, {"bytes", bytes}});
  GlobalMetrics().Add(Counter::evictions, artifacts + 1);
  GlobalMetrics().Add(Counter::evicted_bytes, bytes);
  co_return Json{{"key", digest.ToHex()}, {"artifacts", artifacts}, {"bytes", bytes}};
}

Task<Json> PinVerb(const VerbCall& call) { return SetPin(call, true); }
Task<Json> UnpinVerb(const VerbCall& call) { return SetPin(call, false); }

}  // namespace ingot::daemon
