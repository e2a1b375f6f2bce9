// SPDX-License-Identifier: Apache-2.0
#include "daemon/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace ingot::daemon {
namespace {

/// flock that gives up after `wait_s`: the alarm interrupts it.
int LockWithin(int fd, unsigned wait_s) {
  if (wait_s == 0) return flock(fd, LOCK_EX | LOCK_NB);
  struct sigaction quiet {};
  struct sigaction before {};
  quiet.sa_handler = [](int) {};
  sigaction(SIGALRM, &quiet, &before);
  alarm(wait_s);
  const int locked = flock(fd, LOCK_EX);
  alarm(0);
  sigaction(SIGALRM, &before, nullptr);
  return locked;
}

std::string Holder(int fd) {
  char text[32] = {};
  const ssize_t got = pread(fd, text, sizeof text - 1, 0);
  const std::string_view pid(text, got < 0 ? 0 : static_cast<size_t>(got));
  return std::string(pid.substr(0, pid.find('\n')));
}

}  // namespace

Result<LockFile> LockFile::Take(const std::string& path, unsigned wait_s) {
  proto::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Error(Code::kUnavailable, fmt::format("open {}: {}", path, std::strerror(errno)));
  if (LockWithin(fd.get(), wait_s) != 0) {
    return Error(Code::kUnavailable,
                 fmt::format("another ingotd (process {}) holds {}", Holder(fd.get()), path));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return Error(Code::kUnavailable, fmt::format("write {}: {}", path, std::strerror(errno)));
  }
  return LockFile(std::move(fd));
}

}  // namespace ingot::daemon
