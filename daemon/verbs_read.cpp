// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/metrics.h"
#include "daemon/convert.h"
#include "daemon/verbs.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/dependency_words.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

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
    out += item.name.starts_with(kFeature) ? item.name.substr(kFeature.size())
                                           : item.name + "=" + item.text;
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

/// What the artifact says of itself: how it was made and what a call of it runs.
Result<Json> ProvenanceJson(Core& core, const Digest& artifact) {
  TRY_ASSIGN(const SealedRef file, core.artifacts.Get(artifact));
  TRY_ASSIGN(const Mapping mapping, Mapping::Map(file->fd.get(), file->bytes));
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(mapping.bytes()));
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
  if (const proto::Provenance* made = manifest.provenance()) {
    out["compiler"] = made->compiler() == nullptr ? "" : made->compiler()->str();
    out["target"] = made->target() == nullptr ? "" : made->target()->str();
    out["nodes"] = made->nodes();
    out["fused_nodes"] = made->fused_nodes();
    out["native_share"] = made->native_share();
    out["arena_bytes"] = made->arena_bytes();
    out["arena_bytes_min"] = made->arena_bytes_min();
    out["proof_kernels"] = made->proof_kernels();
    out["proofs"] = Json::array();
    for (uint32_t i = 0; made->proofs() != nullptr && i < made->proofs()->size(); ++i) {
      const proto::KernelProof& proof = *made->proofs()->Get(i);
      const auto text = [](const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); };
      out["proofs"].push_back({{"kernel", text(proof.kernel())}, {"rows", proof.rows()},
                               {"rows_run", proof.rows_run()}, {"skipped", text(proof.skipped())}});
    }
  }
  return out;
}

Json VariantJson(Core& core, const proto::StoredVariantT& stored) {
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
  Result<Json> provenance = ProvenanceJson(core, ArtifactOf(variant));
  Json out = {{"kind", variant.kind == proto::VariantKind::Template ? "template" : "exact"},
          {"graph", GraphOf(variant).ToHex()},
          {"graph_key", Digest{stored.graph_key_low, stored.graph_key_high}.ToHex()},
          {"artifact", ArtifactOf(variant).ToHex()},
          {"artifact_bytes", variant.artifact_bytes},
          {"compile_s", stored.compile_s},
          {"created", stored.created},
          {"proven", proven},
          {"range", variant.range},
          {"fixed", variant.fixed},
          {"signature_bytes", variant.signature.size()},
          {"dependencies", dependencies}};
  if (provenance) {
    out["provenance"] = std::move(provenance).value();
  } else {
    const auto stone = core.tombstones.Find(cache::Table::kArtifacts, ArtifactOf(variant));
    out["trouble"] = stone ? stone->ToText() : provenance.error().ToText();
  }
  return out;
}

Json KeyJson(const cache::Key& key) {
  Json components = Json::array();
  for (const cache::Component& component : key.components) {
    Json items = Json::array();
    for (const cache::Item& item : component.items) {
      items.push_back({{"name", item.name}, {"digest", item.digest.ToHex()}, {"text", item.text}});
    }
    components.push_back({{"name", component.name},
                          {"digest", component.DigestOfItems().ToHex()},
                          {"items", items}});
  }
  return components;
}

}  // namespace

Result<Digest> FindEntry(Core& core, const std::string& prefix) {
  if (prefix.empty()) return Error(Code::kInvalid, "name an entry: a key or the start of one");
  std::vector<Digest> found = core.entries.StartingWith(prefix);
  if (found.empty()) found = core.entries.OfFunction(prefix);
  if (found.empty()) found = core.entries.NamedLike(prefix);
  if (found.empty()) {
    if (const auto stone = core.tombstones.FindEntry(prefix)) {
      return Error(Code::kNotFound, fmt::format("{} {} was {}", stone->key.ToShort(),
                                                stone->function, stone->ToText()));
    }
    return Error(Code::kNotFound,
                 fmt::format("no entry '{}'; `ingot list` shows what is stored", prefix));
  }
  if (found.size() > 1) {
    return Error(Code::kInvalid, fmt::format("'{}' names {} entries, among them {} and {}", prefix,
                                             found.size(), found[0].ToHex(), found[1].ToHex()));
  }
  return found[0];
}

Result<Json> StatusVerb(const VerbCall& call) {
  const Artifacts::Use open = call.core.artifacts.open();
  return Json{{"pid", getpid()},
              {"socket", call.hooks.socket},
              {"store", call.hooks.store_dir},
              {"store_state", call.core.store.Describe()},
              {"store_trouble", call.core.store_note.trouble()},
              {"version", proto::Version()},
              {"build", proto::BuildId()},
              {"uptime_s", call.hooks.uptime_s()},
              {"clients", call.hooks.clients()},
              {"flights", call.core.flights.size()},
              {"compiles_pending", call.core.compilers.pending()},
              {"open_artifacts", open.count},
              {"open_artifact_bytes", open.bytes}};
}

Result<Json> StatsVerb(const VerbCall& /*call*/) {
  Json out = Json::object();
  for (const Metric& metric : GlobalMetrics().Snapshot()) out[metric.name] = metric.value;
  return out;
}

Result<Json> ListVerb(const VerbCall& call) {
  const std::string function = call.Text("function");
  std::vector<Json> entries;
  for (const Digest& digest : call.core.entries.All()) {
    const Result<EntryRef> entry = call.core.entries.Get(digest);
    if (!entry) continue;
    if (!function.empty() && (*entry)->function.find(function) == std::string::npos) continue;
    entries.push_back(SummaryJson(call.core, **entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Json& a, const Json& b) {
    return a["last_use"].get<int64_t>() > b["last_use"].get<int64_t>();
  });
  return Json{{"entries", entries}};
}

Result<Json> InspectVerb(const VerbCall& call) {
  TRY_ASSIGN(const Digest digest, FindEntry(call.core, call.Text("key")));
  TRY_ASSIGN(const EntryRef entry, call.core.entries.Get(digest));
  Json out = SummaryJson(call.core, *entry);
  out["components"] = KeyJson(entry->key);
  out["variants"] = Json::array();
  for (const auto& stored : entry->record.variants) {
    out["variants"].push_back(VariantJson(call.core, *stored));
  }
  if (entry->record.failure) {
    out["failure"] = FailureJson(*entry->record.failure, call.core.clock.now_s());
  }
  if (!entry->record.in_parts.empty()) {
    const Json note = Json::parse(entry->record.in_parts, nullptr, /*allow_exceptions=*/false);
    const bool says_why = note.is_object() && note.contains("why") && note["why"].is_string();
    out["in_parts"] = says_why ? note["why"] : Json(entry->record.in_parts);
  }
  if (entry->record.rejection) {
    out["rejection"] = {{"when", entry->record.rejection->when},
                        {"why", entry->record.rejection->why}};
  }
  return out;
}

Result<Json> ConfigVerb(const VerbCall& call) {
  return Json{{"pid", getpid()}, {"fields", FieldsJson(call.core.config)}};
}

Result<Json> LogVerb(const VerbCall& call) {
  return Json{{"file", call.core.config.log_file}, {"level", call.core.config.log_level}};
}

}  // namespace ingot::daemon
