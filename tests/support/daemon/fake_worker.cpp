// SPDX-License-Identifier: Apache-2.0
// A worker that does what its graph says, for tests of the pool: it fails, dies, hangs, sends what no worker sends, or
// tries what a worker must not be able to do and answers with what became of it.
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "daemon/compile/worker_loop.h"
#include "proto/memory_file.h"
#include "proto/message.h"
#include "tests/support/daemon/fake_dot.h"

namespace {

using namespace ingot;

int daemon_socket = -1;
uint32_t jobs = 0;

/// "ok", or the name of the error.
std::string Outcome(long result) { return result >= 0 ? "ok" : strerrorname_np(errno); }

/// Blocks for ever, whatever wakes it.
[[noreturn]] void Hang() {
  while (true) pause();
}

/// A memory file of the bytes, sealed or not.
UniqueFd FileOf(const std::string& bytes, bool sealed) {
  if (sealed) return proto::MakeSealedMemory("fake", AsBytes(bytes)).value();
  UniqueFd file = proto::MakeMemoryFile("fake").value();
  if (write(file.get(), bytes.data(), bytes.size()) < 0) std::abort();
  return file;
}

/// Answers the job with a file and words about it that need not be true.
void Send(const std::string& bytes, uint64_t announced, const Digest& digest, bool sealed, size_t files = 1,
          proto::WorkerMessage type = proto::WorkerMessage::Done) {
  proto::WorkerDoneT done;
  done.artifact_bytes = announced;
  done.artifact_low = digest.low;
  done.artifact_high = digest.high;
  const UniqueFd file = FileOf(bytes, sealed);
  Ignore(proto::SendFrame(daemon_socket, {.type = static_cast<uint16_t>(type), .request = jobs},
                          proto::PackMessage<proto::WorkerDone>(done), proto::Deadline::AfterS(60),
                          std::vector<int>(files, file.get())),
         "the daemon may be gone");
}

void SendRaw(Bytes bytes) {
  if (write(daemon_socket, bytes.data(), bytes.size()) < 0) std::abort();
}

/// Lies and then stays silent, so that the daemon has nothing else to judge by.
const std::map<std::string, std::function<void()>> kLies = {
    {"garbage", [] { SendRaw(AsBytes("GET / HTTP/1.1\r\nHost: ingotd\r\n\r\n")); }},
    {"half",
     [] {
       const auto head = proto::EncodeHeader(
           {.type = static_cast<uint16_t>(proto::WorkerMessage::Done), .request = jobs, .length = 100});
       SendRaw(Bytes(head).first(10));
     }},
    {"endless",
     [] {
       SendRaw(proto::EncodeHeader(
           {.type = static_cast<uint16_t>(proto::WorkerMessage::Done), .request = jobs, .length = 200 << 20}));
     }},
    {"scrambled",
     [] {
       proto::FrameHeader header{.type = static_cast<uint16_t>(proto::WorkerMessage::Done), .request = jobs};
       Ignore(proto::SendFrame(daemon_socket, header, Buffer(64, 0xFF), proto::Deadline::AfterS(60)), "");
     }},
    {"hello", [] { Send("x", 1, DigestOf("x"), true, 1, proto::WorkerMessage::Hello); }},
    {"fileless", [] { Send("x", 1, DigestOf("x"), true, 0); }},
    {"many", [] { Send("x", 1, DigestOf("x"), true, 2); }},
    {"unsealed", [] { Send("open", 4, DigestOf("open"), false); }},
    {"short", [] { Send("four", 400'000, DigestOf("four"), true); }},
    {"long", [] { Send("longer", 4, DigestOf("longer"), true); }},
    {"empty", [] { Send("", 0, DigestOf(""), true); }},
    {"forged", [] { Send("these", 5, DigestOf("other"), true); }},
};

std::string LimitsText() {
  std::string text;
  for (const auto& [name, which] :
       {std::pair("core", RLIMIT_CORE), {"files", RLIMIT_NOFILE}, {"output", RLIMIT_FSIZE}}) {
    rlimit limit{};
    getrlimit(which, &limit);
    text += name + std::string("=") + std::to_string(limit.rlim_max) + " ";
  }
  return text;
}

std::string Processors() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? std::to_string(CPU_COUNT(&mask)) : "unknown";
}

std::string Exec() {
  const char* arguments[] = {"/bin/true", nullptr};
  return Outcome(execv("/bin/true", const_cast<char**>(arguments)));
}

std::string Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return Outcome(child);
}

/// What lld does with its inputs and its output.
std::string MemoryByName() {
  const UniqueFd file = FileOf("bytes", false);
  const std::string name = "/proc/self/fd/" + std::to_string(file.get());
  const UniqueFd again(open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!again) return Outcome(-1);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Outcome(-1);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const std::string end = "/proc/self/fd/" + std::to_string(ends[1]);
  return Outcome(UniqueFd(open(end.c_str(), O_WRONLY | O_CLOEXEC)).get());
}

std::string Thread() {
  std::string text;
  std::thread([&] { text = "ok"; }).join();
  return text;
}

std::string Pages() {
  void* const pages = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Outcome(mprotect(pages, 4096, PROT_READ | PROT_EXEC));
}

/// More than RLIMIT_FSIZE.
std::string WriteMuch() {
  const auto file = proto::MakeSealedMemory("fake", Buffer(3 << 20));
  return file ? "ok" : file.error().message();
}

const std::map<std::string, std::function<std::string()>> kAttempts = {
    {"pid", [] { return std::to_string(getpid()); }},
    {"limits", LimitsText},
    {"processors", Processors},
    {"environment", [] { return std::string(getenv("INGOT_TEST_SECRET") == nullptr ? "clean" : "leaks"); }},
    {"tiles", [] { return Outcome(syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18)); }},
    {"segment",
     [] {
       uint64_t base = 0;
       return Outcome(syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &base));
     }},
    {"socket", [] { return Outcome(UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)).get()); }},
    {"exec", Exec},
    {"fork", Fork},
    {"kill", [] { return Outcome(kill(getppid(), SIGTERM)); }},
    {"ptrace", [] { return Outcome(ptrace(PTRACE_ATTACH, getppid(), 0, 0)); }},
    {"read", [] { return Outcome(UniqueFd(open("/etc/passwd", O_RDONLY | O_CLOEXEC)).get()); }},
    {"facts", [] { return Outcome(UniqueFd(open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC)).get()); }},
    {"list", [] { return Outcome(UniqueFd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get()); }},
    {"write", [] { return Outcome(UniqueFd(open("/tmp/ingot-fake", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).get()); }},
    {"remove", [] { return Outcome(unlink("/tmp/ingot-fake")); }},
    {"memory", MemoryByName},
    {"thread", Thread},
    {"pages", Pages},
    {"much", WriteMuch},
};

bool Has(const std::string& graph, const std::string& word) {
  return (graph + " ").find(" " + word + " ") != std::string::npos;
}

Result<daemon::WorkerOutput> Obey(const proto::WorkerJob& job) {
  ++jobs;
  const std::string graph = job.graph()->str();
  if (Has(graph, "abort")) std::abort();
  if (Has(graph, "exit")) _exit(7);
  if (Has(graph, "hang")) Hang();
  if (Has(graph, "stop")) raise(SIGSTOP);
  if (Has(graph, "bad")) return Error(Code::kUnsupported, "bad graph");
  for (const auto& [word, lie] : kLies) {
    if (Has(graph, word)) lie(), Hang();
  }
  std::string bytes = "artifact of " + graph;
  for (const auto& [word, attempt] : kAttempts) {
    if (Has(graph, "try") && Has(graph, word)) bytes = attempt();
  }
  if (job.output() == proto::JobOutput::Dot) bytes = daemon::DotOfWords(graph);
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
  daemon::ConfineWorker(*arguments);
  daemon_socket = arguments->socket;
  return daemon::ServeJobs(*arguments, {"fake 1", "x86-64-v3", {"avx2", "fma"}}, Obey);
}
