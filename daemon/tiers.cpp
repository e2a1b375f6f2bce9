// SPDX-License-Identifier: Apache-2.0
#include "daemon/tiers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <climits>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "cache/indexed_blobs.h"
#include "cache/redis_index.h"

namespace ingot::daemon {
namespace {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// `given`, or a file of that name in the directory of trust.
Result<std::string> TrustFile(const std::string& given, const char* name) {
  if (!given.empty()) return given;
  TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
  return directory + "/" + name;
}

}  // namespace

cache::S3Options BlobOptionsOf(const Config& config) {
  cache::S3Options blobs;
  blobs.endpoint = config.cluster_blobs_endpoint;
  blobs.bucket = config.cluster_blobs_bucket;
  blobs.region = config.cluster_blobs_region;
  return blobs;
}

struct Tiers::Thread {
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::thread thread{[this] { io.run(); }};

  ~Thread() {
    work.reset();
    io.stop();
    thread.join();
  }
};

Tiers::Tiers() = default;
Tiers::~Tiers() = default;

Result<std::unique_ptr<Tiers>> Tiers::Open(const Config& config) {
  std::unique_ptr<Tiers> tiers(new Tiers());
  if (config.cluster_index.empty()) return tiers;
  ClusterParts& parts = tiers->parts_;
  parts.host = config.cluster_host.empty() ? HostName() : config.cluster_host;
  tiers->thread_ = std::make_unique<Thread>();
  cache::RedisIndexOptions index;
  std::istringstream urls(config.cluster_index);
  for (std::string url; urls >> url;) index.urls.push_back(url);
  auto opened = cache::RedisIndex::Open(tiers->thread_->io, std::move(index));
  if (!opened) return std::move(opened).error().Wrap("cluster_index");
  const std::shared_ptr<cache::RedisIndex> servers = std::move(opened).value();
  std::vector<cache::IndexShard> shards = servers->Shards();
  parts.index = servers;
  if (shards.size() > 1) {
    parts.index = std::make_shared<cache::ShardedIndex>(std::move(shards), servers, SystemClock());
  }
  if (!config.cluster_blobs_endpoint.empty()) {
    auto store = cache::S3Blobs::Open(BlobOptionsOf(config));
    if (!store) return std::move(store).error().Wrap("cluster_blobs_endpoint");
    parts.blobs = std::move(store).value();
  } else {
    parts.blobs = std::make_shared<cache::IndexedBlobs>(parts.index, config.cluster_index_blob_bytes_max);
  }
  TRY_ASSIGN(const std::string key_file, TrustFile(config.cluster_key, "signing.key"));
  if (!config.cluster_key.empty() || std::filesystem::exists(key_file)) {
    Result<cache::SigningKey> key = cache::SigningKey::Load(key_file);
    if (!key) return std::move(key).error().Wrap("cluster_key");
    parts.key = std::make_shared<const cache::SigningKey>(std::move(key).value());
  }
  cache::Trust::Options trust;
  TRY_ASSIGN(trust.path, TrustFile(config.cluster_trust, "trust.toml"));
  TRY_ASSIGN(trust.quarantine_path, TrustFile("", "quarantine.toml"));
  if (parts.key != nullptr) trust.own = parts.key->public_key();
  parts.trust = std::make_shared<cache::Trust>(std::move(trust), SystemClock());
  // What keeps it from being used now may be mended later; nothing is taken before.
  if (const Status trusts = parts.trust->Refresh(); !trusts) {
    LogWarn("takes nothing from the cluster", {{"reason", trusts.error()}});
  }
  return tiers;
}

}  // namespace ingot::daemon
