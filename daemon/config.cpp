// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace ingot::daemon {
namespace {

constexpr ConfigField kFields[] = {
    {"store_dir", "directory of the store", &Config::store_dir},
    {"socket", "path of the socket", &Config::socket},
    {"log_file", "where log lines go", &Config::log_file},
    {"log_level", "debug, info, warn, error or off", &Config::log_level},
    {"worker", "program that compiles", &Config::worker},
    {"worker_sandbox", "what workers are shut off from: auto = all that the kernel can, required = or none runs, off",
     &Config::worker_sandbox},
    {"idle_exit_s", "seconds without a client before the daemon exits; 0 = never", &Config::idle_exit_s},
    {"drain_s_max", "seconds a drain waits for running requests", &Config::drain_s_max},
    {"exit_s_max", "seconds the daemon may take to end once it answers nothing more; then it ends whatever hangs",
     &Config::exit_s_max},
    {"sessions_max", "connections at one time; over it the longest idle one makes room", &Config::sessions_max},
    {"sessions_reserved", "connections over sessions_max that are answered queries only", &Config::sessions_reserved},
    {"peer_sessions_max", "connections of one process; 0 = no limit", &Config::peer_sessions_max},
    {"session_idle_s_max", "seconds after which a connection without a request is closed; 0 = never",
     &Config::session_idle_s_max},
    {"session_read_s_max", "seconds from a request's first byte to its last; 0 = no limit",
     &Config::session_read_s_max},
    {"session_write_s_max", "seconds a reply may wait to be read by its client; 0 = no limit",
     &Config::session_write_s_max},
    {"session_requests_max", "unanswered requests of one connection", &Config::session_requests_max},
    {"descriptors_reserved", "open files kept for the store; sessions_max is lowered where the limit of open files "
     "does not hold both", &Config::descriptors_reserved},
    {"request_bytes_max", "bytes of one request", &Config::request_bytes_max},
    {"requests_bytes_max", "bytes of all requests that are received or answered", &Config::requests_bytes_max},
    {"replies_bytes_max", "bytes of replies one connection may leave unread", &Config::replies_bytes_max},
    {"pool_threads", "threads for disk and import work", &Config::pool_threads},
    {"pool_queue_max", "requests waiting for those threads", &Config::pool_queue_max},
    {"workers", "compile processes; 0 = one for each processor that the cgroup gives", &Config::workers},
    {"admin_threads", "threads for queries that read the store", &Config::admin_threads},
    {"fast_bytes_max", "bytes of a request up to which it is looked at as it arrives", &Config::fast_bytes_max},
    {"list_entries_max", "entries in one answer of `list`", &Config::list_entries_max},
    {"worker_queue_max", "compiles waiting for a worker", &Config::worker_queue_max},
    {"worker_jobs_max", "compiles after which a worker is replaced", &Config::worker_jobs_max},
    {"worker_resident_bytes_max", "memory above which an idle worker is replaced; 0 = no limit",
     &Config::worker_resident_bytes_max},
    {"worker_memory_bytes_max", "address space of a worker; 0 = no limit",
     &Config::worker_memory_bytes_max},
    {"worker_wall_s_max", "seconds one compile may take", &Config::worker_wall_s_max},
    {"worker_cpu_s_max", "CPU seconds one compile may take; 0 = no limit", &Config::worker_cpu_s_max},
    {"worker_start_s_max", "seconds a worker may take to start", &Config::worker_start_s_max},
    {"worker_accept_s_max", "seconds a worker may take to say that it has a job", &Config::worker_accept_s_max},
    {"worker_output_bytes_max", "bytes of one artifact; 0 = no limit", &Config::worker_output_bytes_max},
    {"worker_backoff_ms_max", "longest pause before a worker is started after several were lost",
     &Config::worker_backoff_ms_max},
    {"worker_threads", "code generation threads of one compile; 0 = the compiler decides",
     &Config::worker_threads},
    {"prove_ms_max", "milliseconds for proving the kernels of one artifact", &Config::prove_ms_max},
    {"variants_max", "variants of one entry", &Config::variants_max},
    {"proven_max", "proven sizes of one variant", &Config::proven_max},
    {"gears_max", "sizes for which one template gets code of its own", &Config::gears_max},
    {"entries_cached_max", "entry records kept in memory", &Config::entries_cached_max},
    {"artifacts_cached_max", "artifacts kept as memory files", &Config::artifacts_cached_max},
    {"artifacts_cached_bytes_max", "bytes of artifacts kept as memory files",
     &Config::artifacts_cached_bytes_max},
    {"why_relatives_max", "newest entries of a function among which a miss looks for a relative",
     &Config::why_relatives_max},
    {"why_candidates_max", "stored entries compared to explain a miss", &Config::why_candidates_max},
    {"negative_retry_s", "seconds after which a crash or a timeout is tried again",
     &Config::negative_retry_s},
    {"differences_max", "differing items that `ingot diff` lists", &Config::differences_max},
    {"workload_window_s", "seconds of one window in which hits and misses are counted",
     &Config::workload_window_s},
    {"workload_windows_max", "windows counted apart, for each function", &Config::workload_windows_max},
    {"workload_functions_max", "functions whose hits and misses are counted",
     &Config::workload_functions_max},
    {"workload_keys_max", "keys remembered as served once", &Config::workload_keys_max},
    {"workload_lookups_min", "lookups before and of late below which `ingot doctor` does not judge",
     &Config::workload_lookups_min},
    {"workload_fall_percent", "points of a hundred that a hit ratio falls before `ingot doctor` says so",
     &Config::workload_fall_percent},
    {"store_bytes_max", "bytes of the store; eviction keeps it below", &Config::store_bytes_max},
    {"store_entries_max", "entries of the store; eviction keeps it below", &Config::store_entries_max},
    {"gc_interval_s", "seconds between two looks at the store's limits; 0 = after writes only",
     &Config::gc_interval_s},
    {"gc_age_s_max", "unused seconds after which a value is evicted; 0 = never", &Config::gc_age_s_max},
    {"gc_grace_s", "seconds during which eviction spares what was just written", &Config::gc_grace_s},
    {"tombstones_max", "evictions remembered to explain misses", &Config::tombstones_max},
};

std::string_view Trim(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

/// Cuts a comment that starts outside quotes.
std::string_view WithoutComment(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::span<const ConfigField> ConfigFields() { return kFields; }

Status SetField(Config& config, std::string_view name, std::string_view value) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const ConfigField& field : kFields) {
    if (wanted != field.name) continue;
    if (const auto* text = std::get_if<std::string Config::*>(&field.member)) {
      config.**text = std::string(value);
      return {};
    }
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) {
      return Error(Code::kInvalid,
                   fmt::format("'{}' must be a whole number of 0 or more, found '{}'", wanted, value));
    }
    config.*std::get<uint64_t Config::*>(field.member) = number;
    return {};
  }
  return Error(Code::kInvalid,
               fmt::format("no field '{}'; `ingot config` lists the fields there are", wanted));
}

std::string FieldText(const Config& config, const ConfigField& field) {
  if (const auto* text = std::get_if<std::string Config::*>(&field.member)) return config.**text;
  return std::to_string(config.*std::get<uint64_t Config::*>(field.member));
}

Status ApplyConfigText(Config& config, std::string_view text) {
  bool ours = false;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = Trim(WithoutComment(text.substr(0, end)));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    if (line.empty()) continue;
    if (line.front() == '[') {
      ours = line == "[daemon]";
      continue;
    }
    if (!ours) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return Error(Code::kInvalid, fmt::format("line {}: expected 'name = value'", number));
    }
    std::string_view value = Trim(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (Status set = SetField(config, Trim(line.substr(0, equals)), value); !set) {
      return std::move(set).error().Wrap(fmt::format("line {}", number));
    }
  }
  return {};
}

Status ApplyConfigFile(Config& config, const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error(Code::kInvalid, fmt::format("cannot read the configuration '{}'", path));
  std::ostringstream text;
  text << file.rdbuf();
  if (Status applied = ApplyConfigText(config, text.str()); !applied) {
    return std::move(applied).error().Wrap(path);
  }
  return {};
}

}  // namespace ingot::daemon
