// SPDX-License-Identifier: Apache-2.0
#include "tests/support/daemon/fake_compilers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/message.h"
#include "tests/support/daemon/fake_dot.h"

namespace ingot::daemon {
namespace {

/// The bytes of an artifact without code that asks this of its symbols.
std::string ArtifactWith(std::string conditions) {
  proto::ManifestT manifest;
  manifest.conditions = std::move(conditions);
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &manifest));
  return std::string(AsText(proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, {}, {}})));
}

/// The bytes of an artifact that names its graph and its recipe.
std::string ArtifactBy(const std::string& graph, const proto::RecipeT& recipe) {
  proto::ManifestT manifest;
  manifest.name = graph;
  manifest.provenance = std::make_unique<proto::ProvenanceT>();
  manifest.provenance->graph_proof = std::make_unique<proto::GraphProofT>();
  if (graph.find(" large") != std::string::npos) manifest.provenance->graph_proof->skipped = "it is large";
  if (!recipe.arenas.empty() || !recipe.choices.empty()) manifest.recipe = std::make_unique<proto::RecipeT>(recipe);
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &manifest));
  return std::string(AsText(proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, {}, {}})));
}

constexpr uint64_t kSlowKernel = 7;

/// Of the choices the one for the kernel that the graph has.
void KeepUsed(const std::string& graph, proto::RecipeT& recipe) {
  const bool is_slow = graph.find(" slow") != std::string::npos;
  std::erase_if(recipe.choices, [&](const auto& one) { return !is_slow || one->kernel_low != kSlowKernel; });
}

/// A layout of 64 bytes for each size that has none, and a schedule where the kernel has not been measured.
std::string FindingsOf(const CompileJob& job, proto::RecipeT recipe) {
  proto::FindingsT findings;
  std::vector<std::vector<int64_t>> sizes;
  if (!job.graph.starts_with("template")) sizes.emplace_back();
  for (const int64_t size : job.improve->sizes) sizes.push_back({size});
  const bool is_loose = job.graph.find(" loose") != std::string::npos;
  for (const std::vector<int64_t>& values : sizes) {
    const auto is_known = [&](const auto& one) { return one->values == values; };
    if (!is_loose || std::ranges::any_of(recipe.arenas, is_known)) continue;
    recipe.arenas.push_back(std::make_unique<proto::ArenaLayoutT>());
    recipe.arenas.back()->values = values;
    recipe.arenas.back()->bytes = 64;
    findings.arena_bytes_saved += 100;
  }
  const bool is_known = !job.improve->known.empty() && job.improve->known[0] == kSlowKernel;
  if (job.graph.find(" slow") != std::string::npos && !is_known) {
    auto& measured = *findings.measured.emplace_back(std::make_unique<proto::MeasuredT>());
    measured.kernel_low = kSlowKernel;
    measured.name = "product";
    measured.schedule = "tile 2";
    measured.candidates = 2;
    measured.first_ns = 1000;
    measured.best_ns = 900;
    auto& choice = *recipe.choices.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = kSlowKernel;
    choice.schedule = "tile 2";
  }
  KeepUsed(job.graph, recipe);
  findings.recipe = std::make_unique<proto::RecipeT>(std::move(recipe));
  return std::string(AsText(proto::PackMessage<proto::Findings>(findings)));
}

/// The kernel as a part of its own, where it is not known.
std::string ContestsOf(const CompileJob& job) {
  proto::ContestsT contests;
  const bool is_known = !job.improve->known.empty() && job.improve->known[0] == kSlowKernel;
  if (job.graph.find(" slow") != std::string::npos && !is_known) {
    auto& contest = *contests.contests.emplace_back(std::make_unique<proto::ContestT>());
    contest.kernel_low = kSlowKernel;
    contest.name = "product";
    contest.graph = job.graph.ends_with(" alone") ? "part" : "part slow";
    contest.sizes.push_back(std::make_unique<proto::ContestSizeT>());
    contest.sizes[0]->inputs.push_back(std::make_unique<proto::ContestInputT>());
    contest.sizes[0]->inputs[0]->dtype = "f32";
    contest.sizes[0]->inputs[0]->sizes = {4};
    contest.sizes[0]->inputs[0]->strides = {1};
  }
  return std::string(AsText(proto::PackMessage<proto::Contests>(contests)));
}

/// Right but where the graph says so.
std::string VerdictOf(const CompileJob& job) {
  proto::VerdictT verdict;
  verdict.proof = std::make_unique<proto::GraphProofT>();
  verdict.proof->sizes = 11;
  if (job.graph.find(" wrong") != std::string::npos) verdict.wrong = "proof of the graph: pass dce";
  return std::string(AsText(proto::PackMessage<proto::Verdict>(verdict)));
}

Result<CompiledArtifact> CompileWords(const CompileJob& job, const std::string& addition, double seconds) {
  const std::string& graph = job.graph;
  if (graph.find(" bad") != std::string::npos) return Error(Code::kUnsupported, "bad graph");
  if (graph.find(" crash") != std::string::npos) return Error(Code::kInternal, "died of signal 6");
  if (graph == "template halfbad") return Error(Code::kUnsupported, "bad template");
  if (!job.gears.empty() && graph.ends_with(" ungeared")) return Error(Code::kInternal, "no code for gears");
  const bool is_artifact = job.output == proto::JobOutput::Artifact;
  std::string bytes = (is_artifact ? "artifact" : proto::EnumNameJobOutput(job.output)) + (" of " + graph);
  if (job.output == proto::JobOutput::Dot) bytes = DotOfWords(graph);
  if (is_artifact && graph == "template from8") bytes = ArtifactWith("s0 >= 8");
  const proto::RecipeT recipe = job.recipe ? *job.recipe : proto::RecipeT();
  if (is_artifact && (graph.find(" loose") != std::string::npos || graph.find(" slow") != std::string::npos)) {
    proto::RecipeT used = recipe;
    KeepUsed(graph, used);
    bytes = ArtifactBy(graph, used);
  }
  if (job.output == proto::JobOutput::Findings) bytes = FindingsOf(job, recipe);
  if (job.output == proto::JobOutput::Contests) bytes = ContestsOf(job);
  if (job.output == proto::JobOutput::Verdict) bytes = VerdictOf(job);
  const bool is_found = job.output >= proto::JobOutput::Findings;
  if (!job.gears.empty()) bytes += fmt::format(" for {}", fmt::join(job.gears, " "));
  if (!is_found) bytes += addition;
  CompiledArtifact artifact;
  artifact.digest = DigestOf(bytes);
  artifact.seconds = seconds;
  TRY_ASSIGN(artifact.file, cache::SealedFile::Copy(AsBytes(bytes)));
  return artifact;
}

}  // namespace

FakeCompilers::FakeCompilers() : thread_([this] { Loop(); }) {}

bool FakeCompilers::Start(CompileJob job, Done done) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  ++started_;
  jobs_.emplace_back(std::move(job), std::move(done));
  changed_.NotifyAll();
  return true;
}

void FakeCompilers::Interrupt() {
  std::vector<std::pair<CompileJob, Done>> jobs;
  {
    MutexLock lock(mutex_);
    jobs.swap(jobs_);
  }
  for (auto& [job, done] : jobs) done(Error(Code::kCancelled, "it gave way"));
}

void FakeCompilers::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

size_t FakeCompilers::pending() const {
  MutexLock lock(mutex_);
  return jobs_.size();
}

void FakeCompilers::AddToArtifacts(std::string what) {
  MutexLock lock(mutex_);
  addition_ = std::move(what);
}

void FakeCompilers::SayTook(double seconds) {
  MutexLock lock(mutex_);
  seconds_ = seconds;
}

void FakeCompilers::CloseGate() {
  MutexLock lock(mutex_);
  open_ = false;
}

void FakeCompilers::OpenGate() {
  MutexLock lock(mutex_);
  open_ = true;
  changed_.NotifyAll();
}

void FakeCompilers::WaitForJob() {
  MutexLock lock(mutex_);
  while (jobs_.empty()) changed_.Wait(mutex_);
}

size_t FakeCompilers::started() const {
  MutexLock lock(mutex_);
  return started_;
}

void FakeCompilers::Loop() {
  while (true) {
    std::vector<std::pair<CompileJob, Done>> jobs;
    bool stopping;
    std::string addition;
    double seconds;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (jobs_.empty() || !open_)) changed_.Wait(mutex_);
      jobs.swap(jobs_);
      stopping = stopping_;
      addition = addition_;
      seconds = seconds_;
    }
    for (auto& [job, done] : jobs) {
      if (stopping) {
        done(Error(Code::kCancelled, "the daemon stops"));
      } else {
        done(CompileWords(job, addition, seconds));
      }
    }
    if (stopping) return;
  }
}

}  // namespace ingot::daemon
