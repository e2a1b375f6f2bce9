// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_process.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "proto/message.h"
#include "proto/worker_generated.h"

extern char** environ;

namespace ingot::daemon {
namespace {

constexpr int kWorkerSocket = 3;

Code CodeOf(uint8_t number) {
  const bool known = number >= static_cast<uint8_t>(Code::kInvalid) &&
                     number <= static_cast<uint8_t>(Code::kInternal);
  return known ? static_cast<Code>(number) : Code::kInternal;
}

// Compiling takes what the programs that it is for leave over. Where the kernel shares time between
// sessions first, the session's own number counts.
constexpr int kNice = 10;

void GiveWay(pid_t worker) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(worker), kNice);
  std::ofstream(fmt::format("/proc/{}/autogroup", worker)) << kNice;
}

Result<pid_t> Spawn(const std::string& program, int socket, uint64_t memory_bytes) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Whatever the program that started the daemon blocked must not keep a worker alive.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  const std::string memory = std::to_string(memory_bytes);
  const std::string fd = std::to_string(kWorkerSocket);
  const char* arguments[] = {program.c_str(), "--socket", fd.c_str(), "--memory-bytes",
                             memory.c_str(), nullptr};
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                 const_cast<char**>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return Error(Code::kUnavailable, fmt::format("start {}: {}", program, std::strerror(failed)));
  }
  GiveWay(pid);
  return pid;
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& program,
                                                            const WorkerLimits& limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error(Code::kExhausted, fmt::format("socket pair: {}", std::strerror(errno)));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->socket_ = proto::UniqueFd(ends[0]);
  worker->limits_ = limits;
  {
    const proto::UniqueFd child_end(ends[1]);
    TRY_ASSIGN(worker->pid_, Spawn(program, child_end.get(), limits.memory_bytes_max));
  }
  if (Status hello = worker->ReadHello(); !hello) {
    return Error(Code::kUnavailable, fmt::format("start of {}: {}", program, hello.error().message()));
  }
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void WorkerProcess::Kill() {
  // Closing our reading side ends a Run; the destructor reaps the process, so that the number
  // cannot name another one here.
  shutdown(socket_.get(), SHUT_RDWR);
}

Status WorkerProcess::ReadHello() {
  Result<proto::Frame> frame =
      proto::ReceiveFrame(socket_.get(), proto::Deadline::AfterS(limits_.start_s_max));
  if (!frame && frame.error().code() == Code::kUnavailable) return DeathReport();
  if (!frame) return std::move(frame).error();
  const auto* hello = proto::ReadMessage<proto::WorkerHello>(frame->body);
  if (hello == nullptr) return Error(Code::kUnavailable, "its first message is not a hello");
  facts_.identity = hello->compiler()->str();
  facts_.level = hello->level()->str();
  if (hello->features() != nullptr) {
    for (const auto* feature : *hello->features()) facts_.features.push_back(feature->str());
  }
  return {};
}

bool WorkerProcess::IsAlive() {
  pollfd state{socket_.get(), POLLIN, 0};
  return poll(&state, 1, 0) == 0;
}

Error WorkerProcess::DeathReport() {
  usable_ = false;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) {
    return Error(Code::kInternal,
                 fmt::format("the compile process ended with status {}", WEXITSTATUS(status)));
  }
  const int signal = WTERMSIG(status);
  const char* hint = signal == SIGXCPU   ? "; its CPU time was used up (worker_cpu_s_max)"
                     : signal == SIGKILL ? "; it was stopped, perhaps for lack of memory"
                                         : "";
  return Error(Code::kInternal, fmt::format("the compile process died of signal {} ({}){}", signal,
                                               strsignal(signal), hint));
}

Result<CompiledArtifact> WorkerProcess::Run(const CompileJob& job) {
  ++jobs_;
  proto::WorkerJobT message;
  message.graph = job.graph;
  message.threads = static_cast<uint32_t>(limits_.threads);
  message.prove_ms_max = static_cast<uint32_t>(limits_.prove_ms_max);
  message.cpu_s_max = static_cast<uint32_t>(limits_.cpu_s_max);
  message.output = job.output;
  message.gears = job.gears;
  const proto::FrameHeader header{.type = static_cast<uint16_t>(proto::WorkerMessage::Job),
                                  .request = static_cast<uint32_t>(jobs_)};
  const auto deadline = proto::Deadline::AfterS(limits_.wall_s_max);
  const Status sent =
      proto::SendFrame(socket_.get(), header, proto::PackMessage<proto::WorkerJob>(message), deadline);
  if (!sent && sent.error().code() != Code::kTimeout) return DeathReport();
  Result<proto::Frame> frame = proto::ReceiveFrame(socket_.get(), deadline);
  if (!frame && frame.error().code() == Code::kTimeout) {
    Ignore(Status(DeathReport()), "the timeout is the reason");
    return Error(Code::kTimeout, fmt::format("the compile took longer than {} s (worker_wall_s_max)",
                                             limits_.wall_s_max));
  }
  if (!frame) return DeathReport();
  const auto* done = proto::ReadMessage<proto::WorkerDone>(frame->body);
  if (done == nullptr || frame->header.request != jobs_) {
    usable_ = false;
    return Error(Code::kInternal, "the compile process sent an answer that cannot be read");
  }
  resident_bytes_ = done->resident_bytes();
  if (done->code() != 0) {
    return Error(CodeOf(done->code()), done->message() == nullptr ? "" : done->message()->str());
  }
  if (frame->descriptors.size() != 1) {
    return Error(Code::kInternal, "the compile process sent no artifact");
  }
  TRY(proto::CheckSealed(frame->descriptors[0].get()));
  CompiledArtifact artifact;
  artifact.digest = {done->artifact_low(), done->artifact_high()};
  artifact.file = std::move(frame->descriptors[0]);
  artifact.bytes = done->artifact_bytes();
  artifact.seconds = done->passes_s() + done->codegen_s() + done->link_s() + done->proof_s();
  return artifact;
}

}  // namespace ingot::daemon
