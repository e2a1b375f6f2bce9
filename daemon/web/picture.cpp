// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/picture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/filesystem.h"
#include "base/start_program.h"
#include "proto/frame.h"

namespace ingot::daemon::web {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Pipe {
  UniqueFd reads, writes;
};

/// A socket: writing to it when nobody reads any more is an error and no signal.
Result<Pipe> MakePipe() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrorFromErrno(errno, "socketpair");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// A process that is over, by itself or by force, when this goes.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  /// Its status. It is about to end, or ends here.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// Programs, their libraries, plugins and fonts.
constexpr const char* kSystem[] = {
    "/usr", "/bin", "/lib", "/lib64", "/etc/fonts", "/dev/null", "/etc/ld.so.cache", "/var/cache/fontconfig"};

/// The file that a name stands for, as a shell finds it. Empty: none.
std::string Find(const std::string& program, const std::string& search) {
  if (program.find('/') != program.npos) return program;
  for (size_t at = 0; at <= search.size();) {
    const size_t end = std::min(search.find(':', at), search.size());
    const std::string path = search.substr(at, end - at) + "/" + program;
    if (access(path.c_str(), X_OK) == 0) return path;
    at = end + 1;
  }
  return {};
}

/// Of a program that is installed elsewhere, its libraries and plugins too.
std::vector<std::string> ReadableBy(const std::string& path) {
  std::vector<std::string> readable(std::begin(kSystem), std::end(kSystem));
  readable.push_back(path);
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::canonical(path, failed);
  if (!failed && whole.parent_path().filename() == "bin") {
    readable.push_back((whole.parent_path().parent_path() / "lib").string());
  }
  return readable;
}

Result<pid_t> Start(const std::string& name, const std::string& format, int in, int out, SandboxMode mode) {
  const char* const set = std::getenv("PATH");
  const std::string search = set == nullptr ? "/usr/bin:/bin" : set;
  Program program;
  program.path = Find(name, search);
  program.arguments = {"-T" + format};
  // Not this process's: credentials may be in it.
  program.environment = {fmt::format("PATH={}", search), "LANG=C.UTF-8"};
  program.descriptors = {in, out, -1};
  Sandbox sandbox({.readable = ReadableBy(program.path), .starts_program = true});
  program.before = [&sandbox, mode] {
    if (mode == SandboxMode::kOff) return true;
    const bool is_closed = IsClosed(sandbox.Enter());
    return is_closed || mode == SandboxMode::kAuto;
  };
  if (program.path.empty())
    return Error(Code::kNotFound, fmt::format("graphviz is not installed: there is no '{}'", name));
  Result<pid_t> pid = StartProgram(program);
  if (!pid && pid.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("graphviz is not installed: there is no '{}'", name));
  }
  return pid;
}

void Limit(pid_t pid, const PictureLimits& limits) {
  const auto set = [pid](__rlimit_resource what, uint64_t value) {
    const rlimit limit{value, value};
    prlimit(pid, what, &limit, nullptr);
  };
  set(RLIMIT_CPU, static_cast<uint64_t>(limits.time.count()) + 1);
  set(RLIMIT_AS, limits.memory_bytes_max);
  set(RLIMIT_CORE, 0);
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 19);
}

}  // namespace

Result<std::string> Draw(const std::string& program, const std::string& dot, const PictureLimits& limits,
                         const std::string& format) {
  if (program.empty()) return Error(Code::kNotFound, "no program draws graphs here");
  TRY_ASSIGN(Pipe in, MakePipe());
  TRY_ASSIGN(Pipe out, MakePipe());
  TRY_ASSIGN(const pid_t pid, Start(program, format, in.reads.get(), out.writes.get(), limits.sandbox));
  Child child(pid);
  // It has nothing to do before it has read the text.
  Limit(pid, limits);
  in.reads.Reset();
  out.writes.Reset();
  fcntl(in.writes.get(), F_SETFL, O_NONBLOCK);
  fcntl(out.reads.get(), F_SETFL, O_NONBLOCK);
  const auto end = SteadyClock::now() + limits.time;
  std::string svg;
  size_t sent = 0;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    if (left <= 0) {
      return Error(Code::kTimeout, fmt::format("drawing took more than {} s", limits.time.count()));
    }
    std::array<pollfd, 2> ready{pollfd{out.reads.get(), POLLIN, 0}, pollfd{in.writes.get(), POLLOUT, 0}};
    const int count = poll(ready.data(), in.writes ? 2 : 1, static_cast<int>(left) + 1);
    if (count < 0 && errno != EINTR) return ErrorFromErrno(errno, "poll");
    if (count <= 0) continue;
    if (in.writes && ready[1].revents != 0) {
      const ssize_t wrote = send(in.writes.get(), dot.data() + sent, dot.size() - sent, MSG_NOSIGNAL);
      if (wrote > 0) sent += static_cast<size_t>(wrote);
      const bool is_broken = wrote < 0 && errno != EAGAIN && errno != EINTR;
      if (is_broken || sent == dot.size()) in.writes.Reset();
    }
    if (ready[0].revents == 0) continue;
    std::array<char, 65536> piece;
    const ssize_t got = read(out.reads.get(), piece.data(), piece.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) break;
    svg.append(piece.data(), static_cast<size_t>(got));
    if (svg.size() > limits.bytes_max) {
      return Error(Code::kExhausted, fmt::format("the picture has more than {} bytes", limits.bytes_max));
    }
  }
  // Its output is at its end; what it does beyond that nobody waits for.
  pollfd none{-1, 0, 0};
  siginfo_t over{};
  while (waitid(P_PID, static_cast<id_t>(pid), &over, WEXITED | WNOHANG | WNOWAIT) == 0 && over.si_pid == 0) {
    if (SteadyClock::now() >= end) return Error(Code::kTimeout, "drawing did not end");
    poll(&none, 1, 5);
  }
  const int status = child.Wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || svg.empty()) {
    return Error(Code::kInvalid, WIFSIGNALED(status)
                                     ? fmt::format("'{}' was ended by signal {}", program, WTERMSIG(status))
                                     : fmt::format("'{}' ended with {}", program, WEXITSTATUS(status)));
  }
  return svg;
}

}  // namespace ingot::daemon::web
