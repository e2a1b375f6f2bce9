// SPDX-License-Identifier: Apache-2.0
#include "daemon/check_tiers.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "cache/redis_index.h"
#include "daemon/tiers.h"

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

/// A name that nobody else uses.
Digest SomeName() {
  std::random_device random;
  Hasher hasher;
  hasher.AddField("config check");
  for (int i = 0; i < 8; ++i) hasher.Add(random());
  return hasher.Finish();
}

/// A record is written, read and deleted, a lease taken and given back. What that took, in words.
Task<std::string> TryIndex(std::shared_ptr<cache::Index> index, std::string host, Until until) {
  const RecordKey name{cache::Table::kGraphs, SomeName()};
  Buffer value(64, 7);
  const auto began = steady_clock::now();
  const cache::RecordFacts facts;
  CO_TRY_ASSIGN(const uint64_t version, co_await index->CompareAndSet(name, 0, value, facts, until));
  const auto written = steady_clock::now();
  std::vector<RecordKey> names = {name};
  CO_TRY_ASSIGN(const std::vector<Record> records, co_await index->Get(std::move(names), until));
  if (version == 0 || records.front().value != value) {
    co_return Error(Code::kCorrupt, "a record that was written is not what is read: is another program using this "
                                    "prefix, or is it a replica that lags behind?");
  }
  CO_TRY(co_await index->CompareAndDelete(name, version, until));
  CO_TRY_ASSIGN(const cache::Lease lease,
                co_await index->Acquire(name.digest, std::move(host), std::chrono::seconds(5), until));
  CO_TRY(co_await index->Release(name.digest, lease.fence, until));
  co_return fmt::format("a record can be written ({:.1f} ms), read and deleted, a lease taken and given back",
                        std::chrono::duration<double, std::milli>(written - began).count());
}

/// What to do about an error of a server.
std::string Advice(const Error& error) {
  switch (error.code()) {
    case Code::kTimeout: return "; is there a firewall between, or is it the wrong port?";
    case Code::kUnavailable: return "; does it run, and is the address right?";
    default: return "";
  }
}

class Checks {
 public:
  void Add(std::string name, bool ok, std::string text) {
    ok_ = ok_ && ok;
    checks_.push_back({{"check", std::move(name)}, {"ok", ok}, {"text", std::move(text)}});
  }
  void AddError(std::string name, const Error& error) { Add(std::move(name), false, error.ToText() + Advice(error)); }
  Json Finish() && { return {{"ok", ok_}, {"checks", std::move(checks_)}}; }

 private:
  bool ok_ = true;
  Json checks_ = Json::array();
};

void CheckBlobs(const Config& config, boost::asio::thread_pool& pool, Until until, Checks& checks) {
  auto store = cache::S3Blobs::Open(BlobOptionsOf(config));
  if (!store) return checks.AddError("cluster blobs", store.error());
  const auto abilities = Run(pool, (*store)->Check(until));
  if (!abilities) return checks.AddError("cluster blobs", abilities.error());
  checks.Add("cluster blobs", abilities->is_enough(), (*store)->Describe());
  for (const std::string& line : abilities->lines) checks.Add("", abilities->is_enough(), line);
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
  checks.Add("trust", true, fmt::format("takes what one of {} keys has signed, in {} domains", policy->keys().size(),
                                        policy->domains().size()));
  for (const std::string& warning : policy->warnings()) checks.Add("trust", false, warning);
  if (parts.key == nullptr) return;
  const cache::PublicKey& own = parts.key->public_key();
  const bool is_trusted = policy->Find(own.id()) != nullptr;
  checks.Add("signing key", is_trusted,
             fmt::format("{} ({})", own.name, own.id().ToHex()) +
                 (is_trusted ? ""
                             : "; this machine's own trust file does not have it, and if other machines' have not "
                               "either, they take nothing from here: `ingot trust add \"" + own.ToLine() + "\"`"));
  if (!config.cluster_group.empty()) checks.Add("group", true, config.cluster_group);
}

}  // namespace

Json CheckTiers(const Config& config, uint64_t timeout_s) {
  Checks checks;
  if (config.cluster_index.empty()) {
    checks.Add("cluster index", config.cluster_blobs_endpoint.empty(),
               config.cluster_blobs_endpoint.empty()
                   ? "none (cluster_index): nothing is shared with other machines"
                   : "none (cluster_index), without which cluster_blobs_endpoint is not used");
    return std::move(checks).Finish();
  }
  auto tiers = Tiers::Open(config);
  if (!tiers) {
    checks.AddError("configuration", tiers.error());
    return std::move(checks).Finish();
  }
  boost::asio::thread_pool pool(2);
  const std::chrono::seconds timeout(timeout_s);
  // One by one: of several only one may be away.
  std::istringstream urls(config.cluster_index);
  for (std::string url; urls >> url;) {
    Config one = config;
    one.cluster_index = url;
    auto opened = Tiers::Open(one);
    if (!opened) {
      checks.AddError("cluster index", opened.error());
      continue;
    }
    const std::shared_ptr<cache::Index> index = (*opened)->parts().index;
    const auto said = Run(pool, TryIndex(index, (*opened)->parts().host, Until::In(timeout)));
    if (said) {
      checks.Add("cluster index", true, index->Describe() + ": " + *said);
    } else {
      checks.Add("cluster index", false, index->Describe() + ": " + said.error().ToText() + Advice(said.error()));
    }
  }
  if (config.cluster_blobs_endpoint.empty()) {
    checks.Add("cluster blobs", true,
               fmt::format("none (cluster_blobs_endpoint): artifacts of up to {} KiB are shared through the index",
                           config.cluster_index_blob_bytes_max >> 10));
  } else {
    CheckBlobs(config, pool, Until::In(timeout), checks);
  }
  CheckTrust(config, (*tiers)->parts(), checks);
  pool.join();
  return std::move(checks).Finish();
}

}  // namespace ingot::daemon
