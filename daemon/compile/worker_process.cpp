// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/start_program.h"
#include "daemon/state/artifacts.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

constexpr int kWorkerSocket = 3;
// Its messages are a few names or an error's text; artifacts are files.
constexpr uint32_t kAnswerBytesMax = 1 << 20;

Code CodeOf(uint8_t number) {
  const bool known = number >= static_cast<uint8_t>(Code::kInvalid) && number <= static_cast<uint8_t>(Code::kInternal);
  return known ? static_cast<Code>(number) : Code::kInternal;
}

// Compiling takes what the programs that it is for leave over. Where the kernel shares time between
// sessions first, the session's own number counts.
constexpr int kNice = 10;
constexpr int kNiceInBackground = 19;

void LowerWorker(pid_t worker, bool background) {
  const int nice = background ? kNiceInBackground : kNice;
  setpriority(PRIO_PROCESS, static_cast<id_t>(worker), nice);
  std::ofstream(fmt::format("/proc/{}/autogroup", worker)) << nice;
}

/// What a compiler has use for; the rest is the daemon's own, credentials among it.
std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> kept;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry = *at;
    for (const std::string_view start :
         {"INGOT_CHECKED_ACCESSES=", "LD_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_", "MALLOC_", "GLIBC_", "LLVM_"}) {
      if (entry.starts_with(start)) kept.emplace_back(entry);
    }
  }
  return kept;
}

Result<pid_t> SpawnProgram(const std::string& path, int socket, const WorkerLimits& limits) {
  Program program;
  program.path = path;
  program.arguments = {"--socket",       std::to_string(kWorkerSocket),
                       "--memory-bytes", std::to_string(limits.memory_bytes_max),
                       "--output-bytes", std::to_string(limits.output_bytes_max),
                       "--sandbox",      limits.sandbox == SandboxMode::kOff ? "0" : "1",
                       "--background",   limits.background ? "1" : "0"};
  program.environment = WorkerEnvironment();
  // The daemon's own errors go on to where they went; there may be none.
  program.descriptors = {-1, -1, fcntl(STDERR_FILENO, F_GETFD) == -1 ? -1 : STDERR_FILENO, socket};
  const Result<pid_t> pid = StartProgram(program);
  // One that is not there may be there the next time: it is being installed.
  if (!pid) return Error(Code::kUnavailable, pid.error().message());
  LowerWorker(*pid, limits.background);
  return pid;
}

/// Killed processes whose end the kernel put off (it waits for a disk or a driver, say): they are children until
/// somebody has asked for their end.
class Unreaped {
 public:
  void Add(pid_t pid) {
    MutexLock lock(mutex_);
    pids_.push_back(pid);
  }
  void Retry() {
    MutexLock lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  }
  static Unreaped& Get() {
    static Unreaped unreaped;
    return unreaped;
  }

 private:
  Mutex mutex_;
  std::vector<pid_t> pids_ GUARDED_BY(mutex_);
};

/// Kills a worker with its process group and returns how it ended; nothing when it had not within a second or two: it
/// then ends by itself.
std::optional<int> KillAndReap(pid_t pid) {
  Unreaped::Get().Retry();
  kill(-pid, SIGKILL);
  auto pause = std::chrono::microseconds(100);
  for (const auto deadline = proto::Deadline::AfterS(2); !deadline.passed();) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, std::chrono::milliseconds(20));
  }
  LogWarn("left a worker that does not end", {{"worker", pid}});
  Unreaped::Get().Add(pid);
  return std::nullopt;
}

}  // namespace

WorkerLimits::WorkerLimits(const Config& config, bool background)
    : memory_bytes_max(config.worker_memory_bytes_max),
      output_bytes_max(config.worker_output_bytes_max),
      start_s_max(config.worker_start_s_max),
      accept_s_max(config.worker_accept_s_max),
      wall_s_max(config.worker_wall_s_max),
      cpu_s_max(config.worker_cpu_s_max),
      threads(config.worker_threads),
      prove_ms_max(config.prove_ms_max),
      background(background) {
  // The daemon does not start with another text; should one come here, the strictest meaning is the safe one.
  const auto mode = ParseSandboxMode(config.worker_sandbox);
  sandbox = mode ? *mode : SandboxMode::kRequired;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Spawn(const std::string& program, const WorkerLimits& limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error(Code::kExhausted, fmt::format("socket pair: {}", std::strerror(errno)));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(limits));
  worker->socket_ = UniqueFd(ends[0]);
  const UniqueFd child_end(ends[1]);
  TRY_ASSIGN(worker->pid_, SpawnProgram(program, child_end.get(), limits));
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) KillAndReap(pid_);
}

void WorkerProcess::Kill() {
  // Closing our side ends a Run; who ran it kills and reaps the process, so that the number cannot
  // name another one here.
  shutdown(socket_.get(), SHUT_RDWR);
}

/// The next frame of a type, for the job that runs.
Result<proto::Frame> WorkerProcess::Receive(proto::WorkerMessage type, proto::Deadline deadline) {
  TRY_ASSIGN(proto::Frame frame, proto::ReceiveFrame(socket_.get(), deadline, kAnswerBytesMax));
  if (frame.header.type == static_cast<uint16_t>(type) && frame.header.request == jobs_) return frame;
  return Error(Code::kCorrupt, fmt::format("message {} for job {} where {} for job {} was due", frame.header.type,
                                           frame.header.request, static_cast<uint16_t>(type), jobs_));
}

Status WorkerProcess::ReadHello() {
  Result<proto::Frame> frame = Receive(proto::WorkerMessage::Hello, proto::Deadline::AfterS(limits_.start_s_max));
  if (!frame) {
    return Lose(frame.error(), fmt::format("it said nothing within {} s (worker_start_s_max)", limits_.start_s_max));
  }
  const auto* hello = proto::ReadMessage<proto::WorkerHello>(frame->body);
  if (hello == nullptr) return Lose(Error(Code::kCorrupt, "its first message is not a hello"), "");
  facts_.identity = hello->compiler()->str();
  facts_.level = hello->level()->str();
  if (hello->features() != nullptr) {
    for (const auto* feature : *hello->features()) facts_.features.push_back(feature->str());
  }
  sandbox_.fill("not told");
  if (hello->sandbox() != nullptr && hello->sandbox()->size() == sandbox_.size()) {
    for (uint32_t i = 0; i < sandbox_.size(); ++i) sandbox_[i] = hello->sandbox()->Get(i)->str();
  }
  if (limits_.sandbox == SandboxMode::kRequired) return CheckClosed(sandbox_);
  return {};
}

Status WorkerProcess::Greet() {
  Status hello = ReadHello();
  if (hello) return {};
  usable_ = false;
  return Error(Code::kUnavailable, hello.error().message());
}

bool WorkerProcess::IsAlive() {
  pollfd state{socket_.get(), POLLIN, 0};
  return poll(&state, 1, 0) == 0;
}

/// The process is of no use any more: kills it and says why, `limit` when it took too long.
Error WorkerProcess::Lose(const Error& reason, const std::string& limit) {
  if (reason.code() == Code::kUnavailable) return DeathReport();
  Ignore(Status(DeathReport()), "it was alive until now");
  if (reason.code() == Code::kTimeout) return Error(Code::kTimeout, limit);
  return Error(Code::kInternal, fmt::format("the compile process sent what cannot be used: {}", reason.message()));
}

Error WorkerProcess::DeathReport() {
  usable_ = false;
  const std::optional<int> ended = KillAndReap(pid_);
  pid_ = -1;
  if (!ended) return Error(Code::kInternal, "the compile process hangs in the kernel");
  const int status = *ended;
  if (WIFEXITED(status)) {
    return Error(Code::kInternal, fmt::format("the compile process ended with status {}", WEXITSTATUS(status)));
  }
  const int signal = WTERMSIG(status);
  const char* hint = signal == SIGXCPU   ? "; its CPU time was used up (worker_cpu_s_max)"
                     : signal == SIGKILL ? "; it was stopped, perhaps for lack of memory"
                                         : "";
  return Error(Code::kInternal,
               fmt::format("the compile process died of signal {} ({}){}", signal, strsignal(signal), hint));
}

Result<CompiledArtifact> WorkerProcess::Run(const CompileJob& job) {
  ++jobs_;
  took_job_ = false;
  proto::WorkerJobT message;
  message.graph = job.graph;
  message.threads = static_cast<uint32_t>(limits_.threads);
  message.prove_ms_max = static_cast<uint32_t>(limits_.prove_ms_max);
  message.cpu_s_max = static_cast<uint32_t>(limits_.cpu_s_max);
  message.output = job.output;
  message.gears = job.gears;
  if (job.recipe) message.recipe = std::make_unique<proto::RecipeT>(*job.recipe);
  if (job.improve) message.improve = std::make_unique<proto::ImproveT>(*job.improve);
  const proto::FrameHeader header{.type = static_cast<uint16_t>(proto::WorkerMessage::Job),
                                  .request = static_cast<uint32_t>(jobs_)};
  const auto accept = proto::Deadline::AfterS(limits_.accept_s_max);
  const std::string not_taken =
      fmt::format("the compile process took no job within {} s (worker_accept_s_max)", limits_.accept_s_max);
  if (Status sent = proto::SendFrame(socket_.get(), header, proto::PackMessage<proto::WorkerJob>(message), accept);
      !sent) {
    return Lose(sent.error(), not_taken);
  }
  if (auto taken = Receive(proto::WorkerMessage::Taken, accept); !taken) return Lose(taken.error(), not_taken);
  took_job_ = true;
  Result<proto::Frame> frame = Receive(proto::WorkerMessage::Done, proto::Deadline::AfterS(limits_.wall_s_max));
  if (!frame) {
    return Lose(frame.error(),
                fmt::format("the compile took longer than {} s (worker_wall_s_max)", limits_.wall_s_max));
  }
  return ReadAnswer(std::move(frame).value());
}

Result<CompiledArtifact> WorkerProcess::ReadAnswer(proto::Frame frame) {
  const auto* done = proto::ReadMessage<proto::WorkerDone>(frame.body);
  if (done == nullptr) return Lose(Error(Code::kCorrupt, "the message does not verify"), "");
  resident_bytes_ = done->resident_bytes();
  if (done->code() != 0) {
    return Error(CodeOf(done->code()), done->message() == nullptr ? "" : done->message()->str());
  }
  if (frame.descriptors.size() != 1) {
    return Lose(Error(Code::kCorrupt, fmt::format("{} files with an answer", frame.descriptors.size())), "");
  }
  CompiledArtifact artifact;
  artifact.digest = {done->artifact_low(), done->artifact_high()};
  const uint64_t bytes = done->artifact_bytes();
  const auto check = [&]() -> Status {
    if (bytes > limits_.output_bytes_max && limits_.output_bytes_max != 0) {
      return Error(Code::kExhausted, fmt::format("{} bytes, at most {} may come (worker_output_bytes_max)", bytes,
                                                 limits_.output_bytes_max));
    }
    // What is sealed keeps its size and its bytes.
    TRY_ASSIGN(artifact.file, cache::SealedFile::Adopt(std::move(frame.descriptors[0]), bytes));
    if (DigestOf(artifact.file->bytes()) == artifact.digest) return {};
    return Error(Code::kCorrupt, "its bytes do not have the digest that came with them");
  };
  if (Status good = check(); !good) return Lose(Error(Code::kCorrupt, good.error().message()), "");
  // What is no time adds nothing to what the store thinks the artifact cost.
  const auto second = [](float part) { return part > 0 && part < 1e6f ? part : 0.0f; };
  artifact.stages = {second(done->passes_s()), second(done->fusion_s()), second(done->codegen_s()),
                     second(done->link_s()), second(done->proof_s())};
  for (const float part : {artifact.stages.passes(), artifact.stages.fusion(), artifact.stages.codegen(),
                           artifact.stages.link(), artifact.stages.proof()}) {
    artifact.seconds += part;
  }
  return artifact;
}

}  // namespace ingot::daemon
