// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <future>
#include <optional>
#include <utility>

#include "daemon/convert.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

using proto::JobOutput;

constexpr std::pair<const char*, JobOutput> kStages[] = {
    {"optimized", JobOutput::Optimized},
    {"loop", JobOutput::Loop},
    {"llvm", JobOutput::Llvm},
    {"asm", JobOutput::Asm},
};

/// JobOutput::Artifact stands for the graph as it was imported, which needs no job.
Result<JobOutput> StageOf(const std::string& name) {
  if (name.empty() || name == "graph") return JobOutput::Artifact;
  for (const auto& [stage, output] : kStages) {
    if (name == stage) return output;
  }
  return Error(Code::kInvalid,
               fmt::format("no stage '{}'; there are graph, optimized, loop, llvm and asm", name));
}

/// Where the text of a graph is, and the gears it was compiled for.
struct FoundText {
  Digest text;
  std::vector<int64_t> gears;
};
FoundText FoundIn(const proto::StoredVariantT& stored) { return {{stored.text_low, stored.text_high}, stored.gears}; }

/// By the start of the graph's digest or graph key; of an entry it is that of its newest variant.
Result<FoundText> FindText(Core& core, const std::string& prefix) {
  if (prefix.empty()) return Error(Code::kInvalid, "name a graph or an entry");
  for (const Digest& digest : core.entries.All()) {
    const Result<EntryRef> entry = core.entries.Get(digest);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      const Digest graph_key{stored->graph_key_low, stored->graph_key_high};
      if (GraphOf(*stored->variant).ToHex().starts_with(prefix) ||
          graph_key.ToHex().starts_with(prefix)) {
        return FoundIn(*stored);
      }
    }
  }
  TRY_ASSIGN(const Digest digest, FindEntry(core, prefix));
  TRY_ASSIGN(const EntryRef entry, core.entries.Get(digest));
  const auto& variants = entry->record.variants;
  if (variants.empty()) {
    return Error(Code::kNotFound, fmt::format("the entry '{}' has no variant", prefix));
  }
  return FoundIn(*variants.back());
}

}  // namespace

Result<CompiledArtifact> CompileAndWait(Core& core, CompileJob job) {
  auto promise = std::make_shared<std::promise<Result<CompiledArtifact>>>();
  const bool started =
      core.compilers.Start(std::move(job), [promise](Result<CompiledArtifact> result) {
        promise->set_value(std::move(result));
      });
  if (!started) {
    return Error(Code::kExhausted, "busy: too many compiles wait (worker_queue_max)");
  }
  return promise->get_future().get();
}

Result<Json> TextVerb(const VerbCall& call) {
  TRY_ASSIGN(const JobOutput output, StageOf(call.Text("stage")));
  TRY_ASSIGN(FoundText found, FindText(call.core, call.Text("graph")));
  TRY_ASSIGN(std::string text, call.core.artifacts.GetText(found.text));
  if (output == JobOutput::Artifact) return Json{{"text", std::move(text)}};
  TRY_ASSIGN(const CompiledArtifact made,
             CompileAndWait(call.core, {std::move(text), "text", output, std::move(found.gears)}));
  TRY_ASSIGN(const Mapping mapping, Mapping::Map(made.file.get(), made.bytes));
  return Json{{"text", std::string(AsText(mapping.bytes()))}};
}

}  // namespace ingot::daemon
