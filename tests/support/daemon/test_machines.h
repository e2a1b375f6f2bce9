// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/index/indexed_blobs.h"
#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "daemon/state/convert.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {

using cache::RecordKey;
using cache::Table;

/// What stands between a daemon and the shared index: counts, and may be away.
class ShakyIndex final : public cache::Index {
 public:
  explicit ShakyIndex(cache::Index& behind) : behind_(behind) {}

  Task<std::vector<cache::Record>> Get(std::vector<RecordKey> keys, Until until) override {
    CO_TRY(co_await Pass(until));
    co_return co_await behind_.Get(std::move(keys), until);
  }
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, cache::RecordFacts facts,
                               Until until) override {
    CO_TRY(co_await Pass(until));
    if (spoil) spoil(value);
    if (refuse) CO_TRY(refuse(key));
    co_return co_await behind_.CompareAndSet(key, expected, std::move(value), std::move(facts), until);
  }
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override {
    co_return co_await behind_.CompareAndDelete(key, expected, until);
  }
  Task<cache::RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                               Until until) override {
    co_return co_await behind_.List(table, std::move(group), std::move(after), limit, until);
  }
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override {
    co_return co_await behind_.Groups(table, std::move(after), limit, until);
  }
  Task<cache::Record> Changed(RecordKey key, uint64_t seen, Until until) override {
    co_return co_await behind_.Changed(key, seen, until);
  }
  Task<cache::Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override {
    CO_TRY(co_await Pass(until));
    if (cuts_acquire.exchange(false)) co_return Error(Code::kUnavailable, "the connection was cut");
    co_return co_await behind_.Acquire(key, std::move(holder), ttl, until);
  }
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override {
    CO_TRY(co_await Pass(until));
    co_return co_await behind_.Renew(key, fence, std::move(progress), ttl, until);
  }
  Task<void> Release(Digest key, uint64_t fence, Until until) override {
    CO_TRY(co_await Pass(until));
    co_return co_await behind_.Release(key, fence, until);
  }
  Task<cache::Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override {
    co_return co_await behind_.Watch(key, fence, std::move(progress), until);
  }
  std::string Describe() const override { return "shaky"; }

  std::atomic<bool> away{false};
  std::atomic<bool> cuts_acquire{false};  ///< The next alone.
  std::atomic<bool> silent{false};
  std::atomic<int> calls{0};
  std::function<void(Buffer&)> spoil;
  std::function<Status(const RecordKey&)> refuse;  ///< Writes. Set while nothing is sent.

 private:
  Task<void> Pass(Until until) {
    ++calls;
    if (away) co_return Error(Code::kUnavailable, "the index is away");
    if (silent) {
      const auto never = std::make_shared<cache::Waiter>();
      co_return co_await cache::Waiter::Wait(never, until);
    }
    co_return Status();
  }
  cache::Index& behind_;
};

/// Remembers what was written, and whether it was to be durable.
class NotingStore final : public cache::MemoryStore {
 public:
  struct Write {
    Table table;
    bool is_durable;
    bool operator==(const Write&) const = default;
  };
  Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const cache::PutOptions& options) override {
    {
      MutexLock lock(mutex_);
      if (table != Table::kStats) writes_.push_back({table, options.is_durable});
    }
    return cache::MemoryStore::Put(table, key, value, options);
  }
  std::vector<Write> writes() {
    MutexLock lock(mutex_);
    return writes_;
  }

 private:
  Mutex mutex_;
  std::vector<Write> writes_ GUARDED_BY(mutex_);
};

/// One machine: a daemon with a store of its own.
class Machine {
 public:
  Machine(const std::string& dir, const std::string& name, cache::Index& index, cache::BlobStore* blobs,
          const cache::SigningKey* key, const std::string& trust_file, uint64_t compile_ms_max,
          const std::function<void(Config&)>& adjust, std::shared_ptr<cache::MemoryStore> store)
      : name_(name), dir_(dir + "/" + name), store_(std::move(store)) {
    if (store_ == nullptr) store_ = std::make_shared<cache::MemoryStore>();
    std::filesystem::create_directories(dir_);
    std::filesystem::permissions(dir_, std::filesystem::perms::owner_all);
    config_.idle_exit_s = 0;
    config_.cluster_lookup_ms_max = 10'000;
    config_.cluster_compile_ms_max = compile_ms_max;
    config_.cluster_miss_ms = 0;
    config_.cluster_lease_ms = 1000;
    config_.cluster_trust_check_s = 3600;
    config_.cluster_shadow_one_in = 1;
    config_.cluster_shadow_idle_s = 0;
    config_.cluster_send_tries_max = 2;
    adjust(config_);
    shaky_ = std::make_shared<ShakyIndex>(index);
    ClusterParts parts;
    parts.index = shaky_;
    if (blobs != nullptr) parts.blobs = std::shared_ptr<cache::BlobStore>(blobs, [](cache::BlobStore*) {});
    cache::Trust::Options options;
    options.path = trust_file;
    options.quarantine_path = dir_ + "/quarantine.toml";
    if (key != nullptr) options.own = key->public_key();
    parts.trust = std::make_shared<cache::Trust>(options, SystemClock());
    if (key != nullptr) parts.key = std::shared_ptr<const cache::SigningKey>(key, [](const cache::SigningKey*) {});
    parts.host = name;
    EXPECT_TRUE(parts.trust->Refresh());
    core_ = std::make_unique<Core>(config_, *store_, graphs_, compilers_, SystemClock(), std::move(parts));
    server_ = std::make_unique<RunningServer>(*core_, proto::Endpoint{dir_, dir_ + "/s"});
    client_ = server_->Connect();
  }

  client::Connection& client() { return *client_; }
  /// Its client goes; another comes.
  void ChangeClient() {
    client_.reset();
    client_ = server_->Connect();
  }
  Core& core() { return *core_; }
  ShakyIndex& index() { return *shaky_; }
  FakeCompilers& compilers() { return compilers_; }

 private:
  const std::string name_;
  const std::string dir_;
  Config config_;
  std::shared_ptr<cache::MemoryStore> store_;
  FakeGraphs graphs_;
  FakeCompilers compilers_;
  std::shared_ptr<ShakyIndex> shaky_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<client::Connection> client_;
};

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    GlobalMetrics().Reset();
    std::filesystem::permissions(dir_.path(), std::filesystem::perms::owner_all);
    key_ = std::make_unique<cache::SigningKey>(std::move(cache::SigningKey::Generate("ci")).value());
    WriteTrust("version = 1\n\n[[key]]\npublic = \"" + key_->public_key().ToLine() +
               "\"\ndomains = [\"all\"]\n\n[[domain]]\nname = \"all\"\n");
  }
  void WriteTrust(const std::string& text) {
    std::filesystem::remove(trust_file());
    std::ofstream(trust_file()) << text;
    using std::filesystem::perms;
    std::filesystem::permissions(trust_file(), perms::owner_read | perms::owner_write);
  }
  /// `more` is added to a trust file that lets the keys write everything.
  void WriteTrustOf(std::vector<const cache::SigningKey*> keys, const std::string& more = "") {
    std::string text = "version = 1\n\n[[domain]]\nname = \"all\"\n";
    for (const cache::SigningKey* key : keys) {
      text += "\n[[key]]\npublic = \"" + key->public_key().ToLine() + "\"\ndomains = [\"all\"]\n";
    }
    WriteTrust(text + more);
  }
  static std::string RevocationOf(const cache::SigningKey& key) {
    return "\n[[revocation]]\nkey = \"" + key.public_key().id().ToHex() + "\"\nreason = \"stolen\"\n";
  }
  std::string trust_file() const { return dir_.path() + "/trust.toml"; }
  std::unique_ptr<Machine> Start(const std::string& name, bool may_sign = true) {
    return StartWith(name, may_sign ? key_.get() : nullptr);
  }
  std::unique_ptr<Machine> StartWith(const std::string& name, const cache::SigningKey* key) {
    return std::make_unique<Machine>(dir_.path(), name, *place_, tier_, key, trust_file(), compile_ms_max_, adjust_,
                                     store_);
  }
  static Digest GraphKeyOf(const std::string& graph) {
    return GraphKey(DigestOf(graph), *FakeCompilers().Facts()).ToDigest();
  }
  /// What holds now.
  cache::Lease LeaseOf(const Digest& graph_key) { return *RunTask(index_.Watch(graph_key, ~0ull, "", Until::Done())); }
  uint64_t Count(Counter counter) const { return GlobalMetrics().Get(counter); }

  TestDir dir_;
  cache::MemoryStore shared_;
  cache::LocalIndex index_{shared_};
  cache::Index* place_ = &index_;
  cache::LocalBlobs blobs_{shared_};
  std::unique_ptr<cache::SigningKey> key_;
  cache::IndexedBlobs small_blobs_{std::shared_ptr<cache::Index>(&index_, [](cache::Index*) {}), 30};
  cache::BlobStore* tier_ = &blobs_;
  /// Of the machines that are started from now on; null: each has its own.
  std::shared_ptr<cache::MemoryStore> store_;
  uint64_t compile_ms_max_ = 20'000;
  /// Of machines that are started from here on.
  std::function<void(Config&)> adjust_ = [](Config&) {};
};

}  // namespace ingot::daemon
