// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "daemon/ports.h"
#include "proto/frame.h"

namespace ingot::daemon {

struct WorkerLimits {
  uint64_t memory_bytes_max = 0;
  uint64_t wall_s_max = 300;
  uint64_t cpu_s_max = 0;
  uint64_t start_s_max = 20;
  uint64_t threads = 0;
  uint64_t prove_ms_max = 50;
};

/// One compile process. It is killed when this goes; it holds nothing that is worth saving.
/// Belongs to one thread at a time, except Kill().
class WorkerProcess {
 public:
  /// Starts `program` and waits for its hello. kUnavailable says why it did not come.
  static Result<std::unique_ptr<WorkerProcess>> Start(const std::string& program,
                                                      const WorkerLimits& limits);
  ~WorkerProcess();

  const CompilerFacts& facts() const { return facts_; }
  pid_t pid() const { return pid_; }
  /// kInternal: the process died (how is in the message); kTimeout: it was stopped.
  Result<CompiledArtifact> Run(const CompileJob& job);
  /// Whether it died before it was given a job: the next one has the answer instead.
  bool IsAlive();
  /// False after a death or a timeout.
  bool usable() const { return usable_; }
  uint64_t jobs() const { return jobs_; }
  uint64_t resident_bytes() const { return resident_bytes_; }
  /// Ends the process from any thread; a Run in progress ends.
  void Kill();

 private:
  WorkerProcess() = default;
  Status ReadHello();
  Error DeathReport();

  pid_t pid_ = -1;
  proto::UniqueFd socket_;
  WorkerLimits limits_;
  CompilerFacts facts_;
  bool usable_ = true;
  uint64_t jobs_ = 0;
  uint64_t resident_bytes_ = 0;
};

}  // namespace ingot::daemon
