// SPDX-License-Identifier: Apache-2.0
#include "base/start_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ingot {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<pid_t> StartProgram(const Program& program) {
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
  std::vector<std::string> words = {program.path};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> environment = program.environment ? Pointers(*program.environment) : std::vector<char*>();
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, program.path.c_str(), &actions, &attributes, arguments.data(),
                                  program.environment ? environment.data() : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return pid;
  return Error(failed == ENOENT ? Code::kNotFound : Code::kUnavailable,
               fmt::format("start '{}': {}", program.path, std::strerror(failed)));
}

}  // namespace ingot
