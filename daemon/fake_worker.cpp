// SPDX-License-Identifier: Apache-2.0
// A worker that does what its graph says, for tests of the pool.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "daemon/worker_loop.h"

namespace {

using namespace ingot;

Result<daemon::WorkerOutput> Obey(const proto::WorkerJob& job) {
  const std::string graph = job.graph()->str();
  if (graph.find(" abort") != std::string::npos) std::abort();
  if (graph.find(" exit") != std::string::npos) _exit(7);
  if (graph.find(" hang") != std::string::npos) pause();
  if (graph.find(" bad") != std::string::npos) return Error(Code::kUnsupported, "bad graph");
  const std::string bytes = "artifact of " + graph;
  daemon::WorkerOutput output;
  output.bytes.assign(bytes.begin(), bytes.end());
  output.digest = DigestOf(bytes);
  output.codegen_s = 0.25;
  return output;
}

}  // namespace

int main(int count, char** values) {
  const auto arguments = daemon::ParseWorkerArguments(count, values);
  if (!arguments) return 2;
  daemon::ConfineWorker(arguments->memory_bytes_max);
  return daemon::ServeJobs(arguments->socket, {"fake 1", "x86-64-v3", {"avx2", "fma"}}, Obey);
}
