// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/result.h"
#include "daemon/ports.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {

/// What a worker makes of one job.
struct WorkerOutput {
  Buffer bytes;
  Digest digest;
  double passes_s = 0, codegen_s = 0, link_s = 0, proof_s = 0;
};

using WorkerBody = std::function<Result<WorkerOutput>(const proto::WorkerJob&)>;

/// The worker's side of the pair: says hello, then answers jobs until the daemon closes its end.
/// Returns the exit status of the process.
int ServeJobs(int socket, const CompilerFacts& facts, const WorkerBody& body);

/// Ties this process to its parent and bounds its address space (0 = no bound).
void ConfineWorker(uint64_t memory_bytes_max);

/// `--socket N --memory-bytes N`; kInvalid otherwise.
struct WorkerArguments {
  int socket = -1;
  uint64_t memory_bytes_max = 0;
};
Result<WorkerArguments> ParseWorkerArguments(int count, char** values);

}  // namespace ingot::daemon
