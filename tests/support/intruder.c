// SPDX-License-Identifier: Apache-2.0
// Loaded before the C library into a program that reads a stranger's file: stands for a fault of the reader. When the
// file named by INGOT_TEST_READS is opened to be read, it tries what its author would try, and says on stderr what
// became of each: "intruder: write=EACCES exec=EPERM ...".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char* Outcome(long result) { return result >= 0 ? "ok" : strerrorname_np(errno); }

static const char* Opens(const char* name, int flags) {
  int (*const next)(const char*, int, ...) = dlsym(RTLD_NEXT, "open");
  const char* const path = getenv(name);
  if (path == NULL) return "none";
  return Outcome(next(path, flags | O_CLOEXEC, 0600));
}

static const char* Connects(void) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return Outcome(made);
  const struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int connected = connect(made, (const struct sockaddr*)&nobody, sizeof nobody);
  return connected < 0 && errno == ECONNREFUSED ? "ok" : Outcome(connected);
}

static const char* Forks(void) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return Outcome(child);
}

static void Try(void) {
  static int tried = 0;
  if (tried++ != 0) return;
  fprintf(stderr, "intruder: write=%s read=%s beside=%s connect=%s fork=%s",
          Opens("INGOT_TEST_WRITE", O_WRONLY | O_CREAT), Opens("INGOT_TEST_READ", O_RDONLY),
          Opens("INGOT_TEST_BESIDE", O_RDONLY), Connects(), Forks());
  char* const none[] = {NULL};
  char* const words[] = {"/bin/true", NULL};
  // Where it succeeds there is nobody left to say so.
  fprintf(stderr, " exec=");
  fflush(stderr);
  execve("/bin/true", words, none);
  fprintf(stderr, "%s\n", Outcome(-1));
}

static void Notice(const char* path, int flags) {
  const char* const wanted = getenv("INGOT_TEST_READS");
  if (wanted == NULL || (flags & (O_PATH | O_ACCMODE)) != 0) return;
  if (strcmp(path, wanted) == 0) Try();
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  Notice(path, flags);
  int (*const next)(const char*, int, ...) = dlsym(RTLD_NEXT, "open");
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  Notice(path, flags);
  int (*const next)(const char*, int, ...) = dlsym(RTLD_NEXT, "open64");
  return next(path, flags, mode);
}
