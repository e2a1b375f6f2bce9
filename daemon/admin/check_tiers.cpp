// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/check_tiers.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/peer/remote_url.h"
#include "cache/s3/s3_check.h"
#include "cache/store/memory_store.h"
#include "daemon/admin/check_serve.h"
#include "daemon/cluster/tiers.h"
#include "daemon/serve/serve.h"

namespace ingot::daemon {
namespace {

using cache::Record;
using cache::RecordKey;
using Json = nlohmann::ordered_json;
using std::chrono::steady_clock;

/// Runs a coroutine to its end.
template <typename T>
Result<T> Run(boost::asio::thread_pool& pool, Task<T> task) {
  std::promise<Result<T>> promise;
  auto future = promise.get_future();
  const auto run = [](Task<T> inner, std::promise<Result<T>> to) -> boost::asio::awaitable<void> {
    Result<T> result = co_await std::move(inner);
    to.set_value(std::move(result));
  };
  boost::asio::co_spawn(pool, run(std::move(task), std::move(promise)), boost::asio::detached);
  return future.get();
}

/// A record is written, read and deleted, a lease taken and given back. What that took, in words.
Task<std::string> TryIndex(std::shared_ptr<cache::Index> index, std::string host, Until until) {
  const RecordKey name{cache::Table::kGraphs, RandomDigest()};
  Buffer value(64, 7);
  const auto began = steady_clock::now();
  const cache::RecordFacts facts;
  CO_TRY_ASSIGN(const uint64_t version, co_await index->CompareAndSet(name, 0, value, facts, until));
  const auto written = steady_clock::now();
  std::vector<RecordKey> names = {name};
  CO_TRY_ASSIGN(const std::vector<Record> records, co_await index->Get(std::move(names), until));
  if (version == 0 || records.front().value != value) {
    co_return Error(Code::kCorrupt,
                    "a record that was written is not what is read: is another program using this "
                    "prefix, or is it a replica that lags behind?");
  }
  CO_TRY(co_await index->CompareAndDelete(name, version, until));
  CO_TRY_ASSIGN(const cache::Lease lease,
                co_await index->Acquire(name.digest, std::move(host), std::chrono::seconds(5), until));
  CO_TRY(co_await index->Release(name.digest, lease.fence, until));
  co_return fmt::format("a record can be written ({:.1f} ms), read and deleted, a lease taken and given back",
                        std::chrono::duration<double, std::milli>(written - began).count());
}

void CheckIndex(const Config& config, const std::string& place, const Digest& identity, boost::asio::thread_pool& pool,
                Until until, Checks& checks) {
  Config one = config;
  one.cluster_index = place;
  one.cluster_blobs_endpoint.clear();
  auto opened = Tiers::Open(one, identity);
  if (!opened) return checks.AddError("cluster index", opened.error());
  const std::shared_ptr<cache::Index> index = (*opened)->parts().index;
  const auto said = Run(pool, TryIndex(index, (*opened)->parts().host, until));
  if (said) return checks.Add("cluster index", true, index->Describe() + ": " + *said);
  checks.AddError("cluster index", Error(said.error()).Wrap(index->Describe()));
}

void CheckBlobs(const Config& config, const std::string& place, const Digest& identity, boost::asio::thread_pool& pool,
                Until until, Checks& checks) {
  if (!cache::RemoteUrl::Is(place)) {
    const auto store = cache::S3Client::Open(S3OptionsOf(config, place), cache::ProcessEnvironment);
    if (!store) return checks.AddError("cluster blobs", store.error());
    const auto abilities = Run(pool, cache::CheckS3(**store, until));
    if (!abilities) return checks.AddError("cluster blobs", abilities.error());
    checks.Add("cluster blobs", abilities->is_enough(), (*store)->Describe());
    for (const std::string& line : abilities->lines) checks.Add("", abilities->is_enough(), line);
    return;
  }
  Config one = config;
  one.cluster_index = place;
  one.cluster_blobs_endpoint.clear();
  auto opened = Tiers::Open(one, identity);
  if (!opened) return checks.AddError("cluster blobs", opened.error());
  const std::shared_ptr<cache::BlobStore> blobs = (*opened)->parts().blobs;
  std::vector<Digest> names = {RandomDigest()};
  const auto has = Run(pool, blobs->Has(std::move(names), until));
  if (has) return checks.Add("cluster blobs", true, blobs->Describe() + ": can be asked");
  checks.AddError("cluster blobs", Error(has.error()).Wrap(blobs->Describe()));
}

/// As it would serve, at its address, unless somebody does already: then that one is looked at.
std::unique_ptr<Serve> OpenServe(const Config& config, const ClusterParts& parts, const Digest& identity,
                                 cache::Index& own_index, cache::BlobStore& own_blobs, Checks& checks) {
  ServePorts ports;
  ports.index = std::shared_ptr<cache::Index>(&own_index, [](cache::Index*) {});
  ports.blobs = std::shared_ptr<cache::BlobStore>(&own_blobs, [](cache::BlobStore*) {});
  if (config.serve_source == "cluster" && parts.index != nullptr) {
    ports.index = parts.index;
    ports.blobs = parts.blobs;
    ports.asks_as = identity;
  }
  auto opened = Serve::Open(config, std::move(ports));
  if (opened) return std::move(opened).value();
  const bool is_taken = opened.error().code() == Code::kUnavailable;
  checks.Add("serving", is_taken,
             is_taken ? opened.error().ToText() + " (by the daemon that runs, if that is the reason)"
                      : opened.error().ToText());
  return nullptr;
}

void CheckTrust(const Config& config, const ClusterParts& parts, Checks& checks) {
  if (parts.key == nullptr) {
    checks.Add("signing key", true, "none: this machine takes and gives nothing. `ingot trust keygen NAME` makes one");
  }
  if (const Status trusts = parts.trust->Refresh(); !trusts) {
    checks.Add("trust", false, "nothing is taken: " + trusts.error().ToText());
    return;
  }
  const auto policy = parts.trust->policy();
  checks.Add("trust", true,
             fmt::format("takes what one of {} keys has signed, in {} domains", policy->keys().size(),
                         policy->domains().size()));
  for (const std::string& warning : policy->warnings()) checks.Add("trust", false, warning);
  if (parts.key == nullptr) return;
  const cache::PublicKey& own = parts.key->public_key();
  const bool is_trusted = policy->Find(own.id()) != nullptr;
  checks.Add("signing key", is_trusted,
             fmt::format("{} ({})", own.name, own.id().ToHex()) +
                 (is_trusted ? ""
                             : "; this machine's own trust file does not have it, and if other machines' have not "
                               "either, they take nothing from here: `ingot trust add \"" +
                                   own.ToLine() + "\"`"));
  if (!config.cluster_group.empty()) checks.Add("group", true, config.cluster_group);
}

}  // namespace

Json CheckTiers(const Config& config, uint64_t timeout_s) {
  Checks checks;
  const std::chrono::seconds timeout(timeout_s);
  const TierPlaces places = PlacesOf(config);
  // The same for what serves and for what asks: so it is noticed where one leads to the other.
  const Digest identity = RandomDigest();
  auto tiers = Tiers::Open(config, identity);
  if (!tiers) checks.AddError("configuration", tiers.error());
  const ClusterParts parts = tiers ? (*tiers)->parts() : ClusterParts();
  cache::MemoryStore own;
  cache::LocalIndex own_index(own);
  cache::LocalBlobs own_blobs(own);
  std::unique_ptr<Serve> serve;
  if (!config.serve_listen.empty()) {
    serve = OpenServe(config, parts, identity, own_index, own_blobs, checks);
    CheckServe(config, timeout, SystemClock(), checks);
  }
  if (places.index.empty()) {
    checks.Add("cluster index", true, "none (cluster_index): nothing is shared with other machines");
    return std::move(checks).Finish();
  }
  if (!tiers) return std::move(checks).Finish();
  boost::asio::thread_pool pool(2);
  CheckIndex(config, places.index, identity, pool, Until::In(timeout), checks);
  if (!places.blobs.empty()) {
    CheckBlobs(config, places.blobs, identity, pool, Until::In(timeout), checks);
  } else {
    checks.Add("cluster blobs", true,
               fmt::format("none (cluster_blobs_endpoint): artifacts of up to {} KiB are shared through the index",
                           config.cluster_index_blob_bytes_max >> 10));
  }
  CheckTrust(config, parts, checks);
  pool.join();
  return std::move(checks).Finish();
}

}  // namespace ingot::daemon
