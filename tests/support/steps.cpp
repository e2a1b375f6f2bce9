// SPDX-License-Identifier: Apache-2.0
// Loaded before the C library into a daemon of a test, counts its steps, and sends it a signal before one of them: a
// step is each call that others can see something of, be it that bytes go to a socket (a tier, a worker, a client) or
// that a file of the store changes. So a test can end a daemon between any two of them, whatever its code looks like.
//
// INGOT_STEPS names a file of the test (steps.py) with what is asked for and what has happened.
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Control {
  std::atomic<int64_t> at;  ///< The step to stop before; 0: none is counted.
  std::atomic<int64_t> done;
  std::atomic<int32_t> signal;
  std::atomic<int32_t> fired;
  char where[256];
};
Control* control = nullptr;

__attribute__((constructor)) void Begin() {
  if (std::strcmp(program_invocation_short_name, "ingotd") != 0) return;
  // Workers do as they are told.
  ::unsetenv("LD_PRELOAD");
  const char* const path = std::getenv("INGOT_STEPS");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory != MAP_FAILED) control = static_cast<Control*>(memory);
}

/// Files that have a name, and sockets: neither what wakes a thread nor memory.
bool IsSeen(int fd) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) return false;
  return S_ISSOCK(facts.st_mode) || (S_ISREG(facts.st_mode) && facts.st_nlink != 0);
}

void Describe(const char* call, int fd) {
  char link[32], file[160] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, file, sizeof file - 1);
  file[size > 0 ? size : 0] = '\0';
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  int port = 0;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.ss_family == AF_INET) {
    port = ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port);
  }
  std::snprintf(control->where, sizeof control->where, "%s to %s, port %d", call, file, port);
}

void Step(const char* call, int fd) {
  if (control == nullptr || control->at == 0 || !IsSeen(fd)) return;
  if (++control->done != control->at) return;
  control->at = 0;
  Describe(call, fd);
  control->fired = 1;
  ::kill(::getpid(), control->signal);
}

}  // namespace

// What these do is the C library's, by the same name.
#define INGOT_STEP(result, name, parameters, arguments)                         \
  extern "C" __attribute__((visibility("default"))) result name parameters {    \
    using Call = result(*) parameters;                                          \
    static const auto next = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, #name)); \
    Step(#name, fd);                                                            \
    return next arguments;                                                      \
  }
INGOT_STEP(ssize_t, write, (int fd, const void* bytes, size_t size), (fd, bytes, size))
INGOT_STEP(ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count))
INGOT_STEP(ssize_t, pwrite, (int fd, const void* bytes, size_t size, off_t at), (fd, bytes, size, at))
INGOT_STEP(ssize_t, pwrite64, (int fd, const void* bytes, size_t size, off64_t at), (fd, bytes, size, at))
INGOT_STEP(int, fsync, (int fd), (fd))
INGOT_STEP(int, fdatasync, (int fd), (fd))
INGOT_STEP(ssize_t, send, (int fd, const void* bytes, size_t size, int flags), (fd, bytes, size, flags))
INGOT_STEP(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
