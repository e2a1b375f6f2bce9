// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "daemon/compile/sandbox.h"
#include "daemon/state/config.h"
#include "daemon/state/ports.h"
#include "proto/frame.h"

namespace ingot::daemon {

/// What the configuration says of a worker. Zero is no limit where the field says so.
struct WorkerLimits {
  explicit WorkerLimits(const Config& config, bool background = false);

  uint64_t memory_bytes_max, output_bytes_max;
  uint64_t start_s_max, accept_s_max, wall_s_max, cpu_s_max;
  uint64_t threads, prove_ms_max;
  SandboxMode sandbox;
  bool background;
};

/// One compile process. It is killed, with what it started, when this goes; it holds nothing that is worth saving.
/// Whatever it does, no call here takes longer than its limit, and nothing that it sends is used before it was checked.
/// Belongs to one thread at a time, except Kill().
class WorkerProcess {
 public:
  /// Starts `program` with a socket, standard output that goes nowhere and the caller's standard error, and no other
  /// descriptor. The process dies with the calling thread. kUnavailable, kExhausted: there is none.
  static Result<std::unique_ptr<WorkerProcess>> Spawn(const std::string& program, const WorkerLimits& limits);
  ~WorkerProcess();

  /// Waits for its hello, once, before the first Run. kUnavailable says why it did not come or is not enough.
  Status Greet();
  /// kTimeout: it took too long and was stopped; kInternal: the process died or sent what cannot be used (how is in the
  /// message); else the compiler's own answer.
  Result<CompiledArtifact> Run(const CompileJob& job);
  /// Whether the last job arrived in the process: one that did not had no part in the error.
  bool took_job() const { return took_job_; }
  /// Whether it died before it was given a job: the next one has the answer instead.
  bool IsAlive();
  /// False after a death, a timeout or an answer that cannot be used.
  bool usable() const { return usable_; }
  /// Ends a Greet or Run in progress, and the process with it. Any thread, as long as this lives.
  void Kill();

  const CompilerFacts& facts() const { return facts_; }
  const SandboxTroubles& sandbox() const { return sandbox_; }
  pid_t pid() const { return pid_; }
  uint64_t jobs() const { return jobs_; }
  uint64_t resident_bytes() const { return resident_bytes_; }

 private:
  explicit WorkerProcess(const WorkerLimits& limits) : limits_(limits) {}
  Status ReadHello();
  Result<proto::Frame> Receive(proto::WorkerMessage type, proto::Deadline deadline);
  Result<CompiledArtifact> ReadAnswer(proto::Frame frame);
  Error Lose(const Error& reason, const std::string& limit);
  Error DeathReport();

  const WorkerLimits limits_;
  pid_t pid_ = -1;
  UniqueFd socket_;
  CompilerFacts facts_;
  SandboxTroubles sandbox_;
  bool usable_ = true;
  bool took_job_ = false;
  uint64_t jobs_ = 0;
  uint64_t resident_bytes_ = 0;
};

}  // namespace ingot::daemon
