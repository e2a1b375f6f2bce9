// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/tiers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "cache/index/indexed_blobs.h"
#include "cache/peer/remote_blobs.h"
#include "cache/peer/remote_index.h"
#include "cache/peer/remote_tokens.h"
#include "cache/redis/redis_index.h"
#include "cache/s3/s3_blobs.h"
#include "cache/s3/s3_index.h"
#include "cache/trust/private_file.h"
#include "daemon/cluster/trust_files.h"

namespace ingot::daemon {

cache::S3Options S3OptionsOf(const Config& config, const std::string& endpoint) {
  cache::S3Options options;
  options.endpoint = endpoint;
  options.bucket = config.cluster_blobs_bucket;
  options.region = config.cluster_blobs_region;
  return options;
}

TierPlaces PlacesOf(const Config& config) {
  TierPlaces places{config.cluster_index, config.cluster_blobs_endpoint};
  if (places.index.empty()) {
    places.index = places.blobs;
  } else if (places.blobs.empty() && cache::RemoteUrl::Is(places.index)) {
    places.blobs = places.index;
  }
  return places;
}

namespace {

bool IsStore(const std::string& place) { return place.starts_with("http://") || place.starts_with("https://"); }

/// A tier is one server: the keys of one are in no other.
Status CheckPlace(const char* field, const std::string& place) {
  std::istringstream in(place);
  size_t words = 0;
  for (std::string word; in >> word;) ++words;
  if (words <= 1) return {};
  return Error(Code::kInvalid,
               fmt::format("{} takes the address of one server, and found {}: '{}'. Name one of them, or one managed "
                           "endpoint. Where one server is too small, take a larger one, or one for each group of "
                           "machines",
                           field, words, place));
}

/// What opens the places of the tiers.
class Opener {
 public:
  Opener(boost::asio::io_context& io, const Config& config, const Digest& identity)
      : io_(io), config_(config), identity_(identity) {}

  Result<std::shared_ptr<cache::Index>> Index(const std::string& place) {
    if (cache::RemoteUrl::Is(place)) {
      TRY_ASSIGN(const cache::RemoteUrl url, cache::RemoteUrl::Parse(place));
      TRY_ASSIGN(auto client, ClientOf(url, 1));
      return std::shared_ptr<cache::Index>(std::make_shared<cache::RemoteIndex>(std::move(client)));
    }
    if (IsStore(place)) {
      cache::S3IndexOptions options;
      options.store = S3OptionsOf(config_, place);
      TRY_ASSIGN(std::shared_ptr<cache::S3Index> store, cache::S3Index::Open(std::move(options), leases_));
      return std::shared_ptr<cache::Index>(std::move(store));
    }
    cache::RedisIndexOptions options;
    options.url = place;
    if (!config_.cluster_index_password_file.empty()) {
      auto password = cache::ReadSecretFile(config_.cluster_index_password_file, "password");
      if (!password) return Error(password.error()).Wrap("cluster_index_password_file");
      options.client.password = *std::move(password);
    }
    options.client.connect_max = OfConnection(options.client.connect_max);
    options.client.silence_max = OfConnection(options.client.silence_max);
    TRY_ASSIGN(std::shared_ptr<cache::RedisIndex> server, cache::RedisIndex::Open(io_, std::move(options)));
    return std::shared_ptr<cache::Index>(std::move(server));
  }

  Result<std::shared_ptr<cache::BlobStore>> Blobs(const std::string& place) {
    if (cache::RemoteUrl::Is(place)) {
      TRY_ASSIGN(const cache::RemoteUrl url, cache::RemoteUrl::Parse(place));
      // Of their own, so that no look-up waits behind a blob.
      TRY_ASSIGN(auto client, ClientOf(url, kBlobConnections));
      return std::shared_ptr<cache::BlobStore>(std::make_shared<cache::RemoteBlobs>(std::move(client)));
    }
    TRY_ASSIGN(std::shared_ptr<cache::S3Blobs> store, cache::S3Blobs::Open(S3OptionsOf(config_, place)));
    return std::shared_ptr<cache::BlobStore>(std::move(store));
  }

 private:
  static constexpr size_t kBlobConnections = 4;

  /// Where calls may take long, their connection is not given up before they are.
  std::chrono::milliseconds OfConnection(std::chrono::milliseconds usual) const {
    return std::max(usual, std::chrono::milliseconds(config_.cluster_index_ms_max));
  }

  Result<std::shared_ptr<cache::RemoteClient>> ClientOf(const cache::RemoteUrl& url, size_t connections) const {
    cache::RemoteClientOptions options;
    options.url = url;
    options.connect_max = OfConnection(options.connect_max);
    options.silence_max = OfConnection(options.silence_max);
    options.url.place.ca_file = config_.cluster_ca;
    options.url.place.cert_file = config_.cluster_certificate;
    options.url.place.key_file = config_.cluster_certificate_key;
    if (config_.cluster_certificate.empty() != config_.cluster_certificate_key.empty()) {
      return Error(Code::kInvalid, "cluster_certificate and cluster_certificate_key go together");
    }
    options.token_file = config_.cluster_token_file;
    options.name = fmt::format("{}/{}", MachineName(config_), getpid());
    options.identity = identity_;
    options.connections_max = connections;
    // Files that cannot be used are found out now, not at the first look-up.
    if (!options.token_file.empty()) {
      const auto token = cache::ReadTokenFile(options.token_file);
      if (!token) return Error(token.error()).Wrap("cluster_token_file");
    }
    auto made = cache::MakeTransport(io_.get_executor(), options.url.place);
    if (!made) return std::move(made).error();
    return std::make_shared<cache::RemoteClient>(io_, std::move(options));
  }

  boost::asio::io_context& io_;
  const Config& config_;
  const Digest identity_;
  /// Where records are in S3: they hold on this machine.
  const std::shared_ptr<cache::LeaseTable> leases_ = std::make_shared<cache::LeaseTable>();
};

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

Result<std::unique_ptr<Tiers>> Tiers::Open(const Config& config, const Digest& identity) {
  std::unique_ptr<Tiers> tiers(new Tiers());
  const TierPlaces places = PlacesOf(config);
  if (places.index.empty()) return tiers;
  TRY(CheckPlace("cluster_index", config.cluster_index));
  TRY(CheckPlace("cluster_blobs_endpoint", config.cluster_blobs_endpoint));
  ClusterParts& parts = tiers->parts_;
  tiers->thread_ = std::make_unique<Thread>();
  Opener opener(tiers->thread_->io, config, identity);
  auto index = opener.Index(places.index);
  const char* const field = config.cluster_index.empty() ? "cluster_blobs_endpoint" : "cluster_index";
  if (!index) return std::move(index).error().Wrap(field);
  parts.index = *std::move(index);
  if (places.blobs.empty()) {
    parts.blobs = std::make_shared<cache::IndexedBlobs>(parts.index, config.cluster_index_blob_bytes_max);
  } else {
    auto blobs = opener.Blobs(places.blobs);
    if (!blobs) return std::move(blobs).error().Wrap("cluster_blobs_endpoint");
    parts.blobs = *std::move(blobs);
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
