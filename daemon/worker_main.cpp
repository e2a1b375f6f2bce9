// SPDX-License-Identifier: Apache-2.0
// ingot-worker: compiles graphs for ingotd, so that a compiler crash is an error and no outage.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "compiler/compile.h"
#include "compiler/explain.h"
#include "compiler/ir/text.h"
#include "daemon/worker_loop.h"

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

/// The gears of a job, one list of values each.
Result<std::vector<std::vector<int64_t>>> GearsOf(const proto::WorkerJob& job, size_t symbol_count) {
  std::vector<std::vector<int64_t>> gears;
  const size_t count = job.gears() == nullptr ? 0 : job.gears()->size();
  if (count != 0 && (symbol_count == 0 || count % symbol_count != 0)) {
    return Error(Code::kInvalid, fmt::format("{} sizes of gears for {} symbols", count, symbol_count));
  }
  for (size_t at = 0; at < count; at += symbol_count) {
    gears.emplace_back(job.gears()->begin() + static_cast<long>(at),
                       job.gears()->begin() + static_cast<long>(at + symbol_count));
  }
  return gears;
}

Result<WorkerOutput> CompileText(const proto::WorkerJob& job, const compiler::TargetSpec& target) {
  TRY_ASSIGN(const compiler::Graph graph, compiler::Parse(job.graph()->string_view()));
  compiler::CompileOptions options;
  options.target = target;
  options.threads = job.threads();
  options.prove_ms_max = job.prove_ms_max();
  options.prove = job.prove_ms_max() != 0;
  TRY_ASSIGN(options.gears, GearsOf(job, graph.symbols.size()));
  WorkerOutput output;
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
  return ServeJobs(*arguments, facts, [&target](const proto::WorkerJob& job) { return CompileText(job, *target); });
}

}  // namespace
}  // namespace ingot::daemon

int main(int count, char** values) { return ingot::daemon::Main(count, values); }
