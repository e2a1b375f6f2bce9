// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parallel_for.h"
#include "compiler/choices.h"
#include "compiler/lowered_graph.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/arena.h"
#include "compiler/proof/prove_fusion.h"
#include "compiler/proof/samples.h"
#include "compiler/proof/sizes.h"
#include "compiler/prove.h"
#include "compiler/prove_meaning.h"
#include "compiler/stopwatch.h"
#include "kernels/abi.h"
#include "proto/artifact_file.h"

namespace ingot::compiler {
namespace {

// A few short rows of a kernel; nobody waits for kernels of single gears.
constexpr uint64_t kProofOfSpecial_ms = 2;

// What code of a level may use; features beyond it are in the key but not needed to run.
std::vector<std::string> FeaturesOf(const TargetSpec& target, std::span<const Object> objects) {
  std::vector<std::string> features = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "popcnt"};
  if (target.level == "x86-64-v4") {
    features.insert(features.end(), {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"});
  }
  for (const Object& object : objects) features.insert(features.end(), object.features.begin(), object.features.end());
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

// Constants in the order of the plan, each where its spec says.
Buffer ConstantsOf(const Graph& graph, const proto::ManifestT& plan) {
  Buffer bytes;
  size_t next = 0;
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::kConstant) continue;
    bytes.resize(plan.constants[next++]->offset);
    bytes.insert(bytes.end(), input.data.begin(), input.data.end());
  }
  return bytes;
}

Buffer ManifestBytes(const proto::ManifestT& plan) {
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &plan));
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

void NoteProof(const FusionProof& fusion, proto::ProvenanceT& provenance) {
  for (const LaunchProof& launch : fusion.launches) {
    auto proof = std::make_unique<proto::LaunchProofT>();
    proof->kernel = launch.kernel;
    proof->sizes = launch.sizes;
    proof->elements = launch.elements;
    proof->skipped = launch.skipped;
    provenance.launch_proofs.push_back(std::move(proof));
  }
}

/// Launches of machine code that the runner has, on any thread. It outlives none of these.
LaunchKernel LaunchBy(Runner& runner, const Fused& fused, std::span<const Object> objects) {
  return [&runner, &fused, objects](uint32_t number, std::span<void* const> buffers,
                                    std::span<const int64_t> symbols) -> Status {
    const Object& object = objects[number];
    const Memory scratch = Zeros(static_cast<size_t>(std::max<int64_t>(0, object.launch.scratch_bytes.Eval(symbols))));
    if (!scratch) return Error(Code::kExhausted, "no memory");
    const IngotCallFrame frame = {buffers.data(), symbols.data(), 0, object.launch.Tasks(symbols), scratch.get()};
    TRY_ASSIGN(const int32_t status, runner.Run(object.symbol, frame));
    if (status == INGOT_KERNEL_OK) return {};
    return Error(Code::kInvalid, fmt::format("kernel {} gave status {}", fused.kernels[number].name, status));
  };
}

/// What runs the objects here; null, and why in `skipped`, where this machine cannot run them. Whatever else is in the
/// way leaves nothing proved that could have been, and is an error.
Result<std::unique_ptr<Runner>> RunnerOf(const Target& target, std::span<const Object> objects, std::string& skipped) {
  if (objects.empty()) return std::unique_ptr<Runner>();
  Result<std::unique_ptr<Runner>> runner = target.Load(objects);
  if (runner || runner.error().code() != Code::kUnsupported) return runner;
  skipped = runner.error().message();
  return std::unique_ptr<Runner>();
}

/// The code of all kernels, and beside it, in the time of cores that have no kernel to make code of, what needs none:
/// kernels are held against the nodes that they stand for.
Result<std::vector<Object>> EmitAndProveFusion(const LoweredGraph& lowered, const CompileOptions& options,
                                               std::span<const loop::Schedule> schedules, const TriedSizes& tried,
                                               FusionProof& proof, Artifact& artifact) {
  Result<std::vector<Object>> objects = std::vector<Object>();
  Result<FusionProof> proved = FusionProof();
  ParallelFor(options.prove ? 2 : 1, options.threads, [&](size_t what) {
    const Stopwatch time;
    if (what == 0) {
      objects = EmitAll(*lowered.target, lowered.fused.kernels, schedules, options.threads);
      artifact.seconds_codegen = time.Seconds();
    } else {
      proved = ProveFusion(lowered.graph, lowered.fused, tried.All(), options.prove_ms_max * kWorkInMillisecond,
                           options.threads);
      artifact.seconds_proof = time.Seconds();
    }
  });
  if (!objects) return objects;
  TRY_ASSIGN(proof, std::move(proved));
  return objects;
}

/// Holds the code against the interpreter, and the plan against the graph; by what the interpreter makes of the kernels
/// where this machine cannot run their code.
Status Prove(const Graph& graph, const LoweredGraph& lowered, const CompileOptions& options, const TriedSizes& tried,
             std::span<const Object> objects, std::span<const NodeId> nodes, proto::ManifestT& plan) {
  const Fused& fused = lowered.fused;
  std::string skipped;
  TRY_ASSIGN(const std::unique_ptr<Runner> runner, RunnerOf(*lowered.target, objects, skipped));
  ProofReport report;
  report.kernels.assign(fused.kernels.size(), KernelProof{.skipped = skipped});
  if (runner != nullptr) {
    const uint64_t proof_ms = options.prove_ms_max + fused.specials.size() * kProofOfSpecial_ms;
    TRY_ASSIGN(report, ProveKernels(*runner, fused, objects, proof_ms * kWorkInMillisecond, options.threads));
  }
  plan.provenance->proof_seed = report.seed;
  plan.provenance->proof_kernels = report.proved;
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    auto proof = std::make_unique<proto::KernelProofT>();
    proof->kernel = fused.kernels[i].name;
    proof->rows = static_cast<uint64_t>(report.kernels[i].rows);
    proof->rows_run = static_cast<uint64_t>(report.kernels[i].rows_run);
    proof->skipped = report.kernels[i].skipped;
    plan.provenance->proofs.push_back(std::move(proof));
  }
  if (runner == nullptr) return ProveMeaning(graph, lowered, options, tried, nodes, {}, plan);
  for (const Object& object : objects) TRY(runner->Add(object));
  return ProveMeaning(graph, lowered, options, tried, nodes, LaunchBy(*runner, fused, objects), plan);
}

}  // namespace

Result<Artifact> Compile(const Graph& graph, const CompileOptions& options) {
  TRY_ASSIGN(const LoweredGraph lowered, LowerGraph(graph, options));
  const Fused& fused = lowered.fused;
  const Target& target = *lowered.target;
  Artifact artifact;
  artifact.seconds_passes = lowered.seconds_passes;
  artifact.seconds_fusion = lowered.seconds_fusion;

  const proto::RecipeT recipe = options.recipe ? *options.recipe : proto::RecipeT();
  KernelChoices choices = CopyOf(lowered.by_library);
  const std::vector<loop::Schedule> schedules = ChosenSchedules(target, fused.kernels, recipe.choices, choices);
  const TriedSizes tried = options.prove ? SizesToTry(graph, lowered.conditions) : TriedSizes();
  FusionProof fusion;
  TRY_ASSIGN(const std::vector<Object> objects,
             EmitAndProveFusion(lowered, options, schedules, tried, fusion, artifact));

  const Stopwatch link;
  Buffer code;
  if (!objects.empty()) {
    TRY_ASSIGN(code, target.Link(objects));
  }
  artifact.seconds_link = link.Seconds();

  std::vector<NodeId> nodes;
  TRY_ASSIGN(proto::ManifestT plan, PlanOf(lowered, objects, &nodes));
  TRY(AddArenas(recipe.arenas, plan));
  if (!choices.empty()) {
    if (!plan.recipe) plan.recipe = std::make_unique<proto::RecipeT>();
    plan.recipe->choices = std::move(choices);
  }
  plan.provenance->compiler = CompilerIdentity();
  plan.provenance->target = options.target.level;
  for (const PatternUse& use : lowered.uses) {
    plan.provenance->patterns.push_back(std::make_unique<proto::PatternUseT>());
    proto::PatternUseT& said = *plan.provenance->patterns.back();
    said.name = use.name;
    said.replaced = use.replaced;
    said.why = use.why;
  }
  if (!objects.empty()) plan.provenance->features = FeaturesOf(options.target, objects);
  if (options.prove) {
    const Stopwatch proof;
    TRY(Prove(graph, lowered, options, tried, objects, nodes, plan));
    NoteProof(fusion, *plan.provenance);
    artifact.seconds_proof += proof.Seconds();
  }
  const Buffer manifest = ManifestBytes(plan);
  const Buffer constants = ConstantsOf(lowered.graph, plan);
  const bool has_atoms =
      std::ranges::any_of(plan.dims, [](const auto& dim) { return !dim->atoms.empty(); }) ||
      std::ranges::any_of(lowered.conditions.guards(), [](const auto& guard) { return guard.value.HasAtoms(); });
  const bool has_memories = std::ranges::any_of(
      plan.steps, [](const auto& step) { return step->kind == proto::StepKind::Aten && !step->buffers.empty(); });
  artifact.bytes = proto::PackArtifact({manifest, code, constants, has_memories ? 3u : has_atoms ? 2u : 1u});
  artifact.digest = DigestOf(Bytes(artifact.bytes));
  return artifact;
}

std::string CompilerIdentity() {
  std::string text = fmt::format("ingot compiler; abi {}; {}; passes", INGOT_KERNEL_ABI_VERSION, TargetsIdentity());
  for (const std::string& name : DefaultPipeline().Names()) text += " " + name;
  return text;
}

}  // namespace ingot::compiler
