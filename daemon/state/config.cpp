// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/config.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

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
    {"client_uids",
     "other users that are served, each with entries of his own: numbers with spaces between; empty = none. They need "
     "a "
     "socket in a directory that they can enter (socket)",
     &Config::client_uids},
    {"client_gids",
     "groups that tell clients of one user apart: whoever is of one is served the entries of that group's alone; empty "
     "= "
     "none",
     &Config::client_gids},
    {"cluster_clients",
     "other users, or users with a group, whose entries are shared with other machines (\"1001 1002:2001\"); empty = "
     "none",
     &Config::cluster_clients},
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
    {"descriptors_reserved",
     "open files kept for logs, locks and the like; sessions_max is lowered where the limit of open files "
     "does not hold both",
     &Config::descriptors_reserved},
    {"request_bytes_max", "bytes of one request", &Config::request_bytes_max},
    {"requests_bytes_max", "bytes of all requests that are received or answered", &Config::requests_bytes_max},
    {"replies_bytes_max", "bytes of replies one connection may leave unread", &Config::replies_bytes_max},
    {"unread_bytes_max", "bytes of replies all connections together may leave unread", &Config::unread_bytes_max},
    {"pool_threads", "threads for lookups that read the disk, and as many for compiles and writes",
     &Config::pool_threads},
    {"pool_queue_max", "requests waiting for those threads", &Config::pool_queue_max},
    {"workers", "compile processes; 0 = one for each processor that the cgroup gives", &Config::workers},
    {"admin_threads", "threads for queries that read the store", &Config::admin_threads},
    {"fast_bytes_max", "bytes of a request up to which it is looked at as it arrives", &Config::fast_bytes_max},
    {"list_entries_max", "entries in one answer of `list`", &Config::list_entries_max},
    {"worker_queue_max", "compiles waiting for a worker", &Config::worker_queue_max},
    {"worker_jobs_max", "compiles after which a worker is replaced", &Config::worker_jobs_max},
    {"worker_resident_bytes_max", "memory above which an idle worker is replaced; 0 = no limit",
     &Config::worker_resident_bytes_max},
    {"worker_memory_bytes_max", "address space of a worker; 0 = no limit", &Config::worker_memory_bytes_max},
    {"worker_wall_s_max", "seconds one compile may take", &Config::worker_wall_s_max},
    {"worker_cpu_s_max", "CPU seconds one compile may take; 0 = no limit", &Config::worker_cpu_s_max},
    {"worker_start_s_max", "seconds a worker may take to start", &Config::worker_start_s_max},
    {"worker_accept_s_max", "seconds a worker may take to say that it has a job", &Config::worker_accept_s_max},
    {"worker_output_bytes_max", "bytes of one artifact; 0 = no limit", &Config::worker_output_bytes_max},
    {"worker_backoff_ms_max", "longest pause before a worker is started after several were lost",
     &Config::worker_backoff_ms_max},
    {"worker_threads", "code generation threads of one compile; 0 = the compiler decides", &Config::worker_threads},
    {"prove_ms_max", "milliseconds for proving the kernels of one artifact", &Config::prove_ms_max},
    {"tuning",
     "when artifacts are improved after they were served: idle = while the machine has nothing else to do, off",
     &Config::tuning},
    {"tuning_idle_s", "seconds without a compile and with a free processor after which the machine counts as idle",
     &Config::tuning_idle_s},
    {"tuning_job_s_max", "seconds that one artifact may be worked on", &Config::tuning_job_s_max},
    {"tuning_sizes_max", "sizes of one artifact for which it is improved", &Config::tuning_sizes_max},
    {"tuning_arena_steps", "steps of the search for a smaller arena, at each of those sizes; 0 = none",
     &Config::tuning_arena_steps},
    {"tuning_measure_ms", "milliseconds that measuring an artifact's kernels may take at a time; 0 = none is measured",
     &Config::tuning_measure_ms},
    {"tuning_kernels_max", "kernels of which it is kept which schedule is the fastest", &Config::tuning_kernels_max},
    {"tuning_entries_max", "entries that wait to be looked at, and of those that were, remembered",
     &Config::tuning_entries_max},
    {"variants_max", "variants of one entry", &Config::variants_max},
    {"proven_max", "proven sizes of one variant", &Config::proven_max},
    {"gears_max", "sizes for which one template gets code of its own", &Config::gears_max},
    {"entries_cached_max", "entry records kept in memory", &Config::entries_cached_max},
    {"artifacts_cached_max", "artifacts kept as memory files", &Config::artifacts_cached_max},
    {"artifacts_cached_bytes_max", "bytes of artifacts kept as memory files", &Config::artifacts_cached_bytes_max},
    {"why_relatives_max", "newest entries of a function among which a miss looks for a relative",
     &Config::why_relatives_max},
    {"why_candidates_max", "stored entries compared to explain a miss", &Config::why_candidates_max},
    {"negative_retry_s", "seconds after which a crash or a timeout is tried again", &Config::negative_retry_s},
    {"cluster_index",
     "URL of the Redis server, or of the serving daemon (ingots://HOST:PORT), that holds the shared index; empty = the "
     "store of cluster_blobs_endpoint, or none",
     &Config::cluster_index},
    {"cluster_index_password_file",
     "file with the password of the Redis server's user, mode 0600; empty = nobody logs in",
     &Config::cluster_index_password_file},
    {"cluster_blobs_endpoint",
     "URL of the S3-compatible store, or of the serving daemon, that holds shared artifacts; empty = the serving "
     "daemon "
     "of cluster_index, or none",
     &Config::cluster_blobs_endpoint},
    {"cluster_blobs_bucket", "its bucket", &Config::cluster_blobs_bucket},
    {"cluster_blobs_region", "its region; empty: AWS_REGION or ~/.aws", &Config::cluster_blobs_region},
    {"cluster_trust", "file that says whose artifacts are taken; empty: trust.toml beside `ingot trust`'s keys",
     &Config::cluster_trust},
    {"cluster_key", "private key that signs what is shared; empty: signing.key there, and nothing is shared without",
     &Config::cluster_key},
    {"cluster_host", "what this machine calls itself to others; empty: its host name", &Config::cluster_host},
    {"cluster_group", "team or project in whose name artifacts are shared", &Config::cluster_group},
    {"cluster_ca", "PEM file of authorities that vouch for serving daemons; empty = the system's", &Config::cluster_ca},
    {"cluster_certificate", "PEM file of the certificate that they are shown; empty = none",
     &Config::cluster_certificate},
    {"cluster_certificate_key", "PEM file of its key, mode 0600", &Config::cluster_certificate_key},
    {"cluster_token_file", "file with the token that they are shown, mode 0600; empty = none",
     &Config::cluster_token_file},
    {"cluster_lookup_ms_max", "milliseconds a lookup waits for the cluster; what comes later serves the next",
     &Config::cluster_lookup_ms_max},
    {"cluster_compile_ms_max", "milliseconds a compile waits for what the cluster has",
     &Config::cluster_compile_ms_max},
    {"cluster_index_ms_max", "milliseconds one call of the shared index may take; longer: the tier is in trouble",
     &Config::cluster_index_ms_max},
    {"cluster_blob_ms_max", "milliseconds one artifact may take; reading takes no longer than compiling it again",
     &Config::cluster_blob_ms_max},
    {"cluster_pause_ms_max", "milliseconds for which a tier that fails is left alone at most",
     &Config::cluster_pause_ms_max},
    {"cluster_send_tries_max", "times that an entry is offered to a tier that takes others; then it is not shared",
     &Config::cluster_send_tries_max},
    {"cluster_index_blob_bytes_max", "bytes of one artifact in the shared index, where no store of blobs is configured",
     &Config::cluster_index_blob_bytes_max},
    {"cluster_miss_ms", "milliseconds for which an entry that nobody has is not asked for again",
     &Config::cluster_miss_ms},
    {"cluster_misses_max", "such entries remembered", &Config::cluster_misses_max},
    {"cluster_trust_check_s", "seconds between two looks at whether the trust file has changed",
     &Config::cluster_trust_check_s},
    {"cluster_shadow_one_in", "one fetched artifact in so many is compiled again in idle time and compared; 0 = none",
     &Config::cluster_shadow_one_in},
    {"cluster_shadow_idle_s", "seconds without a compile after which the machine counts as idle",
     &Config::cluster_shadow_idle_s},
    {"cluster_lease_ms", "milliseconds after which a compile of a machine that fell silent is taken over",
     &Config::cluster_lease_ms},
    {"cluster_variants_max", "variants in one entry of the shared index", &Config::cluster_variants_max},
    {"cluster_prefetch_entries_max",
     "entries of one job that are noted, and brought when it looks up the first of "
     "them on another machine; 0 = neither",
     &Config::cluster_prefetch_entries_max},
    {"cluster_prefetch_bytes_max", "bytes of artifacts that are brought so for one job",
     &Config::cluster_prefetch_bytes_max},
    {"cluster_prefetch_parallel", "entries that are brought so at one time", &Config::cluster_prefetch_parallel},
    {"cluster_job_quiet_s", "seconds without another entry after which what a job that goes on has used is noted",
     &Config::cluster_job_quiet_s},
    {"web_listen",
     "ADDRESS:PORT of the web page and of /metrics, as 127.0.0.1:9464 or [::1]:0 (0 = any free port); "
     "empty = none",
     &Config::web_listen},
    {"web_token_file",
     "file of mode 0600 whose token readers of the page must know; every address that is not "
     "loopback needs one, loopback serves this user's programs alone without",
     &Config::web_token_file},
    {"web_dot", "graphviz's program that draws graphs; empty = they are shown as text", &Config::web_dot},
    {"web_connections_max", "connections of browsers at one time; over it the longest idle one makes room",
     &Config::web_connections_max},
    {"web_threads", "threads that answer the page", &Config::web_threads},
    {"web_queries_max", "requests of the page waiting for those threads", &Config::web_queries_max},
    {"web_header_bytes_max", "bytes of a request's line and headers", &Config::web_header_bytes_max},
    {"web_body_bytes_max", "bytes of a request's body", &Config::web_body_bytes_max},
    {"web_request_s_max", "seconds from a request's first byte to its last, for its answer, and for that to be read",
     &Config::web_request_s_max},
    {"web_idle_s_max", "seconds after which a browser's connection without a request is closed",
     &Config::web_idle_s_max},
    {"web_logins_max", "browsers that are logged in; over it the first one is logged out", &Config::web_logins_max},
    {"web_login_s_max", "seconds after which a browser must log in again", &Config::web_login_s_max},
    {"web_sample_s", "seconds between two samples of the counters that the page draws", &Config::web_sample_s},
    {"web_samples_max", "samples kept", &Config::web_samples_max},
    {"web_misses_max", "newest misses kept for the page", &Config::web_misses_max},
    {"web_picture_s_max", "seconds that drawing one graph may take", &Config::web_picture_s_max},
    {"web_picture_bytes_max", "bytes of one graph's picture", &Config::web_picture_bytes_max},
    {"web_picture_memory_bytes_max", "memory that drawing one graph may take", &Config::web_picture_memory_bytes_max},
    {"bundle_bytes_max", "bytes of one bundle (`ingot export`, `ingot import`)", &Config::bundle_bytes_max},
    {"bundle_members_max", "entries, artifacts and texts in one bundle", &Config::bundle_members_max},
    {"serve_listen", "where other daemons are served: HOST:PORT; empty = nowhere. Flag: --serve",
     &Config::serve_listen},
    {"serve_certificate", "PEM file of the certificate that they are shown", &Config::serve_certificate},
    {"serve_key", "PEM file of its key, mode 0600", &Config::serve_key},
    {"serve_client_ca",
     "PEM file of authorities of which other daemons must show a certificate; empty = none is asked for",
     &Config::serve_client_ca},
    {"serve_tokens",
     "file of `ingot token` that says who is served; empty = whoever has a certificate of serve_client_ca",
     &Config::serve_tokens},
    {"serve_name", "name for which tokens are issued; empty = this machine's", &Config::serve_name},
    {"serve_source",
     "what is served: store = a store of its own, cluster = the tiers that cluster_index and cluster_blobs_endpoint "
     "name",
     &Config::serve_source},
    {"serve_dir", "directory of the served store; empty = serve in the store's directory", &Config::serve_dir},
    {"serve_threads", "threads that talk to other daemons", &Config::serve_threads},
    {"serve_pool_threads", "threads that read and write what is served", &Config::serve_pool_threads},
    {"serve_sessions_max", "connections of other daemons; over it the longest idle one makes room",
     &Config::serve_sessions_max},
    {"serve_handshakes_max", "connections that have not said who they are yet; over it the oldest is closed",
     &Config::serve_handshakes_max},
    {"serve_peer_sessions_max", "connections of one address; 0 = no limit", &Config::serve_peer_sessions_max},
    {"serve_handshake_s_max", "seconds until a connection must have said who it is", &Config::serve_handshake_s_max},
    {"serve_idle_s_max", "seconds after which a connection without a request is closed; 0 = never",
     &Config::serve_idle_s_max},
    {"serve_read_s_max", "seconds from the first byte of a request or a piece of a blob to its last",
     &Config::serve_read_s_max},
    {"serve_write_s_max", "seconds a reply or a piece of a blob may wait to be read", &Config::serve_write_s_max},
    {"serve_wait_s_max", "seconds one request may take, with the blob that comes with it", &Config::serve_wait_s_max},
    {"serve_requests_max", "unanswered requests of one connection", &Config::serve_requests_max},
    {"serve_replies_bytes_max", "bytes of replies, without blobs, that one connection may leave unread",
     &Config::serve_replies_bytes_max},
    {"serve_bytes_max", "bytes of requests and blobs on their way in or out", &Config::serve_bytes_max},
    {"serve_blob_bytes_max", "bytes of one blob", &Config::serve_blob_bytes_max},
    {"serve_leases_max", "leases that are held at one time", &Config::serve_leases_max},
    {"serve_lease_ms_max", "milliseconds for which a lease is given", &Config::serve_lease_ms_max},
    {"serve_store_bytes_max", "bytes of the served store; eviction keeps it below", &Config::serve_store_bytes_max},
    {"serve_store_entries_max", "entries of the served store; eviction keeps it below",
     &Config::serve_store_entries_max},
    {"differences_max", "differing items that `ingot diff` lists", &Config::differences_max},
    {"workload_window_s", "seconds of one window in which hits and misses are counted", &Config::workload_window_s},
    {"workload_windows_max", "windows counted apart, for each function", &Config::workload_windows_max},
    {"workload_functions_max", "functions whose hits and misses are counted", &Config::workload_functions_max},
    {"workload_keys_max", "keys remembered as served once", &Config::workload_keys_max},
    {"workload_lookups_min", "lookups before and of late below which `ingot doctor` does not judge",
     &Config::workload_lookups_min},
    {"workload_fall_percent", "points of a hundred that a hit ratio falls before `ingot doctor` says so",
     &Config::workload_fall_percent},
    {"store_bytes_max", "bytes of the store; eviction keeps it below", &Config::store_bytes_max},
    {"store_entries_max", "entries of the store; eviction keeps it below", &Config::store_entries_max},
    {"store_network", "1: a store on a network file system is used, where a database is not safe",
     &Config::store_network},
    {"store_use_half_life_s", "seconds after which uses count half in what is evicted first",
     &Config::store_use_half_life_s},
    {"store_value_bytes_max", "bytes above which a value is refused", &Config::store_value_bytes_max},
    {"store_chunk_bytes", "bytes of the pieces in which larger values are stored", &Config::store_chunk_bytes},
    {"store_disk_free_bytes_min", "free bytes of the disk below which nothing is written",
     &Config::store_disk_free_bytes_min},
    {"store_block_cache_bytes", "bytes of the database's blocks kept in memory", &Config::store_block_cache_bytes},
    {"store_write_buffer_bytes", "bytes of rows not yet in files of the database", &Config::store_write_buffer_bytes},
    {"store_files_open_max",
     "files of the database kept open; at most a quarter of what the limit of open files allows",
     &Config::store_files_open_max},
    {"store_touches_max", "values whose uses are written at once", &Config::store_touches_max},
    {"store_damages_max", "reports of damaged values kept", &Config::store_damages_max},
    {"store_asides_max", "unreadable databases kept beside the store", &Config::store_asides_max},
    {"builds_age_s_max", "seconds after which what an unused other build left in the store is removed; 0 = never",
     &Config::builds_age_s_max},
    {"place_check_s", "seconds between two looks whether the store and the socket are still in their place",
     &Config::place_check_s},
    {"gc_interval_s", "seconds between two looks at the store's limits; 0 = after writes only", &Config::gc_interval_s},
    {"gc_age_s_max", "unused seconds after which a value is evicted; 0 = never", &Config::gc_age_s_max},
    {"gc_grace_s", "seconds during which eviction spares what was just written", &Config::gc_grace_s},
    {"tombstones_max", "evictions remembered to explain misses", &Config::tombstones_max},
};

/// A TOML value as SetField reads it; without a value it is of a kind that no field has.
std::optional<std::string> TextOf(const toml::node& node, bool is_text) {
  if (const auto* text = node.as_string(); text != nullptr && is_text) return text->get();
  if (const auto* number = node.as_integer(); number != nullptr && !is_text) return std::to_string(number->get());
  return std::nullopt;
}

/// The value as it stands in the file.
std::string Written(const toml::node& node) {
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return out.str();
}

const ConfigField* FieldNamed(std::string_view name) {
  for (const ConfigField& field : kFields) {
    if (name == field.name) return &field;
  }
  return nullptr;
}

Error UnknownField(std::string_view name, const std::string& source) {
  return Error(Code::kInvalid,
               fmt::format("{}: no field '{}'; `ingot config` lists the fields there are", source, name));
}

/// Whether a word of a text may be meant as one with a password: USER:PASSWORD@ with or without a scheme, whatever
/// stands in the password, or a parameter of that name. What is refused by mistake is a name that nobody gives.
bool HasPassword(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::istringstream words(lower);
  for (std::string word; words >> word;) {
    const size_t scheme = word.find("://"), at = word.rfind('@');
    const std::string before = word.substr(0, at).substr(scheme < at ? scheme + 3 : 0);
    if (at != std::string::npos && (before.find(':') != std::string::npos || before.find("%3a") != std::string::npos)) {
      return true;
    }
    for (size_t next = word.find('?'); next != std::string::npos; next = word.find('&', next + 1)) {
      const std::string_view name = std::string_view(word).substr(next + 1, word.find('=', next) - next - 1);
      if (name.starts_with("pass") || name.starts_with("secret")) return true;
    }
  }
  return false;
}

Error WrongValue(std::string_view name, bool is_text, std::string_view found, const std::string& source) {
  return Error(Code::kInvalid, fmt::format("{}: '{}' must be {}, found {}", source, name,
                                           is_text ? "a text in quotes" : "a whole number of 0 or more", found));
}

}  // namespace

std::span<const ConfigField> ConfigFields() { return kFields; }

const std::string& Config::SourceOf(std::string_view name) const {
  static const std::string kDefault = "default";
  const auto at = said.find(name);
  return at == said.end() ? kDefault : at->second;
}

Status SetField(Config& config, std::string_view name, std::string_view value, const std::string& source) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  const ConfigField* field = FieldNamed(wanted);
  if (field == nullptr) return UnknownField(wanted, source);
  if (const auto* text = std::get_if<std::string Config::*>(&field->member)) {
    if (HasPassword(value)) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} has a password in a URL; settings are shown to whoever asks: put it into a file "
                               "of mode 0600 that {} names",
                               source, field->name,
                               wanted == "cluster_index" ? "cluster_index_password_file" : "a setting for it"));
    }
    config.** text = std::string(value);
  } else {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) {
      return WrongValue(wanted, false, fmt::format("'{}'", value), source);
    }
    config.*std::get<uint64_t Config::*>(field->member) = number;
  }
  config.said[wanted] = source;
  return {};
}

nlohmann::ordered_json FieldsJson(const Config& config) {
  nlohmann::ordered_json fields = nlohmann::ordered_json::array();
  const Config defaults;
  for (const ConfigField& field : kFields) {
    fields.push_back({{"name", field.name},
                      {"value", FieldText(config, field)},
                      {"default", FieldText(defaults, field)},
                      {"source", config.SourceOf(field.name)},
                      {"meaning", field.meaning}});
  }
  return fields;
}

std::string FieldText(const Config& config, const ConfigField& field) {
  if (const auto* text = std::get_if<std::string Config::*>(&field.member)) return config.**text;
  return std::to_string(config.*std::get<uint64_t Config::*>(field.member));
}

Status ApplyConfigText(Config& config, std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Error(Code::kInvalid, fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
  const toml::table& all = parsed.table();
  const toml::node* daemon = all.get("daemon");
  if (daemon != nullptr && !daemon->is_table()) {
    return Error(Code::kInvalid,
                 fmt::format("{}:{}: 'daemon' must be a table, [daemon]", file, daemon->source().begin.line));
  }
  // What stands in [daemon] comes last, and counts.
  std::vector<std::pair<const toml::key*, const toml::node*>> found;
  for (const auto& [key, node] : all) {
    if (key.str() == "store_dir" || key.str() == "socket") found.emplace_back(&key, &node);
  }
  if (daemon != nullptr) {
    for (const auto& [key, node] : *daemon->as_table()) found.emplace_back(&key, &node);
  }
  for (const auto& [at, value_of] : found) {
    const toml::key& key = *at;
    const toml::node& node = *value_of;
    const std::string source = fmt::format("{}:{}", file, key.source().begin.line);
    const ConfigField* field = FieldNamed(key.str());
    if (field == nullptr) return UnknownField(key.str(), source);
    const bool is_text = std::holds_alternative<std::string Config::*>(field->member);
    const std::optional<std::string> value = TextOf(node, is_text);
    if (!value) return WrongValue(key.str(), is_text, Written(node), source);
    TRY(SetField(config, key.str(), *value, source));
  }
  return {};
}

Status ApplyConfigFile(Config& config, const std::string& path) {
  // It names programs that are run, and files with passwords.
  struct stat found{};
  if (stat(path.c_str(), &found) == 0) {
    const bool is_kept = (found.st_uid == geteuid() || found.st_uid == 0) && (found.st_mode & S_IWOTH) == 0;
    if (!is_kept) {
      return Error(
          Code::kInvalid,
          fmt::format("the configuration '{}' can be written by others (user {}, mode {:o}), who could say what "
                      "is run: it must be this user's or root's, and written by nobody else (chmod o-w)",
                      path, found.st_uid, found.st_mode & 07777));
    }
  }
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text) {
    return Error(Code::kInvalid, fmt::format("cannot read the configuration '{}', which INGOT_CONFIG names", path));
  }
  return ApplyConfigText(config, text.str(), path);
}

Result<Config> ConfigOfEnvironment() {
  Config config;
  const auto said = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string file = said("INGOT_CONFIG"); !file.empty()) TRY(ApplyConfigFile(config, file));
  const std::pair<const char*, const char*> places[] = {{"INGOT_STORE_DIR", "store_dir"}, {"INGOT_SOCKET", "socket"}};
  for (const auto& [variable, field] : places) {
    if (const std::string value = said(variable); !value.empty()) TRY(SetField(config, field, value, variable));
  }
  return config;
}

}  // namespace ingot::daemon
