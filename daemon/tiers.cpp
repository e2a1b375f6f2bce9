// SPDX-License-Identifier: Apache-2.0
#include "daemon/tiers.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "cache/indexed_blobs.h"
#include "cache/redis_index.h"
#include "cache/remote_blobs.h"
#include "cache/remote_index.h"
#include "cache/remote_tokens.h"
#include "cache/sharded_index.h"
#include "daemon/trust_files.h"

namespace ingot::daemon {

cache::S3Options BlobOptionsOf(const Config& config) {
  cache::S3Options blobs;
  blobs.endpoint = config.cluster_blobs_endpoint;
  blobs.bucket = config.cluster_blobs_bucket;
  blobs.region = config.cluster_blobs_region;
  return blobs;
}

namespace {

std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// A daemon that serves others. `connections`: blobs have some of their own, so that no look-up waits behind one.
Result<std::shared_ptr<cache::RemoteClient>> ClientOf(boost::asio::io_context& io, const Config& config,
                                                      const std::string& urls, size_t connections) {
  const std::vector<std::string> words = WordsOf(urls);
  if (words.size() != 1) {
    return Error(Code::kInvalid, "name one serving daemon (ingots://HOST:PORT); several that share keys are not "
                                 "supported, and Redis servers are none");
  }
  cache::RemoteClientOptions options;
  TRY_ASSIGN(options.url, cache::RemoteUrl::Parse(words.front()));
  options.url.place.ca_file = config.cluster_ca;
  options.url.place.cert_file = config.cluster_certificate;
  options.url.place.key_file = config.cluster_certificate_key;
  if (config.cluster_certificate.empty() != config.cluster_certificate_key.empty()) {
    return Error(Code::kInvalid, "cluster_certificate and cluster_certificate_key go together");
  }
  options.token_file = config.cluster_token_file;
  options.name = fmt::format("{}/{}", MachineName(config), getpid());
  options.connections_max = connections;
  // Files that cannot be used are found out now, not at the first look-up.
  if (!options.token_file.empty()) {
    const auto token = cache::ReadTokenFile(options.token_file);
    if (!token) return Error(token.error()).Wrap("cluster_token_file");
  }
  auto made = cache::MakeTransport(io.get_executor(), options.url.place);
  if (!made) return std::move(made).error();
  return std::make_shared<cache::RemoteClient>(io, std::move(options));
}

constexpr size_t kBlobConnections = 4;

Status OpenIndex(boost::asio::io_context& io, const Config& config, ClusterParts& parts) {
  if (cache::RemoteUrl::Is(config.cluster_index)) {
    TRY_ASSIGN(auto client, ClientOf(io, config, config.cluster_index, 1));
    parts.index = std::make_shared<cache::RemoteIndex>(std::move(client));
    return {};
  }
  cache::RedisIndexOptions options;
  options.urls = WordsOf(config.cluster_index);
  TRY_ASSIGN(const std::shared_ptr<cache::RedisIndex> servers, cache::RedisIndex::Open(io, std::move(options)));
  parts.index = servers;
  std::vector<cache::IndexShard> shards = servers->Shards();
  if (shards.size() > 1) {
    cache::ShardedIndexOptions sharding;
    sharding.breaker = BreakerLimitsOf(config);
    // Two that are silent fit into one call, and leave time for the third.
    sharding.answer_max = std::chrono::milliseconds(config.cluster_index_ms_max) * 2 / 5;
    parts.index = std::make_shared<cache::ShardedIndex>(std::move(shards), servers, SystemClock(), sharding);
  }
  return {};
}

Status OpenBlobs(boost::asio::io_context& io, const Config& config, ClusterParts& parts) {
  const bool is_served = cache::RemoteUrl::Is(config.cluster_index);
  const std::string& place =
      config.cluster_blobs_endpoint.empty() && is_served ? config.cluster_index : config.cluster_blobs_endpoint;
  if (place.empty()) {
    parts.blobs = std::make_shared<cache::IndexedBlobs>(parts.index, config.cluster_index_blob_bytes_max);
    return {};
  }
  if (cache::RemoteUrl::Is(place)) {
    TRY_ASSIGN(auto client, ClientOf(io, config, place, kBlobConnections));
    parts.blobs = std::make_shared<cache::RemoteBlobs>(std::move(client));
    return {};
  }
  TRY_ASSIGN(parts.blobs, cache::S3Blobs::Open(BlobOptionsOf(config)));
  return {};
}

}  // namespace

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
  tiers->thread_ = std::make_unique<Thread>();
  if (Status opened = OpenIndex(tiers->thread_->io, config, parts); !opened) {
    return std::move(opened).error().Wrap("cluster_index");
  }
  if (Status opened = OpenBlobs(tiers->thread_->io, config, parts); !opened) {
    return std::move(opened).error().Wrap("cluster_blobs_endpoint");
  }
  TRY_ASSIGN(TrustFiles files, OpenTrustFiles(config));
  parts.host = std::move(files.host);
  parts.key = std::move(files.key);
  parts.trust = std::move(files.trust);
  // What keeps it from being used now may be mended later; nothing is taken before.
  if (const Status trusts = parts.trust->Refresh(); !trusts) {
    LogWarn("takes nothing from the cluster", {{"reason", trusts.error()}});
  }
  return tiers;
}

}  // namespace ingot::daemon
