// SPDX-License-Identifier: Apache-2.0
#include "daemon/detach.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/processors.h"

namespace ingot::daemon {
namespace {

/// Where the kernel cannot close a range: what /proc lists.
void CloseListed(int first) {
  DIR* const list = opendir("/proc/self/fd");
  if (list == nullptr) return;
  std::vector<int> open;
  while (const dirent* entry = readdir(list)) {
    int fd = -1;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
    if (fd >= first && fd != dirfd(list)) open.push_back(fd);
  }
  closedir(list);
  for (const int fd : open) close(fd);
}

/// Of what is done with signals a program inherits only which are ignored and blocked.
void ForgetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void RaiseSoftLimits() {
  // Not the stack: threads get theirs by it.
  for (const auto what : {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_NPROC}) {
    rlimit limit{};
    if (getrlimit(what, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(what, &limit);
  }
}

}  // namespace

void CloseInherited(int& ready_fd) {
  constexpr int kFirst = STDERR_FILENO + 1;
  int next = kFirst;
  if (ready_fd >= 0) {
    if (ready_fd != kFirst) dup2(ready_fd, kFirst);
    ready_fd = kFirst;
    fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
    ++next;
  }
  if (close_range(static_cast<unsigned>(next), ~0U, 0) != 0) CloseListed(next);
}

void LeaveNoCore() {
  // With 0 a program to which the system pipes cores would still get one (core(5)); 1 is refused there, and too small
  // for a file.
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  limit.rlim_max = limit.rlim_cur;
  setrlimit(RLIMIT_CORE, &limit);
}

void Detach() {
  if (fork() > 0) _exit(0);
  setsid();
  if (chdir("/") != 0) _exit(1);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
  umask(0077);
  ForgetSignals();
  UseAllProcessors();
  const sched_param plain{};
  sched_setscheduler(0, SCHED_OTHER, &plain);
  // Whoever may not raise priorities stays as nice as his starter.
  setpriority(PRIO_PROCESS, 0, 0);
  RaiseSoftLimits();
}

}  // namespace ingot::daemon
