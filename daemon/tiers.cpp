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
#include "cache/redis_index.h"
#include "cache/remote_blobs.h"
#include "cache/remote_index.h"
#include "cache/remote_tokens.h"
#include "cache/s3_blobs.h"

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
  options.name = fmt::format("{}/{}", HostName(), getpid());
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
  TRY_ASSIGN(parts.index, cache::RedisIndex::Open(io, std::move(options)));
  return {};
}

Status OpenBlobs(boost::asio::io_context& io, const Config& config, ClusterParts& parts) {
  const bool is_served = cache::RemoteUrl::Is(config.cluster_index);
  const std::string& place =
      config.cluster_blobs_endpoint.empty() && is_served ? config.cluster_index : config.cluster_blobs_endpoint;
  if (place.empty()) return {};
  if (cache::RemoteUrl::Is(place)) {
    TRY_ASSIGN(auto client, ClientOf(io, config, place, kBlobConnections));
    parts.blobs = std::make_shared<cache::RemoteBlobs>(std::move(client));
    return {};
  }
  cache::S3Options options;
  options.endpoint = place;
  options.bucket = config.cluster_blobs_bucket;
  options.region = config.cluster_blobs_region;
  TRY_ASSIGN(parts.blobs, cache::S3Blobs::Open(std::move(options)));
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
  parts.host = HostName();
  tiers->thread_ = std::make_unique<Thread>();
  if (Status opened = OpenIndex(tiers->thread_->io, config, parts); !opened) {
    return std::move(opened).error().Wrap("cluster_index");
  }
  if (Status opened = OpenBlobs(tiers->thread_->io, config, parts); !opened) {
    return std::move(opened).error().Wrap("cluster_blobs_endpoint");
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
