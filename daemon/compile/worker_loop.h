// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/result.h"
#include "daemon/state/ports.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {

/// What a worker makes of one job.
struct WorkerOutput {
  Buffer bytes;
  Digest digest;
  double passes_s = 0, fusion_s = 0, codegen_s = 0, link_s = 0, proof_s = 0;
};

using WorkerBody = std::function<Result<WorkerOutput>(const proto::WorkerJob&)>;

/// What the daemon tells a worker when it starts it: `--socket N --memory-bytes N --output-bytes N --sandbox 0|1
/// --background 0|1`.
struct WorkerArguments {
  int socket = -1;
  uint64_t memory_bytes_max = 0;  ///< Address space; 0 = no bound.
  uint64_t output_bytes_max = 0;  ///< Each file it writes; 0 = no bound.
  bool sandbox = true;
  bool background = false;  ///< Nobody waits for its jobs: it runs where nothing else does.
};
/// kInvalid names the argument that it cannot read.
Result<WorkerArguments> ParseWorkerArguments(int count, char** values);

/// Makes this process one that ends with its parent, has the limits of `arguments` and runs as an ordinary program does
/// on any processor, however the daemon was started. First of all.
void ConfineWorker(const WorkerArguments& arguments);

/// The worker's side of the pair: enters the sandbox, says hello, then answers jobs until the daemon closes its end.
/// What `body` needs must be loaded, and no thread started. `warm_up` runs beside it where no job waits yet. Returns
/// the exit status of the process.
int ServeJobs(const WorkerArguments& arguments, const CompilerFacts& facts, const WorkerBody& body,
              const std::function<void()>& warm_up = {});

}  // namespace ingot::daemon
