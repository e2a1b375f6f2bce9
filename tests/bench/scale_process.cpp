// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scale_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace ingot::bench {
namespace {

namespace fs = std::filesystem;

std::string ProcPath(pid_t pid, const char* name) { return fmt::format("/proc/{}/{}", pid, name); }

}  // namespace

Held HeldBy(pid_t pid) {
  Held held;
  std::ifstream status(ProcPath(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    words >> name >> value;
    if (name == "RssAnon:") held.anonymous_bytes = value << 10;
    if (name == "RssFile:") held.file_bytes = value << 10;
    if (name == "Threads:") held.threads = value;
  }
  std::error_code gone;
  for (fs::directory_iterator at(ProcPath(pid, "fd"), gone), end; !gone && at != end; at.increment(gone)) {
    ++held.descriptors;
    std::error_code ignored;
    struct stat facts{};
    const bool is_memory = fs::read_symlink(at->path(), ignored).string().starts_with("/memfd:");
    if (is_memory && stat(at->path().c_str(), &facts) == 0) {
      held.memory_file_bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
    }
  }
  std::ifstream stat_file(ProcPath(pid, "stat"));
  std::string text((std::istreambuf_iterator<char>(stat_file)), {});
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;
  double user = 0, system = 0;
  words >> user >> system;
  held.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return held;
}

std::string Describe(const Held& held) {
  return fmt::format("{:.1f} MB (heap {:.1f}, program {:.1f}, memory files {:.1f}), {} descriptors, {} threads",
                     held.all_bytes() / 1e6, held.anonymous_bytes / 1e6, held.file_bytes / 1e6,
                     held.memory_file_bytes / 1e6, held.descriptors, held.threads);
}

client::ConnectionOptions DaemonProcess::Options() const {
  client::ConnectionOptions options;
  options.store_dir = store_dir_;
  options.daemon = INGOT_FAKE_DAEMON;
  options.daemon_arguments = {"--worker", INGOT_FAKE_WORKER, "--worker-memory-bytes-max", "0"};
  options.daemon_arguments.insert(options.daemon_arguments.end(), arguments_.begin(), arguments_.end());
  return options;
}

Result<std::unique_ptr<client::Connection>> DaemonProcess::Connect() {
  TRY_ASSIGN(std::unique_ptr<client::Connection> connection, client::Connection::Open(Options()));
  pid_ = static_cast<pid_t>(connection->daemon_pid());
  socket_ = connection->daemon_socket();
  return connection;
}

void DaemonProcess::Stop() {
  client::ConnectionOptions options = Options();
  options.start = false;
  if (const auto connection = client::Connection::Open(options)) {
    pid_ = static_cast<pid_t>((*connection)->daemon_pid());
    Ignore((*connection)->Query("drain"), "it may end before it answers");
  }
  while (pid_ != 0 && kill(pid_, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  pid_ = 0;
}

void DaemonProcess::Settle() {
  for (double before = -1, used = HeldBy(pid_).cpu_s; used - before > 0.03; used = HeldBy(pid_).cpu_s) {
    before = used;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void DaemonProcess::ForgetPages() const {
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(store_dir_, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const UniqueFd file(open(at->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file) posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

}  // namespace ingot::bench
