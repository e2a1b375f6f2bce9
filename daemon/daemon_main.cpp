// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/processors.h"
#include "cache/store/memory_store.h"
#include "cache/store/open_store.h"
#include "daemon/admin/check_tiers.h"
#include "daemon/cluster/tiers.h"
#include "daemon/compile/sandbox.h"
#include "daemon/compile/worker_pool.h"
#include "daemon/core.h"
#include "daemon/detach.h"
#include "daemon/ipc/server.h"
#include "daemon/late_store.h"
#include "daemon/place.h"
#include "daemon/prune_builds.h"
#include "daemon/serve/serve.h"
#include "daemon/serve/serve_rack.h"
#include "daemon/serve/serve_store.h"
#include "daemon/state/config.h"
#include "daemon/state/descriptors.h"
#include "daemon/state/ticker.h"
#include "proto/endpoint.h"

namespace ingot::daemon {
namespace {

struct Start {
  Config config;
  bool detach = false;
  bool check = false;    ///< Tries the tiers instead.
  int ready_fd = -1;     ///< Told "ok" or the reason once it is clear.
  unsigned lock_wait_s = 0;
};

/// Longest wait for each server that is tried.
constexpr uint64_t kCheckTimeoutS = 10;

/// Fields' names as flags are spelled.
std::string FlagOf(const ConfigField& field) {
  std::string flag = std::string("--") + field.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

/// What to do, or the status to exit with.
Result<std::variant<Start, int>> ParseArguments(int count, char** values) {
  Start start;
  TRY_ASSIGN(start.config, ConfigOfEnvironment());
  CLI::App app(
      "Keeps compiled PyTorch graphs and serves them to the programs of one user.\n"
      "Fields are those of the [daemon] section of the file that INGOT_CONFIG names.");
  app.set_version_flag("--version", std::string(proto::BuildId()));
  app.add_flag("--detach", start.detach, "Go to the background");
  app.add_flag("--check", start.check, "Try what the configuration says of the cluster, print it as JSON, and end");
  app.add_option("--ready-fd", start.ready_fd, "Descriptor that is told 'ok' or the reason")->take_last();
  app.add_option("--lock-wait-s", start.lock_wait_s, "Seconds to wait for a daemon that ends")->take_last();
  Status wrong;
  app.add_option_function<std::string>(
         "--serve",
         [&start, &wrong](const std::string& value) {
           if (Status set = SetField(start.config, "serve_listen", value, "--serve"); !set && wrong) {
             wrong = std::move(set);
           }
         },
         "Serve other daemons at HOST:PORT (as --serve-listen)")
      ->take_last();
  for (const ConfigField& field : ConfigFields()) {
    const std::string flag = FlagOf(field);
    app.add_option_function<std::string>(
           flag,
           [&start, &wrong, &field, flag](const std::string& value) {
             if (Status set = SetField(start.config, field.name, value, flag); !set && wrong) wrong = std::move(set);
           },
           field.meaning + (FieldText(Config(), field).empty() ? "" : " (default: " + FieldText(Config(), field) + ")"))
        ->take_last()
        ->group("Fields");
  }
  try {
    app.parse(count, values);
  } catch (const CLI::Success& asked) {
    return std::variant<Start, int>(app.exit(asked));
  } catch (const CLI::ParseError& error) {
    return Error(Code::kInvalid, fmt::format("{}; see --help", error.what()));
  }
  TRY(std::move(wrong));
  return std::variant<Start, int>(std::move(start));
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

/// `lock` nullptr: the store takes its own.
cache::StoreOptions StoreOptionsOf(const Config& config, const proto::LockFile* lock) {
  cache::StoreOptions options;
  options.allow_network = config.store_network != 0;
  options.use_half_life_s = static_cast<int64_t>(config.store_use_half_life_s);
  options.value_bytes_max = config.store_value_bytes_max;
  options.chunk_bytes = config.store_chunk_bytes;
  options.disk_free_bytes_min = config.store_disk_free_bytes_min;
  options.block_cache_bytes = config.store_block_cache_bytes;
  options.write_buffer_bytes = config.store_write_buffer_bytes;
  options.files_open_max = static_cast<int>(std::min<uint64_t>(config.store_files_open_max, INT_MAX));
  options.touches_max = config.store_touches_max;
  options.damages_max = config.store_damages_max;
  options.asides_max = config.store_asides_max;
  options.lock = lock;
  return options;
}

/// A store that cannot be used never stops anybody's program: memory takes its place.
std::unique_ptr<cache::Store> OpenStoreOrMemory(Core& core, const proto::Endpoint& endpoint, const Place& place) {
  Result<std::unique_ptr<cache::Store>> store =
      place.store_lock ? cache::OpenStore(endpoint.home, StoreOptionsOf(core.config, &*place.store_lock))
                       : *place.trouble;
  if (store) {
    LogInfo("opened the store", {{"state", (*store)->Describe()}});
    return std::move(store).value();
  }
  LogError("keeps artifacts in memory only", {{"store", endpoint.store_dir}, {"reason", store.error()}});
  const cache::MemoryStoreOptions memory;
  // Room for what is written while eviction makes room.
  uint64_t bytes_max = memory.bytes_max / 4 * 3;
  if (core.config.store_bytes_max != 0) bytes_max = std::min(bytes_max, core.config.store_bytes_max);
  core.store_note.SetTrouble(store.error().ToText(), bytes_max);
  return std::make_unique<cache::MemoryStore>(memory);
}

/// What serves other daemons, and what it serves from.
struct Serving {
  std::unique_ptr<ServeStore> store;
  std::unique_ptr<Serve> serve;
};

Result<Serving> StartServing(const Config& config, const Tiers* tiers, const Digest& identity) {
  const std::string dir = config.serve_dir.empty() ? config.store_dir + "/serve" : config.serve_dir;
  if (config.serve_source != "store" && config.serve_source != "cluster") {
    return Error(Code::kInvalid, fmt::format("serve_source is store or cluster, found '{}'", config.serve_source));
  }
  Serving serving;
  TRY_ASSIGN(serving.store, ServeStore::Open(config, dir, StoreOptionsOf(config, nullptr), SystemClock()));
  ServePorts ports = serving.store->ports();
  if (config.serve_source == "cluster") {
    if (tiers == nullptr || tiers->parts().index == nullptr || tiers->parts().blobs == nullptr) {
      return Error(Code::kInvalid,
                   "serve_source is cluster, and no cluster is configured to serve from "
                   "(cluster_index, cluster_blobs_endpoint)");
    }
    ports.index = tiers->parts().index;
    ports.blobs = std::make_shared<RackBlobs>(ports.blobs, tiers->parts().blobs);
    ports.blob_bytes = ServePorts().blob_bytes;
    ports.asks_as = identity;
  }
  TRY_ASSIGN(serving.serve, Serve::Open(config, std::move(ports)));
  return serving;
}

Status StartLogging(Config& config, const std::string& home, bool detached) {
  LogOptions options;
  TRY_ASSIGN(options.level, ParseLogLevel(config.log_level));
  if (detached && config.log_file.empty()) config.log_file = home + "/ingotd.log";
  options.file = config.log_file;
  return StartLog(options);
}

/// One process at a time, on one processor, that ends after its job: it is needed now and then.
Config ConfigOfBackground(const Config& config) {
  Config out = config;
  out.workers = out.worker_threads = out.worker_jobs_max = 1;
  out.worker_wall_s_max = config.tuning_job_s_max;
  return out;
}

/// Takes the place that `endpoint` names, and begins to log.
Result<Place> Settle(Start& start, proto::Endpoint& endpoint) {
  Config& config = start.config;
  TRY_ASSIGN(Place place, TakePlace(endpoint, config.store_network != 0, start.lock_wait_s));
  config.socket = endpoint.socket = place.socket;
  if (Status log = StartLogging(config, endpoint.home, start.detach); !log) {
    if (log.error().code() == Code::kInvalid) return std::move(log).error();
    config.log_file.clear();
  }
  return place;
}

/// What serving others, and the limit of open files, make of the configuration.
void FitConfig(Config& config) {
  // Code is shared among tenants: what one of them may have made of a compiler compiles nothing for another.
  if (!config.client_uids.empty() || !config.client_gids.empty()) config.worker_jobs_max = 1;
  if (!config.serve_listen.empty()) {
    // Others come also when nobody here asks anything.
    if (config.SourceOf("idle_exit_s") == "default") config.idle_exit_s = 0;
    config.descriptors_reserved += config.serve_sessions_max;
  }
  KeepWithin(config, RaiseDescriptorLimit());
}

/// Ends the daemon where clients go elsewhere or it could keep things by now; else prunes old builds, once.
void WatchPlace(const Config& config, const proto::Endpoint& endpoint, const Place& place, Server& server,
                bool& is_pruned) {
  if (!place.IsInPlace() || !server.IsInPlace()) {
    LogError("ends, since somebody removed its store, or removed or replaced its socket",
             {{"store", endpoint.home}, {"socket", endpoint.socket}});
    server.Drain();
  } else if (!place.store_lock && IsStoreFree(endpoint, config.store_network != 0)) {
    LogInfo("ends, since the store can be used by now", {{"store", endpoint.home}});
    server.Drain();
  } else if (place.store_lock && !std::exchange(is_pruned, true)) {
    PruneBuilds(endpoint, {config.builds_age_s_max, config.store_bytes_max}, SystemClock());
  }
}

Status RunDaemon(Start& start, const Graphs& graphs, const std::string& build) {
  Config& config = start.config;
  TRY_ASSIGN(proto::Endpoint endpoint, proto::ResolveEndpoint(config.store_dir, config.socket, build));
  config.store_dir = endpoint.store_dir;
  TRY(ParseSandboxMode(config.worker_sandbox));
  TRY(ParseTuning(config.tuning));
  if (config.worker.empty()) config.worker = ProgramBeside("ingot-worker");
  TRY_ASSIGN(Place place, Settle(start, endpoint));
  FitConfig(config);
  // Before there are threads.
  MakeRoomForDescriptors(config);
  WorkerPool workers(config, config.worker);
  const Config background_config = ConfigOfBackground(config);
  WorkerPool background(background_config, config.worker, SystemClock(), WorkerPool::Place::kBackground);
  const bool is_fresh = place.store_lock && cache::IsFresh(endpoint.home);
  // Nothing is stored, so whoever started us wants something compiled: a first call, most often.
  if (is_fresh && start.ready_fd >= 0) workers.Prestart();
  LateStore store(is_fresh);
  // A cluster that cannot be used never stops anybody's program either.
  const Digest identity = RandomDigest();
  Result<std::unique_ptr<Tiers>> tiers = Tiers::Open(config, identity);
  if (!tiers) LogError("shares nothing with other machines", {{"reason", tiers.error()}});
  Core core(config, store, graphs, workers, SystemClock(), tiers ? (*tiers)->parts() : ClusterParts());
  core.background = &background;
  if (place.trouble) core.store_note.SetTrouble(place.trouble->ToText(), core.store_note.bytes_max());
  // Else not before: what is stored needs no compiler, and one that starts takes the processors from those who ask.
  std::once_flag first;
  core.before_compile = [&] {
    std::call_once(first, [&] {
      store.Hurry();
      workers.Prestart();
    });
  };
  // Whoever says it to be served waits for it; programs that found a daemon to start do not pay for it.
  Result<Serving> serving = Serving();
  if (!config.serve_listen.empty()) serving = StartServing(config, tiers ? tiers->get() : nullptr, identity);
  if (!serving) {
    if (config.SourceOf("serve_listen").starts_with("--")) return std::move(serving).error();
    LogError("serves no other daemons", {{"reason", serving.error()}});
  }
  // A client that finds the lock held and the socket dead takes it for unreachable.
  Server server(core, {.endpoint = endpoint,
                       .build = build,
                       .admin_socket = endpoint.AdminSocket(place.socket, place.store_lock.has_value()),
                       .before_close = [&place] { place.Name(""); }});
  TRY(server.Listen());
  place.Name(endpoint.socket);
  TellStarter(start.ready_fd, "ok");
  LogInfo("serves", {{"pid", getpid()}, {"version", build}, {"socket", endpoint.socket}});
  store.Open([&] {
    auto opened = OpenStoreOrMemory(core, endpoint, place);
    core.workload.Restore(*opened);
    return opened;
  });
  // What other machines have is about to be written.
  if (core.cluster.is_shared()) store.Hurry();
  bool is_pruned = false;
  std::optional<Ticker> watch(std::in_place, std::chrono::seconds(std::max<uint64_t>(1, config.place_check_s)),
                              [&] { WatchPlace(config, endpoint, place, server, is_pruned); });
  server.Run(/*handle_signals=*/true);
  watch.reset();
  // Before what it serves from.
  if (serving) serving->serve.reset();
  core.workload.Save(store);
  store.Join();
  LogInfo("exits", {{"pid", getpid()}});
  FlushLog();
  return {};
}

}  // namespace

int DaemonMain(int count, char** values, const Graphs& graphs, const std::string& build) {
  auto parsed = ParseArguments(count, values);
  if (!parsed) {
    fmt::print(stderr, "ingotd: {}\n", parsed.error().ToText());
    return static_cast<int>(parsed.error().code());
  }
  if (const int* status = std::get_if<int>(&*parsed)) return *status;
  Start& start = std::get<Start>(*parsed);
  CloseInherited(start.ready_fd);
  umask(0077);
  LeaveNoCore();
  if (start.check) {
    const nlohmann::ordered_json checks = CheckTiers(start.config, kCheckTimeoutS);
    fmt::print("{}\n", checks.dump());
    return checks["ok"].get<bool>() ? 0 : static_cast<int>(Code::kUnavailable);
  }
  if (start.detach) Detach();
  std::signal(SIGPIPE, SIG_IGN);
  const Status served = RunDaemon(start, graphs, build);
  if (served) return 0;
  TellStarter(start.ready_fd, served.error().ToText());
  fmt::print(stderr, "ingotd: {}\n", served.error().ToText());
  return static_cast<int>(served.error().code());
}

}  // namespace ingot::daemon
