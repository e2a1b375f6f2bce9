// SPDX-License-Identifier: Apache-2.0
#include "client/lib/connect/start_daemon.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/filesystem.h"

extern char** environ;

namespace ingot::client {
namespace {

constexpr int kReadyFd = 3;

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

/// Directories in which an installation may keep ingotd.
std::vector<std::string> Directories() {
  std::vector<std::string> roots;
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&FindDaemon), &library) != 0 && library.dli_fname != nullptr) {
    roots.push_back(proto::DirectoryOf(library.dli_fname));
  }
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) roots.push_back(self.parent_path().string());
  std::vector<std::string> out;
  for (const std::string& root : roots) {
    for (const char* below : {"", "/bin", "/../bin"}) out.push_back(root + below);
  }
  // Not of who has started a program with more rights than his own.
  if (const char* path = secure_getenv("PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = rest.find(':');
      if (end != 0) out.emplace_back(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
  return out;
}

Status Spawn(const std::string& program, const std::vector<std::string>& arguments, int ready_fd) {
  std::vector<char*> list{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ready_fd, kReadyFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, &attributes, list.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return Error(Code::kUnavailable, fmt::format("start {}: {}", program, std::strerror(failed)));
  }
  // It detaches: this child ends at once and leaves no zombie in our process.
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

/// What the daemon says once it is clear whether it serves; empty when it died silently.
Status ReadReadiness(int fd, int deadline_ms, std::string& text) {
  pollfd readable{fd, POLLIN, 0};
  while (true) {
    const int ready = poll(&readable, 1, deadline_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return Error(Code::kTimeout, fmt::format("ingotd did not listen within {} ms", deadline_ms));
    }
    char piece[512];
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got <= 0) return {};
    text.append(piece, static_cast<size_t>(got));
  }
}

}  // namespace

Result<StartLock> StartLock::Take(const proto::Endpoint& endpoint, int deadline_ms) {
  Filesystem& disk = RealFilesystem();
  std::string path = endpoint.home + "/START";
  Status usable = disk.MakePrivateDirectory(endpoint.store_dir, Access::kNobody);
  if (usable) usable = disk.MakePrivateDirectory(endpoint.home, Access::kNobody);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
  while (true) {
    auto lock = usable ? proto::LockFile::Take(path) : Result<std::optional<proto::LockFile>>(usable.error());
    if (!lock) {
      const std::string beside = endpoint.memory_socket + ".start";
      if (path == beside) return std::move(lock).error();
      TRY(disk.MakePrivateDirectory(proto::DirectoryOf(endpoint.memory_socket), Access::kNoWriters));
      path = beside;
      usable = {};
      continue;
    }
    if (*lock) return StartLock(std::move(**lock));
    if (std::chrono::steady_clock::now() >= deadline) {
      const auto holder = proto::LockFile::HolderOf(path).value_or(proto::LockHolder());
      return Error(Code::kTimeout,
                   fmt::format("process {} has been starting a daemon for {} ms ({})", holder.pid, deadline_ms, path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result<std::string> FindDaemon(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = secure_getenv("INGOT_DAEMON"); named != nullptr && *named != '\0') {
    return std::string(named);
  }
  const std::vector<std::string> directories = Directories();
  for (const std::string& directory : directories) {
    if (IsProgram(directory + "/ingotd")) return directory + "/ingotd";
  }
  return Error(Code::kUnavailable,
               fmt::format("ingotd is in none of {}; set INGOT_DAEMON", fmt::join(directories, ", ")));
}

Status StartDaemon(const proto::Endpoint& endpoint, const std::string& program,
                   const std::vector<std::string>& arguments, int deadline_ms) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error(Code::kExhausted, fmt::format("pipe: {}", std::strerror(errno)));
  }
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  std::vector<std::string> all = {"--detach",
                                  "--ready-fd",
                                  std::to_string(kReadyFd),
                                  "--lock-wait-s",
                                  std::to_string(std::max(1, deadline_ms / 1000 - 1)),
                                  "--store-dir",
                                  endpoint.store_dir};
  // A socket that was said; others the daemon finds as we did.
  if (endpoint.socket == endpoint.memory_socket) all.insert(all.end(), {"--socket", endpoint.socket});
  all.insert(all.end(), arguments.begin(), arguments.end());
  TRY(Spawn(program, all, theirs.get()));
  theirs.Reset();
  std::string text;
  TRY(ReadReadiness(ours.get(), deadline_ms, text));
  if (text == "ok") return {};
  return Error(Code::kUnavailable, fmt::format("{} did not start: {}", program,
                                               text.empty() ? "it ended without a word; see its log" : text));
}

}  // namespace ingot::client
