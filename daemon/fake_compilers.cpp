// SPDX-License-Identifier: Apache-2.0
#include "daemon/fake_compilers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/fake_dot.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

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
  if (!job.gears.empty()) bytes += fmt::format(" for {}", fmt::join(job.gears, " "));
  bytes += addition;
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
