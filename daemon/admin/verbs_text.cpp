// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "daemon/admin/verbs.h"
#include "daemon/compile/compile_on.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

using proto::JobOutput;

constexpr std::pair<const char*, JobOutput> kStages[] = {
    {"optimized", JobOutput::Optimized},
    {"loop", JobOutput::Loop},
    {"llvm", JobOutput::Llvm},
    {"asm", JobOutput::Asm},
    {"dot", JobOutput::Dot},
    {"schedule", JobOutput::Schedule},
};

/// JobOutput::Artifact stands for the graph as it was imported, which needs no job.
Result<JobOutput> StageOf(const std::string& name) {
  if (name.empty() || name == "graph") return JobOutput::Artifact;
  for (const auto& [stage, output] : kStages) {
    if (name == stage) return output;
  }
  return Error(Code::kInvalid,
               fmt::format("no stage '{}'; there are graph, optimized, loop, schedule, llvm, asm and dot", name));
}

/// Where the text of a graph is, and the gears it was compiled for.
struct FoundText {
  Digest text;
  std::vector<int64_t> gears;
};
FoundText FoundIn(const proto::StoredVariantT& stored) { return {{stored.text_low, stored.text_high}, stored.gears}; }

/// By the start of the graph's digest or graph key; of an entry it is that of its newest variant.
Task<FoundText> FindText(const VerbCall& call, std::string prefix) {
  Core& core = call.core;
  const Until& until = call.until;
  if (prefix.empty()) co_return Error(Code::kInvalid, "name a graph or an entry");
  std::optional<FoundText> found;
  const auto use = [&](const EntryRef& entry) {
    if (!call.Sees(entry->key)) return true;
    for (const auto& stored : entry->record.variants) {
      const Digest graph_key{stored->graph_key_low, stored->graph_key_high};
      const bool is_named =
          GraphOf(*stored->variant).ToHex().starts_with(prefix) || graph_key.ToHex().starts_with(prefix);
      if (is_named) found = FoundIn(*stored);
      if (is_named) return false;
    }
    return true;
  };
  CO_TRY(co_await core.entries.ForEach(use, until));
  if (found) co_return *found;
  CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, prefix));
  CO_TRY_ASSIGN(const EntryRef entry, co_await core.entries.Get(digest, until));
  const auto& variants = entry->record.variants;
  if (variants.empty()) {
    co_return Error(Code::kNotFound, fmt::format("the entry '{}' has no variant", prefix));
  }
  co_return FoundIn(*variants.back());
}

}  // namespace

Task<Json> TextVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(const JobOutput output, StageOf(call.Text("stage")));
  CO_TRY_ASSIGN(FoundText found, co_await FindText(call, call.Text("graph")));
  CO_TRY_ASSIGN(std::string text, co_await call.core.cluster.TextOf(found.text, 0, call.until));
  if (output == JobOutput::Artifact) co_return Json{{"text", std::move(text)}};
  CompileJob job{std::move(text), "text", output, std::move(found.gears)};
  CO_TRY_ASSIGN(const CompiledArtifact made, co_await CompileOn(call.core.compilers, std::move(job), call.until));
  co_return Json{{"text", std::string(AsText(made.file->bytes()))}};
}

}  // namespace ingot::daemon
