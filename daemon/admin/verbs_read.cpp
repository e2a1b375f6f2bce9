// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/trust/provenance.h"
#include "daemon/admin/verbs.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/dependency_words.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

/// Functions looked at for one whose name contains a text.
constexpr size_t kFunctionsMax = 256;

uint64_t BytesOf(const Entry& entry) {
  uint64_t bytes = 0;
  for (const auto& stored : entry.record.variants) bytes += stored->variant->artifact_bytes;
  return bytes;
}

double CompileSecondsOf(const Entry& entry) {
  double seconds = 0;
  for (const auto& stored : entry.record.variants) seconds += stored->compile_s;
  return seconds;
}

/// CPU features by name; whatever else a client put there as it is.
std::string TargetOf(const cache::Key& key) {
  constexpr std::string_view kFeature = "feature ";
  const cache::Component* target = key.Find("target");
  std::string out;
  for (const cache::Item& item : target == nullptr ? std::vector<cache::Item>() : target->items) {
    if (!out.empty()) out += ' ';
    out += item.name.starts_with(kFeature) ? item.name.substr(kFeature.size()) : item.name + "=" + item.text;
  }
  return out;
}

Json SummaryJson(Core& core, const Entry& entry) {
  cache::Stat stat;
  if (auto known = core.store.StatOf(cache::Table::kEntries, entry.digest)) stat = *known;
  return {{"key", entry.digest.ToHex()},
          {"function", entry.function},
          {"variants", entry.record.variants.size()},
          {"bytes", BytesOf(entry)},
          {"hits", stat.hits},
          {"compile_s", CompileSecondsOf(entry)},
          {"created", stat.created},
          {"last_use", stat.used},
          {"pinned", stat.pinned},
          {"rank", TextOf(entry.key, "ranks")},
          {"target", TargetOf(entry.key)},
          {"failed", entry.record.failure != nullptr}};
}

Json ProofJson(const proto::GraphProofT& proof) {
  return {{"sizes", proof.sizes}, {"skipped", proof.skipped}, {"unknown", proof.unknown}};
}

Json ArenasJson(const proto::Manifest& manifest) {
  const auto* arenas = manifest.recipe() == nullptr ? nullptr : manifest.recipe()->arenas();
  Json out = Json::array();
  for (uint32_t i = 0; arenas != nullptr && i < arenas->size(); ++i) {
    const proto::ArenaLayout& layout = *arenas->Get(i);
    Json values = Json::array();
    for (uint32_t k = 0; layout.values() != nullptr && k < layout.values()->size(); ++k) {
      values.push_back(layout.values()->Get(k));
    }
    out.push_back({{"sizes", std::move(values)}, {"bytes", layout.bytes()}});
  }
  return out;
}

/// Which schedules were chosen, and what was measured here of them.
Json ChoicesJson(Core& core, const proto::Manifest& manifest) {
  const auto* choices = manifest.recipe() == nullptr ? nullptr : manifest.recipe()->choices();
  const Result<CompilerFacts> facts = choices == nullptr ? CompilerFacts() : core.compilers.Facts();
  Json out = Json::array();
  for (uint32_t i = 0; choices != nullptr && i < choices->size(); ++i) {
    const proto::KernelChoice& choice = *choices->Get(i);
    const Digest kernel{choice.kernel_low(), choice.kernel_high()};
    Json one = {{"kernel", kernel.ToHex()}, {"schedule", choice.schedule() == nullptr ? "" : choice.schedule()->str()}};
    // It may have been measured elsewhere.
    if (const auto measured = facts ? core.tuning.Of(*facts, kernel) : nullptr) {
      one["name"] = measured->name;
      one["first_ns"] = measured->first_ns;
      one["best_ns"] = measured->best_ns;
      if (measured->faster != proto::Rival::Unmeasured) {
        one["kernel_ns"] = measured->kernel_ns;
        one["library_ns"] = measured->library_ns;
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// Adds what the compiler noted: what it made of the graph, and what was proved.
void AddProvenance(Json& out, const proto::Provenance& made) {
  out["compiler"] = made.compiler() == nullptr ? "" : made.compiler()->str();
  out["target"] = made.target() == nullptr ? "" : made.target()->str();
  out["nodes"] = made.nodes();
  out["fused_nodes"] = made.fused_nodes();
  out["native_share"] = made.native_share();
  out["arena_bytes"] = made.arena_bytes();
  out["arena_bytes_min"] = made.arena_bytes_min();
  out["proof_kernels"] = made.proof_kernels();
  out["proofs"] = Json::array();
  const auto text = [](const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); };
  for (uint32_t i = 0; made.proofs() != nullptr && i < made.proofs()->size(); ++i) {
    const proto::KernelProof& proof = *made.proofs()->Get(i);
    out["proofs"].push_back({{"kernel", text(proof.kernel())},
                             {"rows", proof.rows()},
                             {"rows_run", proof.rows_run()},
                             {"skipped", text(proof.skipped())}});
  }
  out["launch_proofs"] = Json::array();
  for (uint32_t i = 0; made.launch_proofs() != nullptr && i < made.launch_proofs()->size(); ++i) {
    const proto::LaunchProof& proof = *made.launch_proofs()->Get(i);
    out["launch_proofs"].push_back({{"kernel", text(proof.kernel())},
                                    {"sizes", proof.sizes()},
                                    {"elements", proof.elements()},
                                    {"skipped", text(proof.skipped())}});
  }
  if (const proto::GraphProof* whole = made.graph_proof()) {
    out["graph_proof"] = ProofJson(*std::unique_ptr<proto::GraphProofT>(whole->UnPack()));
  }
}

/// What the artifact says of itself: how it was made and what a call of it runs.
Task<Json> ProvenanceJson(Core& core, Digest artifact, Until until) {
  CO_TRY_ASSIGN(const SealedRef file, co_await core.artifacts.Get(artifact, until));
  CO_TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(file->bytes()));
  const proto::Manifest& manifest = *proto::GetManifest(view.manifest.data());
  uint64_t steps[4] = {};
  if (manifest.steps() != nullptr) {
    for (const proto::PlanStep* step : *manifest.steps()) {
      if (static_cast<size_t>(step->kind()) < 4) ++steps[static_cast<size_t>(step->kind())];
    }
  }
  uint64_t special_kernels = 0;
  for (uint32_t i = 0; manifest.kernels() != nullptr && i < manifest.kernels()->size(); ++i) {
    const auto* specials = manifest.kernels()->Get(i)->specials();
    special_kernels += specials == nullptr ? 0 : specials->size();
  }
  Json out = {{"native_steps", steps[static_cast<size_t>(proto::StepKind::Kernel)]},
              {"aten_steps", steps[static_cast<size_t>(proto::StepKind::Aten)]},
              {"copy_steps", steps[static_cast<size_t>(proto::StepKind::Copy)]},
              {"guard_steps", steps[static_cast<size_t>(proto::StepKind::Guard)]},
              {"kernels", manifest.kernels() == nullptr ? 0 : manifest.kernels()->size()},
              {"special_kernels", special_kernels},
              {"code_bytes", view.code.size()},
              {"constant_bytes", view.constants.size()}};
  out["arenas"] = ArenasJson(manifest);
  out["choices"] = ChoicesJson(core, manifest);
  if (const proto::Provenance* made = manifest.provenance()) AddProvenance(out, *made);
  co_return out;
}

/// "made here", "signed by" the keys that vouch for parts of it, or "taken unsigned".
std::string WhereFrom(const proto::StoredVariantT& stored) {
  if (IsUnsigned(stored)) return "taken unsigned";
  std::string keys;
  for (const Buffer& envelope : OriginsOf(stored)) {
    const auto decoded = cache::DecodeEnvelope(envelope);
    if (decoded) keys += " " + decoded->key.ToShort();
  }
  return keys.empty() ? "made here" : "signed by" + keys;
}

boost::asio::awaitable<Json> VariantJson(Core& core, const proto::StoredVariantT& stored, Until until) {
  const proto::VariantT& variant = *stored.variant;
  Json dependencies = Json::array();
  for (const auto& d : variant.dependencies) {
    dependencies.push_back({{"kind", d->kind},
                            {"where", d->where},
                            {"digest", Digest{d->low, d->high}.ToHex()},
                            {"text", d->text},
                            {"proved", proto::IsProved(d->kind)},
                            {"words", proto::DependencyWords(d->kind, d->where, d->text)}});
  }
  Json proven = Json::array();
  const size_t count = variant.symbol_count;
  for (size_t at = 0; count != 0 && at + count <= variant.proven.size(); at += count) {
    proven.push_back(std::vector<int64_t>(variant.proven.begin() + static_cast<long>(at),
                                          variant.proven.begin() + static_cast<long>(at + count)));
  }
  Json stages = Json::object();
  if (stored.stages) {
    const proto::StageSeconds& took = *stored.stages;
    const std::pair<const char*, float> parts[] = {{"passes_s", took.passes()},
                                                   {"fusion_s", took.fusion()},
                                                   {"codegen_s", took.codegen()},
                                                   {"link_s", took.link()},
                                                   {"proof_s", took.proof()}};
    // It may come from another machine, and be no time.
    for (const auto& [name, seconds] : parts) stages[name] = seconds >= 0 && seconds < 1e6f ? seconds : 0.0f;
  }
  Json replaced = Json::array();
  for (size_t at = 0; at + 2 <= stored.replaced.size(); at += 2) {
    replaced.push_back(Digest{stored.replaced[at], stored.replaced[at + 1]}.ToHex());
  }
  Json agreed = Json::array();
  for (const auto& one : variant.agreed) {
    agreed.push_back({{"when", one->when}, {"build", one->build}, {"sizes", one->sizes}, {"why_not", one->why_not}});
  }
  Result<Json> provenance = co_await ProvenanceJson(core, ArtifactOf(variant), until);
  Json out = {{"kind", variant.kind == proto::VariantKind::Template ? "template" : "exact"},
              {"graph", GraphOf(variant).ToHex()},
              {"graph_key", Digest{stored.graph_key_low, stored.graph_key_high}.ToHex()},
              {"artifact", ArtifactOf(variant).ToHex()},
              {"artifact_bytes", variant.artifact_bytes},
              {"compile_s", stored.compile_s},
              {"stages", stages},
              {"created", stored.created},
              {"proven", proven},
              {"range", variant.range},
              {"fixed", variant.fixed},
              {"signature_bytes", variant.signature.size()},
              {"dependencies", dependencies},
              {"replaced", replaced},
              {"from", WhereFrom(stored)},
              {"agreed", agreed}};
  if (provenance) {
    out["provenance"] = std::move(provenance).value();
    // Idle time knows more than the compile did.
    if (const auto& proof = stored.proof) {
      out["provenance"]["graph_proof"] = ProofJson(*proof);
    }
  } else {
    const auto stone = core.tombstones.Find(cache::Table::kArtifacts, ArtifactOf(variant));
    out["trouble"] = stone ? stone->ToText() : provenance.error().ToText();
  }
  co_return out;
}

/// Whether a function has this name, with or without what it is part of.
auto IsCalled(const std::string& name) {
  return [ending = "." + name](const std::string& function) { return function.ends_with(ending); };
}

Json KeyJson(const cache::Key& key) {
  Json components = Json::array();
  for (const cache::Component& component : key.components) {
    Json items = Json::array();
    for (const cache::Item& item : component.items) {
      items.push_back({{"name", item.name}, {"digest", item.digest.ToHex()}, {"text", item.text}});
    }
    components.push_back({{"name", component.name}, {"digest", component.DigestOfItems().ToHex()}, {"items", items}});
  }
  return components;
}

Error NoEntry(const std::string& prefix) {
  return Error(Code::kNotFound, fmt::format("no entry '{}'; `ingot list` shows what is stored", prefix));
}

}  // namespace

Task<Digest> FindEntry(const VerbCall& call, std::string prefix) {
  Core& core = call.core;
  const Until& until = call.until;
  if (prefix.empty()) co_return Error(Code::kInvalid, "name an entry: a key or the start of one");
  // Two are enough to know that it is not one.
  std::vector<Digest> found;
  if (const Result<std::string> from = Entries::From(prefix)) {
    CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.Page(*from, 2, until));
    found = std::move(names.digests);
    std::erase_if(found, [&](const Digest& digest) { return !digest.ToHex().starts_with(prefix); });
  }
  // Who only uses names a whole digest, and hears nothing of what is not his.
  if (call.caller.right != Right::kAdminister) {
    if (found.size() != 1) co_return NoEntry(prefix);
    const Result<EntryRef> entry = co_await core.entries.Look(found[0], until);
    if (!entry || !call.Sees((*entry)->key)) co_return NoEntry(prefix);
    co_return found[0];
  }
  if (found.empty()) {
    CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.PageOfFunction(prefix, "", 2, until));
    found = std::move(names.digests);
  }
  if (found.empty()) {
    CO_TRY_ASSIGN(const std::vector<std::string> functions,
                  co_await core.entries.FunctionsLike(prefix, kFunctionsMax, until));
    const bool has_one_called_so = std::ranges::any_of(functions, IsCalled(prefix));
    for (const std::string& function : functions) {
      // "f" is pkg.f rather than pkg.Conv.forward.
      if (has_one_called_so && !IsCalled(prefix)(function)) continue;
      CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.PageOfFunction(function, "", 2, until));
      found.insert(found.end(), names.digests.begin(), names.digests.end());
      if (found.size() > 1) break;
    }
  }
  if (found.empty()) {
    if (const auto stone = core.tombstones.FindEntry(prefix)) {
      co_return Error(Code::kNotFound,
                      fmt::format("{} {} was {}", stone->key.ToShort(), stone->function, stone->ToText()));
    }
    co_return NoEntry(prefix);
  }
  if (found.size() > 1) {
    std::string names;
    for (size_t i = 0; i < 2; ++i) {
      const Result<EntryRef> entry = co_await core.entries.Look(found[i], until);
      names += fmt::format("{}{}{}", i == 0 ? "" : " and ", found[i].ToHex(),
                           entry ? fmt::format(" ({})", (*entry)->function) : "");
    }
    co_return Error(Code::kInvalid, fmt::format("'{}' names several entries, among them {}", prefix, names));
  }
  co_return found[0];
}

Task<Json> StatusVerb(const VerbCall& call) {
  const Artifacts::Use open = call.core.artifacts.open();
  // What others compile, and where, is for who administers.
  const bool is_whole = call.caller.right == Right::kAdminister;
  co_return Json{{"pid", getpid()},
                 {"socket", call.hooks.socket},
                 {"store", call.hooks.store_dir},
                 {"store_state", call.core.store.Describe()},
                 {"store_trouble", call.core.store_note.trouble()},
                 {"version", proto::Version()},
                 {"build", proto::BuildId()},
                 {"uptime_s", call.hooks.uptime_s()},
                 {"clients", call.hooks.clients()},
                 {"flights", call.core.flights.size()},
                 {"oldest_flights", is_whole ? FlightsJson(call.core) : Json::array()},
                 {"compiles_pending", call.core.compilers.pending()},
                 {"open_artifacts", open.count},
                 {"open_artifact_bytes", open.bytes},
                 {"cluster", is_whole ? ClusterJson(call.core) : Json()},
                 {"web", call.hooks.web()},
                 {"web_trouble", call.hooks.web_trouble()}};
}

Task<Json> StatsVerb(const VerbCall& /*call*/) {
  Json out = Json::object();
  for (const Metric& metric : GlobalMetrics().Snapshot()) out[metric.name] = metric.value;
  co_return out;
}

/// Pages follow the keys: those do not change their order while somebody reads.
Task<Json> ListVerb(const VerbCall& call) {
  const Config& config = call.core.config;
  const uint64_t limit_max = std::max<uint64_t>(1, config.list_entries_max);
  const uint64_t limit = std::clamp<uint64_t>(call.Number("limit", limit_max), 1, limit_max);
  const std::string function = call.Text("function");
  const std::string key = call.Text("key");
  Digest after;
  std::string cursor;
  if (!key.empty()) {
    CO_TRY_ASSIGN(cursor, Entries::From(key));
  }
  if (const std::string text = call.Text("after"); !text.empty()) {
    CO_TRY_ASSIGN(after, Digest::FromHex(text));
    CO_TRY_ASSIGN(cursor, Entries::From(text));
  }
  std::vector<Json> entries;
  Json next;
  uint64_t bytes = 0;
  bool is_full = false, has_passed = false;
  do {
    CO_TRY_ASSIGN(Entries::Names page, co_await call.core.entries.Page(cursor, Entries::kPageRows, call.until));
    for (const Digest& digest : page.digests) {
      CO_TRY(call.until.Check());
      if (digest == after && !call.Text("after").empty()) continue;
      // Keys that begin alike stand together.
      has_passed = !digest.ToHex().starts_with(key);
      if (has_passed) break;
      const Result<EntryRef> entry = co_await call.core.entries.Look(digest, call.until);
      if (!entry || (*entry)->function.find(function) == std::string::npos) continue;
      if (!LearntOf((*entry)->key).empty()) continue;  // It serves no call.
      // Names may have any length: a page stays far below what a reply may have.
      is_full = entries.size() == limit || bytes > config.replies_bytes_max / 4;
      if (is_full) {
        next = entries.back()["key"];
        break;
      }
      entries.push_back(SummaryJson(call.core, **entry));
      bytes += entries.back().dump(-1, ' ', false, Json::error_handler_t::replace).size();
    }
    cursor = std::move(page.next);
  } while (!is_full && !has_passed && !cursor.empty());
  std::sort(entries.begin(), entries.end(),
            [](const Json& a, const Json& b) { return a["last_use"].get<int64_t>() > b["last_use"].get<int64_t>(); });
  co_return Json{{"entries", entries}, {"next", next}};
}

Task<Json> InspectVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, call.Text("key")));
  CO_TRY_ASSIGN(const EntryRef entry, co_await call.core.entries.Get(digest, call.until));
  Json out = SummaryJson(call.core, *entry);
  out["components"] = KeyJson(entry->key);
  out["variants"] = Json::array();
  for (const auto& stored : entry->record.variants) {
    Json variant = co_await VariantJson(call.core, *stored, call.until);
    out["variants"].push_back(std::move(variant));
  }
  if (entry->record.failure) {
    out["failure"] = FailureJson(*entry->record.failure, call.core.clock.now_s());
  }
  if (!entry->record.in_parts.empty()) {
    const Json note = Json::parse(entry->record.in_parts, nullptr, /*allow_exceptions=*/false);
    const bool says_why = note.is_object() && note.contains("why") && note["why"].is_string();
    // Without a reason it says only for which calls the function itself is faster.
    if (!says_why || note["why"] != "") out["in_parts"] = says_why ? note["why"] : Json(entry->record.in_parts);
  }
  if (entry->record.rejection) {
    out["rejection"] = {{"when", entry->record.rejection->when}, {"why", entry->record.rejection->why}};
  }
  co_return out;
}

Task<Json> ConfigVerb(const VerbCall& call) {
  co_return Json{{"pid", getpid()}, {"fields", FieldsJson(call.core.config)}};
}

Task<Json> LogVerb(const VerbCall& call) {
  FlushLog();  // Debug lines wait for company.
  co_return Json{{"file", call.core.config.log_file}, {"level", call.core.config.log_level}};
}

}  // namespace ingot::daemon
