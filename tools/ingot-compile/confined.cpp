// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot-compile/confined.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/filesystem.h"
#include "base/unique_fd.h"
#include "proto/memory_file.h"

namespace ingot::tools {
namespace {

/// Nobody has to believe that it stops.
constexpr size_t kAnswerBytesMax = 16u << 20;

/// Of the caller's shell, and of libraries, whatever is open goes.
void CloseAllBut(std::vector<int> kept) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  std::ranges::sort(kept);
  unsigned from = STDERR_FILENO + 1;
  for (const int one : kept) {
    if (static_cast<unsigned>(one) > from) close_range(from, static_cast<unsigned>(one) - 1, 0);
    from = static_cast<unsigned>(one) + 1;
  }
  close_range(from, UINT_MAX, 0);
}

Status ShutOff(const Confined& confined) {
  if (confined.mode == daemon::SandboxMode::kOff) return {};
  const daemon::SandboxTroubles troubles =
      daemon::EnterSandbox({.readable = confined.readable, .computes_tensors = true});
  const Status closed = daemon::CheckClosed(troubles);
  if (closed) return {};
  if (confined.mode == daemon::SandboxMode::kRequired) return closed;
  fmt::print(stderr, "ingot: warning: {} is read by a process that is not shut off: {}\n", confined.what,
             daemon::SandboxText(troubles));
  return {};
}

[[noreturn]] void Work(const Confined& confined, int answer) {
  std::vector<int> kept = confined.descriptors;
  kept.push_back(answer);
  CloseAllBut(std::move(kept));
  const Status shut = ShutOff(confined);
  const Result<std::string> done = shut ? confined.work() : Result<std::string>(shut.error());
  std::string_view text = done ? std::string_view(*done) : std::string_view(done.error().message());
  while (!text.empty()) {
    const ssize_t wrote = write(answer, text.data(), text.size());
    if (wrote <= 0) _exit(static_cast<int>(Code::kInternal));
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  std::fflush(stderr);
  // What the parent has as well is the parent's to take down.
  _exit(done ? 0 : static_cast<int>(done.error().code()));
}

Result<std::string> ReadAll(int file) {
  std::string text;
  char piece[4096];
  ssize_t got = 0;
  while (text.size() < kAnswerBytesMax &&
         (got = pread(file, piece, sizeof piece, static_cast<off_t>(text.size()))) > 0) {
    text.append(piece, static_cast<size_t>(got));
  }
  if (got < 0) return ErrorFromErrno(errno, "read what a process has answered");
  return text;
}

[[noreturn]] void EndBy(int signal) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::abort();
}

}  // namespace

Result<std::string> RunConfined(const Confined& confined, const std::function<void()>& clean_up) {
  TRY_ASSIGN(const UniqueFd answer, proto::MakeMemoryFile("ingot-answer"));
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return ErrorFromErrno(errno, "fork");
  if (pid == 0) Work(confined, answer.get());
  // The terminal's signals reach both; what the child has begun has to be taken away after it.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrorFromErrno(errno, "wait");
  }
  if (WIFSIGNALED(status)) {
    clean_up();
    fmt::print(stderr, "ingot: what reads {} was ended by signal {} ({})\n", confined.what, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    EndBy(WTERMSIG(status));
  }
  TRY_ASSIGN(std::string text, ReadAll(answer.get()));
  if (WEXITSTATUS(status) == 0) return text;
  const auto code = static_cast<Code>(WEXITSTATUS(status));
  const bool is_known = code >= Code::kInvalid && code <= Code::kHalfDone;
  return Error(is_known ? code : Code::kInternal, text);
}

}  // namespace ingot::tools
