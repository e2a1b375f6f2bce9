// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/temp_dir.h"
#include "tests/support/eventually.h"

namespace ingot::support {

/// A port of the loopback that nobody uses now.
inline uint16_t FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

/// A redis-server of a test's own, on a Unix socket in a directory of its own, that stores nothing.
class RedisServer {
 public:
  static bool IsInstalled() { return std::system("command -v redis-server >/dev/null 2>&1") == 0; }
  static constexpr char kMissing[] = "redis-server is not installed (apt install redis-server)";

  /// `options`: as on its command line, for instance {"--requirepass", "x"}.
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) { Start(); }
  ~RedisServer() { Kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string socket() const { return dir_ / "redis.sock"; }
  std::string url() const { return "unix://" + socket(); }
  const TempDir& dir() const { return dir_; }

  /// Comes back once it answers. Aborts when it does not.
  void Start() {
    ::unlink(socket().c_str());
    std::vector<std::string> words = {"redis-server", "--unixsocket", socket(), "--save",    "",
                                      "--appendonly", "no",           "--dir",  dir_.path(), "--logfile",
                                      dir_ / "log"};
    words.insert(words.end(), options_.begin(), options_.end());
    if (std::find(options_.begin(), options_.end(), "--port") == options_.end()) {
      words.insert(words.end(), {"--port", "0"});
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int null = ::open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    if (!Eventually([&] { return Answers(); })) {
      std::fprintf(stderr, "redis-server does not answer; its log is in %s\n", dir_.path().c_str());
      std::abort();
    }
  }
  /// As kill -9.
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void Freeze() { ::kill(pid_, SIGSTOP); }
  void Thaw() { ::kill(pid_, SIGCONT); }
  pid_t pid() const { return pid_; }

  /// What one command answers, raw ("+OK\r\n"), through a connection of its own.
  std::string Ask(const std::string& inline_command) const {
    const int fd = Connect();
    if (fd < 0) return "";
    const std::string line = inline_command + "\r\n";
    std::string out;
    if (::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size())) {
      char bytes[65536];
      const ssize_t count = ::recv(fd, bytes, sizeof bytes, 0);
      if (count > 0) out.assign(bytes, static_cast<size_t>(count));
    }
    ::close(fd);
    return out;
  }

 private:
  bool Answers() const {
    const std::string answer = Ask("PING");
    return answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
  }
  int Connect() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
  }

  TempDir dir_;
  std::vector<std::string> options_;
  pid_t pid_ = 0;
};

}  // namespace ingot::support
