// SPDX-License-Identifier: Apache-2.0
// ingot-worker: compiles graphs for ingotd, so that a compiler crash is an error and no outage.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "compiler/contest.h"
#include "compiler/explain.h"
#include "compiler/improve.h"
#include "compiler/ir/text.h"
#include "compiler/targets/target.h"
#include "daemon/compile/worker_loop.h"
#include "proto/artifact_file.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

compiler::Stage StageOf(proto::JobOutput output) {
  switch (output) {
    case proto::JobOutput::Loop: return compiler::Stage::kLoop;
    case proto::JobOutput::Llvm: return compiler::Stage::kLlvm;
    case proto::JobOutput::Asm: return compiler::Stage::kAsm;
    case proto::JobOutput::Schedule: return compiler::Stage::kSchedule;
    case proto::JobOutput::Dot: return compiler::Stage::kDot;
    default: return compiler::Stage::kOptimized;
  }
}

using Sizes = std::vector<std::vector<int64_t>>;

/// Lists of a value for each symbol, which a job has one after the other.
Result<Sizes> SizesOf(const flatbuffers::Vector<int64_t>* numbers, size_t symbol_count, const char* what) {
  Sizes sizes;
  const size_t count = numbers == nullptr ? 0 : numbers->size();
  if (count != 0 && (symbol_count == 0 || count % symbol_count != 0)) {
    return Error(Code::kInvalid, fmt::format("{} sizes of {} for {} symbols", count, what, symbol_count));
  }
  for (size_t at = 0; at < count; at += symbol_count) {
    sizes.emplace_back(numbers->begin() + static_cast<long>(at),
                       numbers->begin() + static_cast<long>(at + symbol_count));
  }
  return sizes;
}

Result<Sizes> UsedSizes(const compiler::Graph& graph, const proto::Improve& asked) {
  TRY_ASSIGN(Sizes sizes, SizesOf(asked.sizes(), graph.symbols.size(), "an improvement"));
  // A graph without symbols has one size.
  if (graph.symbols.empty()) sizes.emplace_back();
  return sizes;
}

std::unordered_set<Digest> KernelsOf(const flatbuffers::Vector<uint64_t>* digests) {
  std::unordered_set<Digest> kernels;
  for (uint32_t i = 0; digests != nullptr && i + 2 <= digests->size(); i += 2) {
    kernels.insert({digests->Get(i), digests->Get(i + 1)});
  }
  return kernels;
}

Result<Buffer> FindingsOf(const compiler::Graph& graph, const compiler::CompileOptions& options,
                          const proto::WorkerJob& job) {
  if (job.improve() == nullptr) return Error(Code::kInvalid, "a job for findings that does not say what to look for");
  const proto::Improve& asked = *job.improve();
  compiler::ImproveOptions improve;
  TRY_ASSIGN(improve.sizes, UsedSizes(graph, asked));
  improve.arena_steps = asked.arena_steps();
  improve.measure_ms = asked.measure_ms();
  improve.processors = asked.processors();
  improve.known = KernelsOf(asked.known());
  TRY_ASSIGN(const proto::FindingsT findings, compiler::Improve(graph, options, improve));
  return proto::PackMessage<proto::Findings>(findings);
}

Result<Buffer> ContestsOf(const compiler::Graph& graph, const compiler::CompileOptions& options,
                          const proto::WorkerJob& job) {
  if (job.improve() == nullptr) return Error(Code::kInvalid, "a job for contests that does not say at which sizes");
  TRY_ASSIGN(const Sizes sizes, UsedSizes(graph, *job.improve()));
  TRY_ASSIGN(const proto::ContestsT contests,
             compiler::FindContests(graph, options, sizes, KernelsOf(job.improve()->known())));
  return proto::PackMessage<proto::Contests>(contests);
}

Result<Buffer> VerdictOf(const compiler::Graph& graph, const compiler::CompileOptions& options,
                         const proto::WorkerJob&) {
  compiler::CompileOptions all = options;
  all.prove = all.prove_all = true;
  proto::VerdictT verdict;
  const Result<compiler::Artifact> artifact = compiler::Compile(graph, all);
  if (artifact) {
    TRY_ASSIGN(const proto::ArtifactView file, proto::OpenArtifact(artifact->bytes));
    const proto::Provenance* made = proto::GetManifest(file.manifest.data())->provenance();
    if (made != nullptr && made->graph_proof() != nullptr) verdict.proof.reset(made->graph_proof()->UnPack());
  } else if (artifact.error().code() == Code::kInternal) {
    verdict.wrong = artifact.error().message();
  } else {
    return artifact.error();
  }
  return proto::PackMessage<proto::Verdict>(verdict);
}

Result<WorkerOutput> CompileText(const proto::WorkerJob& job, const compiler::TargetSpec& target) {
  TRY_ASSIGN(const compiler::Graph graph, compiler::Parse(job.graph()->string_view()));
  compiler::CompileOptions options;
  options.target = target;
  options.threads = job.threads();
  options.prove_ms_max = job.prove_ms_max();
  options.prove = job.prove_ms_max() != 0;
  TRY_ASSIGN(options.gears, SizesOf(job.gears(), graph.symbols.size(), "gears"));
  if (job.recipe() != nullptr) options.recipe = std::shared_ptr<const proto::RecipeT>(job.recipe()->UnPack());
  WorkerOutput output;
  static constexpr std::pair<proto::JobOutput, decltype(&FindingsOf)> kTables[] = {
      {proto::JobOutput::Findings, FindingsOf},
      {proto::JobOutput::Contests, ContestsOf},
      {proto::JobOutput::Verdict, VerdictOf},
  };
  const auto* table =
      std::ranges::find(kTables, job.output(), &std::pair<proto::JobOutput, decltype(&FindingsOf)>::first);
  if (table != std::end(kTables)) {
    TRY_ASSIGN(output.bytes, table->second(graph, options, job));
    output.digest = DigestOf(Bytes(output.bytes));
    return output;
  }
  if (job.output() != proto::JobOutput::Artifact) {
    TRY_ASSIGN(const std::string text, compiler::Explain(graph, StageOf(job.output()), options));
    output.bytes.assign(text.begin(), text.end());
    output.digest = DigestOf(text);
    return output;
  }
  TRY_ASSIGN(compiler::Artifact artifact, compiler::Compile(graph, options));
  output.bytes = std::move(artifact.bytes);
  output.digest = artifact.digest;
  output.passes_s = artifact.seconds_passes;
  output.fusion_s = artifact.seconds_fusion;
  output.codegen_s = artifact.seconds_codegen;
  output.link_s = artifact.seconds_link;
  output.proof_s = artifact.seconds_proof;
  return output;
}

int Main(int count, char** values) {
  const Result<WorkerArguments> arguments = ParseWorkerArguments(count, values);
  if (!arguments) {
    fmt::print(stderr, "ingot-worker: {}\n", arguments.error().ToText());
    return static_cast<int>(arguments.error().code());
  }
  ConfineWorker(*arguments);
  Result<compiler::TargetSpec> target = compiler::TargetSpec::Host();
  if (!target) {
    fmt::print(stderr, "ingot-worker: {}\n", target.error().ToText());
    return static_cast<int>(target.error().code());
  }
  if (std::getenv("INGOT_CHECKED_ACCESSES") != nullptr) {
    target->checks_accesses = true;
    target->features.push_back("checked-accesses");
  }
  const CompilerFacts facts{compiler::CompilerIdentity(), target->level, target->features};
  const auto warm_up = [&target] {
    const Result<std::unique_ptr<compiler::Target>> made = compiler::Target::Make(*target);
    if (made) Ignore(compiler::WarmUp(**made), "a compile that needs it makes it, or says why not");
  };
  return ServeJobs(
      *arguments, facts, [&target](const proto::WorkerJob& job) { return CompileText(job, *target); }, warm_up);
}

}  // namespace
}  // namespace ingot::daemon

int main(int count, char** values) { return ingot::daemon::Main(count, values); }
