// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/evict.h"
#include "daemon/convert.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

using cache::Table;

constexpr Table kTables[] = {Table::kEntries, Table::kGraphs,  Table::kArtifacts,
                             Table::kKernels, Table::kTuning,  Table::kStats};

/// Keys of a table, so that work on them does not hold an iterator open.
Result<std::vector<std::pair<Digest, cache::Stat>>> RowsOf(cache::Store& store, Table table) {
  std::vector<std::pair<Digest, cache::Stat>> rows;
  TRY(store.ForEach(table, [&](const Digest& digest, const cache::Stat& stat) {
    rows.emplace_back(digest, stat);
    return true;
  }));
  return rows;
}

/// Compiles the variant's graph again; equal bytes are the promise that is checked.
Status Recompile(Core& core, const proto::StoredVariantT& stored) {
  TRY_ASSIGN(std::string text, core.artifacts.GetText({stored.text_low, stored.text_high}));
  TRY_ASSIGN(const Digest graph, core.graphs.DigestOf(text));
  TRY_ASSIGN(const CompilerFacts facts, core.compilers.Facts());
  const Digest graph_key{stored.graph_key_low, stored.graph_key_high};
  if (GraphKey(graph, facts, stored.gears).ToDigest() != graph_key) {
    return Error(Code::kIncompatible, "compiled by another compiler or for another target");
  }
  CompileJob job{.graph = std::move(text), .name = "verify", .gears = stored.gears};
  TRY_ASSIGN(const CompiledArtifact again, CompileAndWait(core, std::move(job)));
  if (again.digest == ArtifactOf(*stored.variant)) return {};
  return Error(Code::kCorrupt, fmt::format("compiled again it is {}", again.digest.ToHex()));
}

struct Findings {
  uint64_t checked = 0;
  uint64_t bytes = 0;
  Json problems = Json::array();

  void Add(const std::string& table, const Digest& key, const Error& error) {
    problems.push_back({{"table", table},
                        {"key", key.ToHex()},
                        {"code", CodeName(error.code())},
                        {"message", error.message()}});
  }
};

Status VerifyTables(const VerbCall& call, Findings& found) {
  Core& core = call.core;
  for (const Table table : kTables) {
    TRY_ASSIGN(const auto rows, RowsOf(core.store, table));
    for (const auto& [digest, stat] : rows) {
      TRY(call.Going());
      const Result<Buffer> value = core.store.Get(table, digest);
      if (!value && value.error().code() == Code::kNotFound) continue;  // evicted meanwhile
      ++found.checked;
      found.bytes += stat.bytes;
      const std::string name(NameOf(table));
      if (!value) {
        found.Add(name, digest, value.error());
      } else if (table == Table::kArtifacts && DigestOf(*value) != digest) {
        found.Add(name, digest, Error(Code::kCorrupt, "does not have its digest"));
      } else if (table == Table::kEntries && proto::ReadMessage<proto::EntryRecord>(*value) == nullptr) {
        found.Add(name, digest, Error(Code::kCorrupt, "the record does not verify"));
      }
    }
  }
  return {};
}

Result<Json> SetPin(const VerbCall& call, bool pinned) {
  TRY_ASSIGN(const Digest digest, FindEntry(call.core, call.Text("key")));
  TRY_ASSIGN(const EntryRef entry, call.core.entries.Get(digest));
  TRY(call.core.store.Pin(Table::kEntries, digest, pinned));
  uint64_t artifacts = 0;
  for (const Digest& artifact : entry->artifacts) {
    TRY(call.core.store.Pin(Table::kArtifacts, artifact, pinned));
    ++artifacts;
  }
  for (const auto& stored : entry->record.variants) {
    Ignore(call.core.store.Pin(Table::kArtifacts, {stored->text_low, stored->text_high}, pinned),
           "a missing text costs a later size a compile");
  }
  return Json{{"key", digest.ToHex()}, {"pinned", pinned}, {"artifacts", artifacts}};
}

/// Everything that entries and graph records name.
std::set<Digest> Referenced(Core& core) {
  std::set<Digest> used;
  for (const Digest& digest : core.entries.All()) {
    const auto entry = core.entries.Get(digest);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      used.insert(ArtifactOf(*stored->variant));
      used.insert({stored->text_low, stored->text_high});
    }
  }
  return used;
}

}  // namespace

Result<Json> VerifyVerb(const VerbCall& call) {
  Core& core = call.core;
  Findings found;
  TRY(VerifyTables(call, found));
  uint64_t recompiled = 0;
  for (const Digest& digest : call.Flag("recompile") ? core.entries.All() : std::vector<Digest>()) {
    const auto entry = core.entries.Get(digest);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      TRY(call.Going());
      ++recompiled;
      if (const Status same = Recompile(core, *stored); !same) {
        found.Add("entries", digest, same.error());
      }
    }
  }
  return Json{{"checked", found.checked},
              {"bytes", found.bytes},
              {"recompiled", recompiled},
              {"problems", found.problems}};
}

Result<Json> DoctorVerb(const VerbCall& call) {
  Core& core = call.core;
  Json checks = Json::array();
  const auto add = [&](const char* name, bool good, const std::string& text) {
    checks.push_back({{"check", name}, {"ok", good}, {"text", text}});
  };
  const std::string trouble = core.store_note.trouble();
  add("store", trouble.empty(),
      trouble.empty() ? core.store.Describe() : trouble + "; artifacts are kept in memory only");
  const auto facts = core.compilers.Facts();
  add("compiler", facts.has_value(),
      facts ? fmt::format("{} for {}", facts->identity.substr(0, facts->identity.find("; passes")),
                          facts->level)
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
  size_t failed = 0;
  for (const Digest& digest : core.entries.All()) {
    const auto entry = core.entries.Get(digest);
    if (entry && (*entry)->record.failure) ++failed;
  }
  add("failures", failed == 0,
      fmt::format("{} entries failed to compile; `ingot why-miss KEY` says why", failed));
  for (const FallingFunction& fell : core.workload.Falling()) {
    add("hit ratio", false, fell.ToText());
  }
  if (!call.hooks.sessions_trouble.empty()) add("sessions", false, call.hooks.sessions_trouble);
  bool good = true;
  for (const Json& check : checks) good = good && check["ok"].get<bool>();
  return Json{{"ok", good}, {"checks", checks}};
}

Result<Json> GcVerb(const VerbCall& call) {
  Core& core = call.core;
  const int64_t grace_s = static_cast<int64_t>(core.config.gc_grace_s);
  cache::EvictReport total;
  // Bounded steps: each looks at the store anew, so lookups and writes go on in between.
  do {
    TRY(call.Going());
    TRY_ASSIGN(const cache::EvictReport step, core.sweeper.Step());
    total.evicted += step.evicted;
    total.evicted_bytes += step.evicted_bytes;
    total.bytes = step.bytes;
    total.entries = step.entries;
    total.more = step.more && step.evicted != 0;
  } while (total.more);
  const std::set<Digest> used = Referenced(core);
  TRY_ASSIGN(const auto artifacts, RowsOf(core.store, Table::kArtifacts));
  for (const auto& [digest, stat] : artifacts) {
    TRY(call.Going());
    const bool young = stat.created + grace_s > core.clock.now_s();
    if (used.contains(digest) || stat.pinned || young) continue;
    if (!core.store.Delete(Table::kArtifacts, digest)) continue;
    core.artifacts.Forget(digest);
    ++total.evicted;
    total.evicted_bytes += stat.bytes;
    total.bytes -= std::min(total.bytes, stat.bytes);
  }
  TRY(core.store.Compact());
  return Json{{"evicted", total.evicted},
              {"evicted_bytes", total.evicted_bytes},
              {"bytes", total.bytes},
              {"entries", total.entries}};
}

Result<Json> EvictVerb(const VerbCall& call) {
  Core& core = call.core;
  TRY_ASSIGN(const Digest digest, FindEntry(core, call.Text("key")));
  TRY_ASSIGN(const EntryRef entry, core.entries.Get(digest));
  TRY(core.entries.Delete(digest));
  const std::set<Digest> used = Referenced(core);
  uint64_t artifacts = 0;
  uint64_t bytes = 0;
  for (const auto& stored : entry->record.variants) {
    const Digest artifact = ArtifactOf(*stored->variant);
    if (used.contains(artifact)) continue;
    Ignore(core.store.Delete(Table::kArtifacts, artifact), "absent is what is wanted");
    Ignore(core.store.Delete(Table::kGraphs, {stored->graph_key_low, stored->graph_key_high}),
           "absent is what is wanted");
    core.artifacts.Forget(artifact);
    ++artifacts;
    bytes += stored->variant->artifact_bytes;
  }
  core.tombstones.Add({{Table::kEntries, digest, proto::Reason::Hand, core.clock.now_s(),
                        entry->function}});
  LogInfo("evicted", {{"key", digest.ToHex()}, {"function", entry->function}, {"bytes", bytes}});
  GlobalMetrics().Add(Counter::evictions, artifacts + 1);
  GlobalMetrics().Add(Counter::evicted_bytes, bytes);
  return Json{{"key", digest.ToHex()}, {"artifacts", artifacts}, {"bytes", bytes}};
}

Result<Json> PinVerb(const VerbCall& call) { return SetPin(call, true); }
Result<Json> UnpinVerb(const VerbCall& call) { return SetPin(call, false); }

}  // namespace ingot::daemon
