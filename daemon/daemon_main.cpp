// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/processors.h"
#include "cache/memory_store.h"
#include "cache/open_store.h"
#include "daemon/config.h"
#include "daemon/core.h"
#include "daemon/late_store.h"
#include "daemon/lock_file.h"
#include "daemon/sandbox.h"
#include "daemon/server.h"
#include "daemon/worker_pool.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

struct Start {
  Config config;
  bool detach = false;
  int ready_fd = -1;     ///< Told "ok" or the reason once it is clear.
  unsigned lock_wait_s = 0;
};

constexpr char kUsage[] =
    "usage: ingotd [--detach] [--ready-fd N] [--lock-wait-s N] [--FIELD VALUE ...]\n"
    "Fields are those of the configuration file's [daemon] section:\n";

void PrintUsage() {
  std::fputs(kUsage, stdout);
  const Config defaults;
  for (const ConfigField& field : ConfigFields()) {
    fmt::print("  --{:<28} {} (default: {})\n", field.name, field.meaning,
               FieldText(defaults, field));
  }
}

Result<int> WholeNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    return Error(Code::kInvalid, fmt::format("'{}' is not a whole number", text));
  }
  return number;
}

Result<Start> ParseArguments(int count, char** values) {
  Start start;
  if (const char* file = std::getenv("INGOT_CONFIG"); file != nullptr && *file != '\0') {
    TRY(ApplyConfigFile(start.config, file));
  }
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--detach") {
      start.detach = true;
      continue;
    }
    if (!name.starts_with("--") || i + 1 == count) {
      return Error(Code::kInvalid, fmt::format("cannot read the argument '{}'; see --help", name));
    }
    const std::string_view value = values[++i];
    if (name == "--ready-fd") {
      TRY_ASSIGN(start.ready_fd, WholeNumber(value));
    } else if (name == "--lock-wait-s") {
      TRY_ASSIGN(const int wait_s, WholeNumber(value));
      start.lock_wait_s = static_cast<unsigned>(wait_s);
    } else {
      TRY(SetField(start.config, name.substr(2), value));
    }
  }
  return start;
}

/// Leaves the session of whoever started us; the starter's child ends at once, so that nobody
/// has to wait for it. Of what the starter had open only `ready_fd` stays: whoever waits for the end of a pipe
/// (multiprocessing, a shell) waits for the starter, not for us.
void Detach(int ready_fd) {
  if (fork() > 0) _exit(0);
  setsid();
  if (chdir("/") != 0) _exit(1);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  const auto kept = static_cast<unsigned>(std::max(ready_fd, 2));
  if (kept > 3) close_range(3, kept - 1, 0);
  close_range(kept + 1, ~0U, 0);
}

void TellStarter(int& ready_fd, std::string_view text) {
  if (ready_fd < 0) return;
  if (write(ready_fd, text.data(), text.size()) < 0) LogDebug("told nobody about the start");
  close(ready_fd);
  ready_fd = -1;
}

std::string ProgramBeside(const char* name) {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return (self.parent_path() / name).string();
}

/// A store that cannot be used never stops anybody's program: memory takes its place.
std::unique_ptr<cache::Store> OpenStoreOrMemory(Core& core) {
  const std::string& dir = core.config.store_dir;
  auto store = cache::OpenStore(dir);
  if (store) {
    LogInfo("opened the store", {{"state", (*store)->Describe()}});
    return std::move(store).value();
  }
  LogError("keeps artifacts in memory only", {{"store", dir}, {"reason", store.error()}});
  const cache::MemoryStoreOptions memory;
  // Room for what is written while eviction makes room.
  uint64_t bytes_max = memory.bytes_max / 4 * 3;
  if (core.config.store_bytes_max != 0) bytes_max = std::min(bytes_max, core.config.store_bytes_max);
  core.store_note.SetTrouble(store.error().ToText(), bytes_max);
  return std::make_unique<cache::MemoryStore>(memory);
}

Status StartLogging(Config& config, bool detached) {
  LogOptions options;
  TRY_ASSIGN(options.level, ParseLogLevel(config.log_level));
  if (detached && config.log_file.empty()) config.log_file = config.store_dir + "/ingotd.log";
  options.file = config.log_file;
  return StartLog(options);
}

Status Serve(Start& start, const Graphs& graphs) {
  Config& config = start.config;
  TRY_ASSIGN(const proto::Endpoint endpoint, proto::ResolveEndpoint(config.store_dir, config.socket));
  config.store_dir = endpoint.store_dir;
  config.socket = endpoint.socket;
  TRY(ParseSandboxMode(config.worker_sandbox));
  if (config.worker.empty()) config.worker = ProgramBeside("ingot-worker");
  TRY(proto::MakePrivateDirectory(proto::DirectoryOf(endpoint.socket)));
  TRY_ASSIGN(const LockFile lock, LockFile::Take(endpoint.lock_path(), start.lock_wait_s));
  Ignore(proto::MakePrivateDirectory(config.store_dir), "opening the store says what is wrong");
  if (Status log = StartLogging(config, start.detach); !log) {
    if (log.error().code() == Code::kInvalid) return log;
    config.log_file.clear();
  }

  WorkerPool workers(config, config.worker);
  LateStore store(cache::IsFresh(config.store_dir));
  Core core(config, store, graphs, workers);
  // Not before: a compiler that starts takes the processors from the first call that woke us.
  std::once_flag first;
  core.before_compile = [&] {
    std::call_once(first, [&] {
      store.Hurry();
      workers.Prestart();
    });
  };
  Server server(core, {.endpoint = endpoint});
  TRY(server.Listen());
  TellStarter(start.ready_fd, "ok");
  LogInfo("serves", {{"pid", getpid()}, {"version", proto::BuildId()}, {"socket", endpoint.socket}});
  store.Open([&core] {
    auto opened = OpenStoreOrMemory(core);
    core.workload.Restore(*opened);
    return opened;
  });
  server.Run(/*handle_signals=*/true);
  core.workload.Save(store);
  store.Join();
  LogInfo("exits", {{"pid", getpid()}});
  FlushLog();
  return {};
}

}  // namespace

int DaemonMain(int count, char** values, const Graphs& graphs) {
  for (int i = 1; i < count; ++i) {
    if (std::string_view(values[i]) == "--help") return PrintUsage(), 0;
  }
  Result<Start> start = ParseArguments(count, values);
  if (!start) {
    fmt::print(stderr, "ingotd: {}\n", start.error().ToText());
    return static_cast<int>(start.error().code());
  }
  std::signal(SIGPIPE, SIG_IGN);
  UseAllProcessors();
  umask(0077);
  if (start->detach) Detach(start->ready_fd);
  if (start->ready_fd >= 0) fcntl(start->ready_fd, F_SETFD, FD_CLOEXEC);
  const Status served = Serve(*start, graphs);
  if (served) return 0;
  TellStarter(start->ready_fd, served.error().ToText());
  fmt::print(stderr, "ingotd: {}\n", served.error().ToText());
  return static_cast<int>(served.error().code());
}

}  // namespace ingot::daemon
