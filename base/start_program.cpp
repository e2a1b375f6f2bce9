// SPDX-License-Identifier: Apache-2.0
#include "base/start_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "base/unique_fd.h"

namespace ingot {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

Error NotStarted(const Program& program, int why) {
  return Error(why == ENOENT ? Code::kNotFound : Code::kUnavailable,
               fmt::format("start '{}': {}", program.path, std::strerror(why)));
}

std::vector<std::string> WordsOf(const Program& program) {
  std::vector<std::string> words = {program.path};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  return words;
}

/// The child's part of a fork: system calls alone. What has failed goes to `report`, which ends with the program's
/// start.
[[noreturn]] void Become(const Program& program, char* const* words, char* const* environment, int report) {
  if (program.has_own_session) setsid();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int count = static_cast<int>(program.descriptors.size());
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int to = 0; to < count; ++to) {
    const int from = program.descriptors[static_cast<size_t>(to)];
    dup2(from >= 0 ? from : nothing, to);
  }
  close_range(static_cast<unsigned>(count), UINT_MAX, CLOSE_RANGE_CLOEXEC);
  errno = 0;
  if (program.before()) execve(program.path.c_str(), words, environment);
  const int why = errno == 0 ? EPERM : errno;
  if (write(report, &why, sizeof why) < 0) _exit(1);
  _exit(1);
}

/// By fork: no file action of posix_spawn shuts a process off.
Result<pid_t> StartPrepared(const Program& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NotStarted(program, errno);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  const std::vector<std::string> words = WordsOf(program);
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> environment = program.environment ? Pointers(*program.environment) : std::vector<char*>();
  const pid_t pid = fork();
  if (pid < 0) return NotStarted(program, errno);
  if (pid == 0) {
    Become(program, arguments.data(), program.environment ? environment.data() : environ, writes.get());
  }
  writes.Reset();
  int why = 0;
  ssize_t got = 0;
  do got = read(reads.get(), &why, sizeof why);
  while (got < 0 && errno == EINTR);
  if (got != sizeof why) return pid;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return NotStarted(program, why);
}

}  // namespace

Result<pid_t> StartProgram(const Program& program) {
  if (program.before) return StartPrepared(program);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int count = static_cast<int>(program.descriptors.size());
  for (int to = 0; to < count; ++to) {
    const int from = program.descriptors[static_cast<size_t>(to)];
    if (from >= 0) {
      // Also where it is the same: it may be marked for closing.
      posix_spawn_file_actions_adddup2(&actions, from, to);
    } else {
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", to == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    }
  }
  // Whatever else is open here, marked for closing or not, is none of its business.
  posix_spawn_file_actions_addclosefrom_np(&actions, count);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int session = program.has_own_session ? POSIX_SPAWN_SETSID : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | session));
  const std::vector<std::string> words = WordsOf(program);
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> environment = program.environment ? Pointers(*program.environment) : std::vector<char*>();
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, program.path.c_str(), &actions, &attributes, arguments.data(),
                                  program.environment ? environment.data() : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return pid;
  return NotStarted(program, failed);
}

}  // namespace ingot
