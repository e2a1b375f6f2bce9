// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace ingot::daemon {

/// Every default and limit of the daemon.
///
/// Sources, later ones win: the defaults below, the `[daemon]` section of the file INGOT_CONFIG
/// names, the environment (INGOT_STORE_DIR, INGOT_SOCKET), flags (`--idle-exit-s 60`). Zero means "no limit" where a
/// field says so.
struct Config {
  std::string store_dir;       // Empty: proto::ResolveEndpoint decides.
  std::string socket;
  std::string log_file;        // Empty: <store>/ingotd.log when detached, else stderr.
  std::string log_level = "info";
  std::string worker;          // Empty: ingot-worker beside ingotd.
  std::string worker_sandbox = "auto";  // daemon/compile/sandbox.h

  uint64_t idle_exit_s = 900;
  uint64_t drain_s_max = 120;
  uint64_t exit_s_max = 10;

  std::string client_uids;
  std::string client_gids;
  std::string cluster_clients;
  uint64_t sessions_max = 1024;
  uint64_t sessions_reserved = 16;
  uint64_t peer_sessions_max = 128;
  uint64_t session_idle_s_max = 600;
  uint64_t session_read_s_max = 30;
  uint64_t session_write_s_max = 30;
  uint64_t session_requests_max = 64;
  uint64_t descriptors_reserved = 128;
  uint64_t request_bytes_max = 256u << 20;
  uint64_t requests_bytes_max = 1024u << 20;
  uint64_t replies_bytes_max = 64u << 20;
  uint64_t unread_bytes_max = 256u << 20;
  uint64_t pool_threads = 4;
  uint64_t pool_queue_max = 1024;
  uint64_t admin_threads = 2;
  uint64_t fast_bytes_max = 256u << 10;
  uint64_t list_entries_max = 16384;

  uint64_t workers = 0;
  uint64_t worker_queue_max = 256;
  uint64_t worker_jobs_max = 200;
  uint64_t worker_resident_bytes_max = 2048ull << 20;
  uint64_t worker_memory_bytes_max = 16384ull << 20;
  uint64_t worker_wall_s_max = 300;
  uint64_t worker_cpu_s_max = 1200;
  uint64_t worker_start_s_max = 20;
  uint64_t worker_accept_s_max = 30;
  uint64_t worker_output_bytes_max = 1024ull << 20;
  uint64_t worker_backoff_ms_max = 10'000;
  uint64_t worker_threads = 0;
  uint64_t prove_ms_max = 50;

  std::string tuning = "idle";  // daemon/tune/improving.h
  uint64_t tuning_idle_s = 30;
  uint64_t tuning_job_s_max = 120;
  uint64_t tuning_sizes_max = 16;
  uint64_t tuning_arena_steps = 1'000'000;
  uint64_t tuning_measure_ms = 20'000;
  uint64_t tuning_kernels_max = 4096;
  uint64_t tuning_entries_max = 4096;

  uint64_t variants_max = 32;
  uint64_t proven_max = 4096;
  uint64_t gears_max = 100;
  uint64_t entries_cached_max = 4096;
  uint64_t artifacts_cached_max = 1024;
  uint64_t artifacts_cached_bytes_max = 128ull << 20;
  uint64_t why_relatives_max = 1024;
  uint64_t why_candidates_max = 32;
  uint64_t negative_retry_s = 3600;

  uint64_t store_bytes_max = 20ull << 30;
  uint64_t store_entries_max = 1'000'000;
  uint64_t store_network = 0;
  uint64_t store_use_half_life_s = 7 * 86'400;
  uint64_t store_value_bytes_max = 2ull << 30;
  uint64_t store_chunk_bytes = 1u << 20;
  uint64_t store_disk_free_bytes_min = 256u << 20;
  uint64_t store_block_cache_bytes = 32u << 20;
  uint64_t store_write_buffer_bytes = 8u << 20;
  uint64_t store_files_open_max = 1024;
  uint64_t store_touches_max = 4096;
  uint64_t store_damages_max = 1000;
  uint64_t store_asides_max = 2;
  uint64_t builds_age_s_max = 30 * 86400;
  uint64_t place_check_s = 5;
  uint64_t gc_interval_s = 300;
  uint64_t gc_age_s_max = 0;
  uint64_t gc_grace_s = 600;
  uint64_t tombstones_max = 1024;

  std::string cluster_index;   // A Redis URL, or that of a serving daemon; empty: cluster_blobs_endpoint holds it.
  std::string cluster_index_password_file;
  std::string cluster_blobs_endpoint;
  std::string cluster_blobs_bucket;
  std::string cluster_blobs_region;
  std::string cluster_trust;
  std::string cluster_key;
  std::string cluster_host;    // Empty: the host name.
  std::string cluster_group;   // Of what this machine vouches for; trust domains are told by it.
  std::string cluster_ca;
  std::string cluster_certificate;
  std::string cluster_certificate_key;
  std::string cluster_token_file;
  uint64_t cluster_lookup_ms_max = 40;
  uint64_t cluster_compile_ms_max = 60'000;
  uint64_t cluster_index_ms_max = 1000;
  uint64_t cluster_blob_ms_max = 30'000;
  uint64_t cluster_pause_ms_max = 30'000;
  uint64_t cluster_send_tries_max = 10;
  uint64_t cluster_index_blob_bytes_max = 1u << 20;
  uint64_t cluster_miss_ms = 5000;
  uint64_t cluster_misses_max = 16384;
  uint64_t cluster_trust_check_s = 10;
  uint64_t cluster_shadow_one_in = 200;
  uint64_t cluster_shadow_idle_s = 5;
  uint64_t cluster_lease_ms = 5000;
  uint64_t cluster_variants_max = 64;
  uint64_t cluster_prefetch_entries_max = 1024;
  uint64_t cluster_prefetch_bytes_max = 1024ull << 20;
  uint64_t cluster_prefetch_parallel = 2;
  uint64_t cluster_job_quiet_s = 60;

  std::string web_listen;      // ADDRESS:PORT; empty: no page and no metrics.
  std::string web_token_file;
  std::string web_dot = "dot";
  uint64_t web_connections_max = 64;
  uint64_t web_threads = 2;
  uint64_t web_queries_max = 16;
  uint64_t web_header_bytes_max = 8192;
  uint64_t web_body_bytes_max = 4096;
  uint64_t web_request_s_max = 10;
  uint64_t web_idle_s_max = 60;
  uint64_t web_logins_max = 64;
  uint64_t web_login_s_max = 43'200;
  uint64_t web_sample_s = 5;
  uint64_t web_samples_max = 720;
  uint64_t web_misses_max = 50;
  uint64_t web_picture_s_max = 5;
  uint64_t web_picture_bytes_max = 8u << 20;
  uint64_t web_picture_memory_bytes_max = 1u << 30;

  uint64_t bundle_bytes_max = 256ull << 30;
  uint64_t bundle_members_max = 2'000'000;

  std::string serve_listen;    // Empty: no other daemon is served.
  std::string serve_certificate;
  std::string serve_key;
  std::string serve_client_ca;
  std::string serve_tokens;
  std::string serve_name;
  std::string serve_source = "store";
  std::string serve_dir;
  uint64_t serve_threads = 2;
  uint64_t serve_pool_threads = 4;
  uint64_t serve_sessions_max = 1024;
  uint64_t serve_handshakes_max = 64;
  uint64_t serve_peer_sessions_max = 128;
  uint64_t serve_handshake_s_max = 10;
  uint64_t serve_idle_s_max = 600;
  uint64_t serve_read_s_max = 30;
  uint64_t serve_write_s_max = 30;
  uint64_t serve_wait_s_max = 600;
  uint64_t serve_requests_max = 256;
  uint64_t serve_replies_bytes_max = 64u << 20;
  uint64_t serve_bytes_max = 2048ull << 20;
  uint64_t serve_blob_bytes_max = 1024ull << 20;
  uint64_t serve_leases_max = 65536;
  uint64_t serve_lease_ms_max = 3'600'000;
  uint64_t serve_store_bytes_max = 20ull << 30;
  uint64_t serve_store_entries_max = 1'000'000;

  uint64_t differences_max = 64;
  uint64_t workload_window_s = 3600;
  uint64_t workload_windows_max = 24;
  uint64_t workload_functions_max = 1024;
  uint64_t workload_keys_max = 65536;
  uint64_t workload_lookups_min = 8;
  uint64_t workload_fall_percent = 20;

  /// Where each field that was said was said: "/etc/ingot.toml:12", "INGOT_SOCKET", "--idle-exit-s".
  std::map<std::string, std::string, std::less<>> said;
  const std::string& SourceOf(std::string_view name) const;  ///< "default" where nobody said it.
};

/// One field of Config with its meaning, for files, flags, `ingot config` and the documents.
struct ConfigField {
  const char* name;
  const char* meaning;
  std::variant<uint64_t Config::*, std::string Config::*> member;
};
std::span<const ConfigField> ConfigFields();

/// kInvalid names the source and the field, or says what the value must be. `name` may use '-' for '_'.
Status SetField(Config& config, std::string_view name, std::string_view value, const std::string& source);
/// The value as text.
std::string FieldText(const Config& config, const ConfigField& field);

/// All fields: `name`, `value`, `default`, `source`, `meaning`.
nlohmann::ordered_json FieldsJson(const Config& config);

/// Applies the `[daemon]` section of a TOML text, and `store_dir` and `socket` in front of all sections, which say the
/// same to clients. Other sections belong to other programs. kInvalid: "FILE:LINE: ...".
Status ApplyConfigText(Config& config, std::string_view text, const std::string& file);
Status ApplyConfigFile(Config& config, const std::string& path);
/// The defaults, the file that INGOT_CONFIG names, and the environment.
Result<Config> ConfigOfEnvironment();

}  // namespace ingot::daemon
