// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_loop.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <fstream>
#include <string_view>

#include "proto/message.h"
#include "proto/frame.h"

namespace ingot::daemon {
namespace {

/// The daemon kills a worker that keeps it waiting, and a worker whose daemon is gone is killed by the kernel.
const auto kAsLongAsTheDaemonLives = proto::Deadline::Never();

/// RLIMIT_CPU counts from the start of the process; a worker does many jobs.
void LimitCpu(uint32_t seconds) {
  if (seconds == 0) return;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  rlimit limit{};
  getrlimit(RLIMIT_CPU, &limit);
  limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds + 1;
  setrlimit(RLIMIT_CPU, &limit);
}

uint64_t ResidentBytes() {
  uint64_t total = 0;
  uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Status SendHello(int socket, const CompilerFacts& facts) {
  proto::WorkerHelloT hello;
  hello.compiler = facts.identity;
  hello.level = facts.level;
  hello.features = facts.features;
  const Buffer body = proto::PackMessage<proto::WorkerHello>(hello);
  return proto::SendFrame(socket, {.type = static_cast<uint16_t>(proto::WorkerMessage::Hello)}, body,
                          kAsLongAsTheDaemonLives);
}

Status Answer(int socket, uint32_t request, Result<WorkerOutput> output) {
  proto::WorkerDoneT done;
  proto::UniqueFd file;
  std::vector<int> descriptors;
  if (output) {
    auto sealed = proto::MakeSealedMemory("ingot-artifact", output->bytes);
    if (sealed) {
      file = std::move(sealed).value();
      descriptors.push_back(file.get());
      done.artifact_low = output->digest.low;
      done.artifact_high = output->digest.high;
      done.artifact_bytes = output->bytes.size();
      done.passes_s = static_cast<float>(output->passes_s);
      done.codegen_s = static_cast<float>(output->codegen_s);
      done.link_s = static_cast<float>(output->link_s);
      done.proof_s = static_cast<float>(output->proof_s);
    } else {
      output = std::move(sealed).error();
    }
  }
  if (!output) {
    done.code = static_cast<uint8_t>(output.error().code());
    done.message = output.error().message();
  }
  done.resident_bytes = ResidentBytes();
  const Buffer body = proto::PackMessage<proto::WorkerDone>(done);
  return proto::SendFrame(
      socket, {.type = static_cast<uint16_t>(proto::WorkerMessage::Done), .request = request}, body,
      kAsLongAsTheDaemonLives, descriptors);
}

}  // namespace

int ServeJobs(int socket, const CompilerFacts& facts, const WorkerBody& body) {
  if (!SendHello(socket, facts)) return 1;
  while (true) {
    const Result<proto::Frame> frame = proto::ReceiveFrame(socket, kAsLongAsTheDaemonLives);
    if (!frame) return frame.error().code() == Code::kUnavailable ? 0 : 1;
    const auto* job = proto::ReadMessage<proto::WorkerJob>(frame->body);
    if (job == nullptr) return 1;
    LimitCpu(job->cpu_s_max());
    if (!Answer(socket, frame->header.request, body(*job))) return 1;
  }
}

void ConfineWorker(uint64_t memory_bytes_max) {
  // A compile that nobody waits for must not outlive the daemon.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (memory_bytes_max != 0) {
    const rlimit memory{memory_bytes_max, memory_bytes_max};
    setrlimit(RLIMIT_AS, &memory);
  }
}

Result<WorkerArguments> ParseWorkerArguments(int count, char** values) {
  WorkerArguments out;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = values[i];
    const std::string_view text = values[i + 1];
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && name == "--socket") {
      out.socket = static_cast<int>(number);
    } else if (whole && name == "--memory-bytes") {
      out.memory_bytes_max = number;
    } else {
      return Error(Code::kInvalid, fmt::format("unknown argument '{} {}'", name, text));
    }
  }
  if (out.socket < 0) {
    return Error(Code::kInvalid, "ingot-worker is started by ingotd: it needs --socket");
  }
  return out;
}

}  // namespace ingot::daemon
