// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/worker_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/processors.h"
#include "daemon/compile/sandbox.h"
#include "proto/frame.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

/// The daemon kills a worker that keeps it waiting, and a worker whose daemon is gone is killed by the kernel.
const auto kAsLongAsTheDaemonLives = proto::Deadline::Never();

// Half of what makes the kernel choose a process whatever its size.
constexpr int kOomScore = 500;
// The linker has each kernel of a graph open at once.
constexpr uint64_t kDescriptorsMax = 4096;

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

/// The process's memory, through a file that is opened before nothing can be opened any more.
class Statm {
 public:
  uint64_t ResidentBytes() const {
    char text[64] = {};
    if (pread(fd_.get(), text, sizeof text - 1, 0) <= 0) return 0;
    uint64_t total = 0;
    uint64_t resident = 0;
    std::istringstream(text) >> total >> resident;
    return resident * page_bytes_;
  }

 private:
  const UniqueFd fd_{open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};
  const uint64_t page_bytes_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
};

void Limit(int resource, uint64_t value) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

Status SendHello(int socket, const CompilerFacts& facts, const SandboxTroubles& sandbox) {
  proto::WorkerHelloT hello;
  hello.compiler = facts.identity;
  hello.level = facts.level;
  hello.features = facts.features;
  hello.sandbox.assign(sandbox.begin(), sandbox.end());
  const Buffer body = proto::PackMessage<proto::WorkerHello>(hello);
  return proto::SendFrame(socket, {.type = static_cast<uint16_t>(proto::WorkerMessage::Hello)}, body,
                          kAsLongAsTheDaemonLives);
}

bool IsQuiet(int socket) {
  pollfd one{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) == 0;
}

Status SayTaken(int socket, uint32_t request) {
  return proto::SendFrame(socket, {.type = static_cast<uint16_t>(proto::WorkerMessage::Taken), .request = request},
                          proto::PackMessage<proto::WorkerTaken>(proto::WorkerTakenT()), kAsLongAsTheDaemonLives);
}

Status Answer(int socket, uint32_t request, Result<WorkerOutput> output, const Statm& statm) {
  proto::WorkerDoneT done;
  UniqueFd file;
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
      done.fusion_s = static_cast<float>(output->fusion_s);
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
  done.resident_bytes = statm.ResidentBytes();
  const Buffer body = proto::PackMessage<proto::WorkerDone>(done);
  return proto::SendFrame(socket, {.type = static_cast<uint16_t>(proto::WorkerMessage::Done), .request = request}, body,
                          kAsLongAsTheDaemonLives, descriptors);
}

}  // namespace

int ServeJobs(const WorkerArguments& arguments, const CompilerFacts& facts, const WorkerBody& body,
              const std::function<void()>& warm_up) {
  const int socket = arguments.socket;
  const Statm statm;
  SandboxTroubles sandbox;
  sandbox.fill("worker_sandbox is off");
  if (arguments.sandbox) sandbox = EnterSandbox();
  if (!SendHello(socket, facts, sandbox)) return 1;
  // The daemon may still open its store, and then reads what a client recorded.
  std::jthread warming;
  if (warm_up && !arguments.background && IsQuiet(socket)) warming = std::jthread(warm_up);
  while (true) {
    const Result<proto::Frame> frame = proto::ReceiveFrame(socket, kAsLongAsTheDaemonLives);
    if (!frame) return frame.error().code() == Code::kUnavailable ? 0 : 1;
    const uint32_t request = frame->header.request;
    const auto* job = proto::ReadMessage<proto::WorkerJob>(frame->body);
    if (job == nullptr || !SayTaken(socket, request)) return 1;
    LimitCpu(job->cpu_s_max());
    if (!Answer(socket, request, body(*job), statm)) return 1;
  }
}

void ConfineWorker(const WorkerArguments& arguments) {
  // A compile that nobody waits for must not outlive the daemon.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Of what the daemon's own starter set, nothing is meant for compiles.
  UseAllProcessors();
  const sched_param ordinary{};
  sched_setscheduler(0, arguments.background ? SCHED_IDLE : SCHED_OTHER, &ordinary);
  if (chdir("/") != 0) return;
  // Writing to a reader who is gone, or more than may be written, is an error like any other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Where memory runs out, a compile is what can be done again.
  std::ofstream("/proc/self/oom_score_adj") << kOomScore;
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_NOFILE, kDescriptorsMax);
  if (arguments.output_bytes_max != 0) Limit(RLIMIT_FSIZE, arguments.output_bytes_max);
  if (arguments.memory_bytes_max != 0) Limit(RLIMIT_AS, arguments.memory_bytes_max);
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
    } else if (whole && name == "--output-bytes") {
      out.output_bytes_max = number;
    } else if (whole && name == "--sandbox") {
      out.sandbox = number != 0;
    } else if (whole && name == "--background") {
      out.background = number != 0;
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
