// SPDX-License-Identifier: Apache-2.0
// Daemons of several machines that share an index and blobs, inside one process.
#include <gmock/gmock.h>

#include <atomic>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/fake_clock.h"
#include "cache/circuit_breaker.h"
#include "cache/indexed_blobs.h"
#include "cache/local_blobs.h"
#include "cache/local_index.h"
#include "cache/rendezvous.h"
#include "cache/sharded_blobs.h"
#include "cache/sharded_index.h"
#include "daemon/convert.h"
#include "daemon/test_server.h"
#include "proto/cluster_generated.h"

namespace ingot::daemon {
namespace {

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
  std::optional<cache::CircuitBreaker::Facts> breaker() const override { return behind_.breaker(); }

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
    server_ = std::make_unique<Server>(*core_, ServerOptions{.endpoint = Where()});
    EXPECT_TRUE(server_->Listen());
    thread_ = std::thread([this] { server_->Run(/*handle_signals=*/false); });
    Connect();
  }
  ~Machine() {
    client_.reset();
    server_->Stop();
    thread_.join();
  }

  client::Connection& client() { return *client_; }
  /// Its client goes; another comes.
  void ChangeClient() {
    client_.reset();
    Connect();
  }
  Core& core() { return *core_; }
  ShakyIndex& index() { return *shaky_; }
  FakeCompilers& compilers() { return compilers_; }

 private:
  void Connect() {
    client::ConnectionOptions connect;
    connect.store_dir = dir_;
    connect.socket = Where().socket;
    connect.start = false;
    auto connection = client::Connection::Open(connect);
    EXPECT_TRUE(connection) << connection.error().ToText();
    client_ = std::move(connection).value();
  }
  proto::Endpoint Where() const {
    proto::Endpoint endpoint;
    endpoint.store_dir = dir_;
    endpoint.socket = dir_ + "/s";
    return endpoint;
  }

  const std::string name_;
  const std::string dir_;
  Config config_;
  std::shared_ptr<cache::MemoryStore> store_;
  FakeGraphs graphs_;
  FakeCompilers compilers_;
  std::shared_ptr<ShakyIndex> shaky_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
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
  /// Until what is done behind everybody's back is done.
  template <typename Condition>
  void WaitFor(Condition condition) {
    for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(condition());
  }

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

TEST_F(ClusterTest, WhatOneMachineMadeServesAnother) {
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  const auto b = Start("b", /*may_sign=*/false);
  auto found = b->client().Lookup(*MakeKey("f"));
  ASSERT_TRUE(found) << found.error().ToText();
  ASSERT_TRUE(found->reply.found) << found->reply.why;
  ASSERT_EQ(found->files.size(), 1u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  EXPECT_EQ(Count(Counter::cluster_hits), 1u);
  EXPECT_EQ(Count(Counter::cluster_blobs_read), 1u) << "the artifact: nobody has asked for its graph's text";
  // From here on it is there without the cluster.
  b->index().away = true;
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
}

// A write that is durable makes all before it durable: whoever has an answer may rely on it, for one wait.
TEST_F(ClusterTest, WhatIsAcknowledgedIsDurableAndWhatOthersHaveWaitsForNoDisk) {
  const auto made_in = std::make_shared<NotingStore>();
  store_ = made_in;
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  const std::vector<NotingStore::Write> made = made_in->writes();
  ASSERT_GE(made.size(), 3u) << "artifact, graph and entry";
  EXPECT_EQ(made.back(), (NotingStore::Write{Table::kEntries, true}));
  EXPECT_EQ(std::ranges::count(made, true, &NotingStore::Write::is_durable), 1);
  WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  const auto taken_in = std::make_shared<NotingStore>();
  store_ = taken_in;
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_THAT(taken_in->writes(), testing::ElementsAre(NotingStore::Write{Table::kArtifacts, false},
                                                       NotingStore::Write{Table::kEntries, false}));
}

TEST_F(ClusterTest, OneCompileForAllMachinesThatMissAtOnce) {
  std::vector<std::unique_ptr<Machine>> machines;
  for (const char* name : {"a", "b", "c", "d", "e"}) machines.push_back(Start(name));
  // A connection that is cut as they ask makes no second one.
  for (const auto& machine : machines) machine->index().cuts_acquire = true;
  std::vector<std::thread> threads;
  std::atomic<int> served{0};
  for (const auto& machine : machines) {
    threads.emplace_back([&] {
      // The entries differ, and meet at their graph.
      if (machine->client().Compile(MakeCompile("f", "graph f 4"))) ++served;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 5);
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ClusterTest, AGraphThatCouldNotBeSharedIsSharedLater) {
  const auto a = Start("a");
  a->index().away = true;
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  a->index().away = false;
  WaitFor([&] { return Count(Counter::cluster_writes) == 2 && a->core().sharing.unsent() == 0; });
  // Another function of the same graph.
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Compile(MakeCompile("g", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ClusterTest, FailuresAreSharedWithTheCompilerThatFailed) {
  const auto a = Start("a");
  ASSERT_FALSE(a->client().Compile(MakeCompile("bad", "graph bad 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) >= 1; });
  const auto b = Start("b");
  const auto answer = b->client().Compile(MakeCompile("bad", "graph bad 4"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(Count(Counter::compile_failures), 1u);
}

TEST_F(ClusterTest, NothingIsTakenFromAKeyThatIsNotTrusted) {
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  WriteTrust("version = 1\n\n[[domain]]\nname = \"all\"\n");
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), 0u);
  // It makes its own.
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 2u);
}

TEST_F(ClusterTest, ABlobThatIsNotWhatWasSignedIsNotTaken) {
  const auto a = Start("a");
  auto compiled = a->client().Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(compiled);
  WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  const Digest artifact{compiled->reply.variant->artifact_low, compiled->reply.variant->artifact_high};
  ASSERT_TRUE(shared_.Delete(Table::kArtifacts, artifact, {}));
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
}

// Every damage of what is shared: the daemon answers, and serves nothing but what was signed.
TEST_F(ClusterTest, SurvivesEveryDamageOfSharedRecords) {
  {
    const auto a = Start("a");
    ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
    WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  }
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  const Buffer whole = shared_.Get(Table::kEntries, entry)->bytes;
  ASSERT_FALSE(whole.empty());
  const auto b = Start("b", /*may_sign=*/false);
  size_t found = 0, tried = 0;
  const auto check = [&](const Buffer& damaged) {
    ASSERT_TRUE(shared_.Put(Table::kEntries, entry, damaged, {}));
    Ignore(RunTask(b->core().entries.Delete(entry, Until::Done())), "it may be absent");
    auto answer = b->client().Lookup(*MakeKey("f"));
    ASSERT_TRUE(answer) << answer.error().ToText();
    ++tried;
    found += answer->reply.found;
    for (const proto::UniqueFd& file : answer->files) {
      char text[64] = {};
      ASSERT_GT(pread(file.get(), text, sizeof text - 1, 0), 0);
      EXPECT_STREQ(text, "artifact of graph f 4");
    }
  };
  for (size_t size = 0; size < whole.size(); size += 3) {
    check(Buffer(whole.begin(), whole.begin() + static_cast<long>(size)));
  }
  for (size_t bit = 0; bit < whole.size() * 8; bit += 7) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    check(flipped);
  }
  EXPECT_LT(found * 4, tried) << "most of the bytes are signed, or lead to what is";
}

TEST_F(ClusterTest, ATierThatIsAwayOrSilentCostsItsTimeAndIsLeftAlone) {
  const auto a = Start("a");
  a->index().away = true;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "f" + std::to_string(i);
    EXPECT_FALSE(a->client().Lookup(*MakeKey(name))->reply.found);
    EXPECT_TRUE(a->client().Compile(MakeCompile(name, "graph " + name + " 4")));
  }
  EXPECT_EQ(Count(Counter::compiles), 5u);
  EXPECT_GT(Count(Counter::cluster_refused), 0u);
  const auto facts = a->core().cluster.facts();
  EXPECT_NE(facts.index_breaker.state, cache::CircuitBreaker::State::kClosed);
  EXPECT_THAT(facts.index_breaker.why, testing::HasSubstr("away"));
  // What could not be sent is sent once the tier is back.
  a->index().away = false;
  WaitFor([&] { return a->core().sharing.unsent() == 0; });
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f3"))->reply.found);
}

TEST_F(ClusterTest, AnEntryThatIsNotTakenKeepsNothingElseBackAndIsGivenUp) {
  const auto a = Start("a");
  const Digest poison = ToKey(*MakeKey("poison")).ToDigest();
  std::atomic<Code> answer{Code::kTimeout};
  a->index().refuse = [&](const RecordKey& key) {
    const bool is_it = key.table == Table::kEntries && key.digest == poison;
    return is_it ? Status(Error(answer.load(), "not this one")) : Status();
  };
  a->index().away = true;
  // The newest is sent first.
  for (const char* name : {"f", "g", "poison"}) {
    ASSERT_TRUE(a->client().Compile(MakeCompile(name, std::string("graph ") + name + " 4")));
  }
  // Their graphs could not be shared either, which is found out behind the answers.
  WaitFor([&] { return a->core().sharing.unsent() == 6; });
  a->index().away = false;
  WaitFor([&] { return a->core().sharing.unsent() == 1; });
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  // By now it is the only one, and the fault is its own.
  answer = Code::kInvalid;
  WaitFor([&] { return a->core().sharing.unsent() == 0; });
  EXPECT_EQ(Count(Counter::cluster_unsent), 1u);
}

TEST_F(ClusterTest, TheStoreIsLookedThroughOnlyOnceTheTrustFileHasChanged) {
  store_ = std::make_shared<cache::MemoryStore>();
  {
    const auto a = Start("a");
    ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
    WaitFor([&] { return a->core().sharing.unsent() == 0; });
  }
  uint64_t walks = 0;
  {
    // A daemon of before, which said nothing of what it had looked at.
    const auto b = Start("b");
    WaitFor([&] { return Count(Counter::trust_walks) == 2; });
    WaitFor([&] { return store_->StatOf(Table::kStats, DigestOf("trust seen")).has_value(); });
    walks = Count(Counter::trust_walks);
  }
  for (int i = 0; i < 3; ++i) {
    const auto c = Start("c");
    EXPECT_TRUE(c->client().Lookup(*MakeKey("f"))->reply.found);
  }
  EXPECT_EQ(Count(Counter::trust_walks), walks);
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto d = Start("d");
  WaitFor([&] { return Count(Counter::trust_walks) == walks + 1; });
}

/// Time that stands still, and counts who waits for it.
class StillTime final : public SimulatedTime {
 public:
  SteadyTime Now() const override { return SteadyTime(std::chrono::hours(1)); }
  void At(SteadyTime, std::function<void()>) override { ++waits; }
  std::atomic<int> waits{0};
};

TEST_F(ClusterTest, NobodyWakesToLookAtWhatHasNotCome) {
  boost::asio::io_context io;
  Config config;
  cache::MemoryStore store;
  FakeGraphs graphs;
  FakeCompilers compilers;
  ClusterParts parts;
  parts.index = std::shared_ptr<cache::Index>(&index_, [](cache::Index*) {});
  parts.trust = std::make_shared<cache::Trust>(cache::Trust::Options{.path = trust_file()}, SystemClock());
  Core core(config, store, graphs, compilers, SystemClock(), std::move(parts), io.get_executor());
  StillTime still;
  SimulatedTime::PutInForce(&still);
  boost::asio::co_spawn(io, core.shadowing.Watch(), boost::asio::detached);
  io.poll();
  EXPECT_EQ(still.waits, 0);
  core.shadowing.Fetched({}, {}, {});
  io.restart();
  io.poll();
  EXPECT_EQ(still.waits, 1) << "for the machine to be idle";
  core.stop.request_stop();
  io.restart();
  io.run();
  SimulatedTime::PutInForce(nullptr);
}

/// A store of blobs whose writes end when somebody says so.
class GatedBlobs final : public cache::BlobStore {
 public:
  explicit GatedBlobs(cache::BlobStore& behind) : behind_(behind) {}

  Task<cache::SealedRef> Get(Digest digest, Until until) override { co_return co_await behind_.Get(digest, until); }
  Task<bool> Put(Digest digest, cache::SealedRef blob, double cost_s, Until until) override {
    const cache::WaiterRef open = Enter();
    if (open != nullptr) CO_TRY(co_await cache::Waiter::Wait(open, until));
    co_return co_await behind_.Put(digest, std::move(blob), cost_s, until);
  }
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override {
    co_return co_await behind_.Has(std::move(digests), until);
  }
  Task<bool> Delete(Digest digest, Until until) override { co_return co_await behind_.Delete(digest, until); }
  std::string Describe() const override { return "gated"; }
  void Open() {
    MutexLock lock(mutex_);
    is_open_ = true;
    for (const cache::WaiterRef& one : waiting_) one->Wake();
  }

  std::atomic<int> writes{0};

 private:
  cache::BlobStore& behind_;
  /// nullptr: it is open.
  cache::WaiterRef Enter() {
    MutexLock lock(mutex_);
    ++writes;
    if (is_open_) return nullptr;
    return waiting_.emplace_back(std::make_shared<cache::Waiter>());
  }

  Mutex mutex_;
  bool is_open_ GUARDED_BY(mutex_) = false;
  std::vector<cache::WaiterRef> waiting_ GUARDED_BY(mutex_);
};

TEST_F(ClusterTest, TheLeaseIsKeptUntilWhatItWasForIsThere) {
  GatedBlobs gated(blobs_);
  tier_ = &gated;
  const auto a = Start("a");
  EXPECT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  WaitFor([&] { return gated.writes >= 1; });
  const Digest graph_key = GraphKeyOf("graph f 4");
  cache::Lease lease = LeaseOf(graph_key);
  const uint64_t fence = lease.fence;
  ASSERT_NE(fence, 0u);
  // It goes on for longer than the lease would last by itself.
  for (int beats = 0; beats < 5; ++beats) {
    bool has_changed = false;
    WaitFor([&] {
      const cache::Lease before = std::exchange(lease, LeaseOf(graph_key));
      has_changed |= lease.fence != fence || lease.left > before.left;
      return has_changed;
    });
    ASSERT_EQ(lease.fence, fence);
  }
  gated.Open();
  WaitFor([&] { return LeaseOf(graph_key).fence == 0; });
}

TEST_F(ClusterTest, AServerThatIsSilentStopsNoCallOfTheOthers) {
  cache::MemoryStore other_store;
  cache::LocalIndex other_index{other_store};
  const auto first = std::make_shared<ShakyIndex>(index_);
  const auto second = std::make_shared<ShakyIndex>(other_index);
  cache::ShardLimits options;
  options.answer_max = std::chrono::milliseconds(50);
  const std::vector<std::string> names = {"first", "second"};
  cache::ShardedIndex both({{names[0], first}, {names[1], second}}, SystemClock(), options);
  place_ = &both;
  const auto a = Start("a");
  Cluster& cluster = a->core().cluster;
  // A key of each.
  Digest of_first, of_second;
  for (int i = 0; of_first.IsZero() || of_second.IsZero(); ++i) {
    const Digest key = DigestOf(std::to_string(i));
    (cache::RendezvousOrder(names, key, 1).front() == 0 ? of_first : of_second) = key;
  }
  const auto lease = RunTask(cluster.Acquire(of_first, Until::Done()));
  ASSERT_TRUE(lease && lease->is_ours);
  first->silent = true;
  // What only that server can answer: as many failures as would open a breaker of all.
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(RunTask(cluster.Renew(of_first, lease->fence, "on", Until::Done())));
  EXPECT_GT(Count(Counter::cluster_errors), 0u);
  const uint64_t refused = Count(Counter::cluster_refused);
  EXPECT_GT(refused, 0u) << "the server that is silent is left alone";
  const auto other = RunTask(cluster.Acquire(of_second, Until::Done()));
  ASSERT_TRUE(other) << other.error().ToText();
  EXPECT_TRUE(other->is_ours);
  EXPECT_EQ(Count(Counter::cluster_refused), refused);
  EXPECT_EQ(cluster.facts().index_breaker.state, cache::CircuitBreaker::State::kClosed);
  EXPECT_EQ(cluster.facts().index_breaker.opened, 1u) << "that of one server";
}

/// A store of blobs that is gone.
class GoneBlobs final : public cache::BlobStore {
 public:
  Task<cache::SealedRef> Get(Digest, Until) override { co_return Gone(); }
  Task<bool> Put(Digest, cache::SealedRef, double, Until) override { co_return Gone(); }
  Task<std::vector<bool>> Has(std::vector<Digest>, Until) override { co_return Gone(); }
  Task<bool> Delete(Digest, Until) override { co_return Gone(); }
  std::string Describe() const override { return "gone"; }

 private:
  static Error Gone() { return Error(Code::kUnavailable, "the store is gone"); }
};

TEST_F(ClusterTest, StoresThatAreGoneStopNoReadOfTheOthers) {
  const std::vector<std::string> names = {"s0", "s1", "s2", "s3"};
  std::vector<cache::BlobShard> shards;
  for (size_t i = 0; i < 3; ++i) shards.push_back({names[i], std::make_shared<GoneBlobs>()});
  shards.push_back({names[3], std::shared_ptr<cache::BlobStore>(&blobs_, [](cache::BlobStore*) {})});
  cache::ShardedBlobs all(std::move(shards), SystemClock());
  tier_ = &all;
  const auto a = Start("a");
  Cluster& cluster = a->core().cluster;
  // One that all places are gone of, and one that the last store has.
  std::string lost, kept;
  for (int i = 0; lost.empty() || kept.empty(); ++i) {
    const std::string text = "text " + std::to_string(i);
    const bool is_lost = cache::RendezvousOrder(names, DigestOf(text), 4).back() == 3;
    (is_lost ? lost : kept) = text;
  }
  ASSERT_TRUE(RunTask(blobs_.Put(DigestOf(kept), *cache::SealedFile::Copy(AsBytes(kept)), 1, Until::Done())));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(RunTask(cluster.TextOf(DigestOf(lost), 1, Until::Done())));
    // As far apart as failures are that a breaker counts.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_TRUE(cluster.has_blobs());
  const auto found = RunTask(cluster.TextOf(DigestOf(kept), 1, Until::Done()));
  ASSERT_TRUE(found) << found.error().ToText();
  EXPECT_EQ(*found, kept);
}

TEST_F(ClusterTest, WhatIsRevokedIsTakenBackHereAndInTheCluster) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(a->client().Compile(MakeCompile("g", "graph g 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) == 4; });
  const auto b = StartWith("b", &other);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  // By its graph, for another entry.
  ASSERT_TRUE(b->client().Compile(MakeCompile("h", "graph g 4")));
  ASSERT_TRUE(b->client().Compile(MakeCompile("own", "graph own 4")));
  EXPECT_EQ(Count(Counter::compiles), 3u);
  WaitFor([&] { return b->core().sharing.unsent() == 0; });

  WriteTrustOf({key_.get(), &other}, RevocationOf(*key_));
  const auto recalled = b->client().Query("recall", "{}");
  ASSERT_TRUE(recalled) << recalled.error().ToText();
  EXPECT_THAT(*recalled, testing::HasSubstr("\"variants\":2")) << "of f, and of h, whose artifact came by its graph";
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("h"))->reply.found);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("own"))->reply.found);
  // The shared tiers have only what b made by itself.
  const auto left = RunTask(index_.List(Table::kEntries, std::nullopt, "", 100, Until::Done()));
  ASSERT_EQ(left->rows.size(), 1u);
  EXPECT_EQ(left->rows[0].digest, ToKey(*MakeKey("own")).ToDigest());
  EXPECT_EQ(RunTask(index_.List(Table::kGraphs, std::nullopt, "", 100, Until::Done()))->rows.size(), 1u);
  // It compiles for itself what it is not given.
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 4u);
}

TEST_F(ClusterTest, NobodySignsWhatAnotherHasSaidAlready) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) == 2; });
  const auto b = StartWith("b", &other);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  b->core().sharing.Offer(entry);
  WaitFor([&] { return b->core().sharing.unsent() == 0; });
  const Buffer bytes = shared_.Get(Table::kEntries, entry)->bytes;
  const auto* record = proto::ReadMessage<proto::ClusterEntry>(bytes);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->variants()->size(), 1u);
}

// Builds are deterministic, so what compiles to something else here was not made as its builder says.
TEST_F(ClusterTest, ABuilderWhoseArtifactsAreNotWhatTheirGraphsCompileToLosesItsWord) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  const auto honest = Start("honest");
  ASSERT_TRUE(honest->client().Compile(MakeCompile("g", "graph g 4")));
  const auto liar = StartWith("liar", &other);
  liar->compilers().AddToArtifacts(" and something else");
  ASSERT_TRUE(liar->client().Compile(MakeCompile("f", "graph f 4")));
  WaitFor([&] { return Count(Counter::cluster_writes) == 4; });
  const auto b = Start("b", /*may_sign=*/false);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  WaitFor([&] { return b->core().shadowing.counts().different == 1 && b->core().shadowing.counts().equal == 1; });
  WaitFor([&] { return !b->client().Lookup(*MakeKey("f"))->reply.found; });
  EXPECT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), 0u) << "nothing new by that key";
}

TEST_F(ClusterTest, TheCompileOfAMachineThatDiedIsTakenOver) {
  const Digest graph_key = GraphKeyOf("graph f 4");
  // Somebody took the lease and was never heard of again.
  const auto lease = RunTask(index_.Acquire(graph_key, "dead", std::chrono::milliseconds(300), Until::Done()));
  ASSERT_TRUE(lease->is_ours);
  const auto a = Start("a");
  EXPECT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::cluster_waits), 1u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ClusterTest, OfManyThatWaitedTheFirstSaysWhatItCameTo) {
  std::vector<std::unique_ptr<Machine>> machines;
  for (const char* name : {"a", "b", "c", "d", "e"}) machines.push_back(Start(name));
  std::vector<std::thread> threads;
  for (const auto& machine : machines) {
    threads.emplace_back([&] { EXPECT_TRUE(machine->client().Compile(MakeCompile("f", "graph f 4"))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& machine : machines) {
    WaitFor([&] { return machine->core().sharing.unsent() == 0; });
  }
  WaitFor([&] { return Count(Counter::cluster_writes) >= 2; });
  EXPECT_EQ(Count(Counter::cluster_writes), 2u) << "the graph, and the entry";
}

TEST_F(ClusterTest, ACompileThatGoesOnIsWaitedForWhateverASingleCallMayTake) {
  compile_ms_max_ = 300;
  const auto a = Start("a");
  const auto b = Start("b");
  a->compilers().CloseGate();
  std::thread first([&] { EXPECT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4"))); });
  a->compilers().WaitForJob();
  std::thread second([&] { EXPECT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4"))); });
  WaitFor([&] { return Count(Counter::cluster_waits) == 1; });
  // Twice what the holder says of his progress is no reason to ask for the lease or the record again.
  const int calls = b->index().calls;
  const Digest graph_key = GraphKeyOf("graph f 4");
  for (int changes = 0; changes < 2; ++changes) {
    const cache::Lease lease = LeaseOf(graph_key);
    ASSERT_TRUE(RunTask(index_.Watch(graph_key, lease.fence, lease.progress, Until::Done())));
  }
  EXPECT_LE(b->index().calls, calls + 1) << "the entry was asked for meanwhile, at most";
  a->compilers().OpenGate();
  first.join();
  second.join();
  EXPECT_EQ(b->compilers().started(), 0u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ClusterTest, WhoWaitsHearsWhoCompilesAndUntilWhen) {
  const auto a = Start("a");
  const auto b = Start("b");
  // What is known of the function is what a compile of it took.
  a->compilers().SayTook(1000);
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  a->compilers().CloseGate();
  proto::CompileT request = MakeCompile("f", "graph g 4");
  request.dynamic = false;
  std::thread first([&] { EXPECT_TRUE(a->client().Compile(request)); });
  a->compilers().WaitForJob();
  proto::CompileT waiting = MakeCompile("other", "graph g 4");
  waiting.progress = "mine";
  std::thread second([&] { EXPECT_TRUE(b->client().Compile(waiting)); });
  nlohmann::json flight;
  WaitFor([&] {
    const auto answer = nlohmann::json::parse(*b->client().Query("progress", R"({"progress": "mine"})"));
    flight = answer.value("flight", nlohmann::json());
    return flight.is_object() && flight["left_s"].is_number();
  });
  EXPECT_EQ(flight["holder"], "a");
  EXPECT_EQ(flight["state"], "compiles");
  EXPECT_EQ(flight["lease"], "waits");
  EXPECT_GT(flight["left_s"], 800);
  EXPECT_LE(flight["left_s"], 1000);
  // Who has no time for that is told at once, and begins nothing else.
  proto::CompileT hasty = MakeCompile("hasty", "graph g 4");
  hasty.wait_max_ms = 300'000;
  const auto late = b->client().Compile(hasty);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  EXPECT_THAT(late.error().message(), testing::HasSubstr("goes on and is expected in about"));
  a->compilers().OpenGate();
  first.join();
  second.join();
  EXPECT_EQ(b->compilers().started(), 0u);
}

TEST_F(ClusterTest, TheFirstLookUpOfAJobBringsTheOthers) {
  const std::vector<std::string> functions = {"f0", "f1", "f2", "f3", "f4"};
  const auto a = Start("a");
  for (const std::string& function : functions) {
    ASSERT_TRUE(a->client().Lookup(*MakeKey(function)));
    ASSERT_TRUE(a->client().Compile(MakeCompile(function, "graph " + function + " 4")));
  }
  WaitFor([&] { return a->core().sharing.unsent() == 0 && Count(Counter::cluster_writes) == 10; });
  a->ChangeClient();
  WaitFor([&] { return Count(Counter::cluster_manifests) == 1; });
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f0"))->reply.found);
  WaitFor([&] { return Count(Counter::cluster_prefetched) == 4; });
  // The others are here, in whatever order they are asked for.
  b->index().away = true;
  for (const std::string& function : functions) EXPECT_TRUE(b->client().Lookup(*MakeKey(function))->reply.found);
  EXPECT_EQ(Count(Counter::compiles), 5u);
  EXPECT_EQ(Count(Counter::cluster_errors), 0u) << "nobody was asked";
}

TEST_F(ClusterTest, OfAJobNoMoreComesThanIsAllowed) {
  const auto a = Start("a");
  for (const std::string function : {"f0", "f1", "f2", "f3"}) {
    ASSERT_TRUE(a->client().Lookup(*MakeKey(function)));
    ASSERT_TRUE(a->client().Compile(MakeCompile(function, "graph " + function + " 4")));
  }
  WaitFor([&] { return a->core().sharing.unsent() == 0 && Count(Counter::cluster_writes) == 8; });
  a->ChangeClient();
  WaitFor([&] { return Count(Counter::cluster_manifests) == 1; });
  const uint64_t bytes = std::string("artifact of graph f0 4").size();
  adjust_ = [&](Config& config) { config.cluster_prefetch_bytes_max = 2 * bytes; };
  const auto small = Start("small");
  ASSERT_TRUE(small->client().Lookup(*MakeKey("f0"))->reply.found);
  WaitFor([&] { return Count(Counter::cluster_prefetched) == 2; });
  small->index().away = true;
  EXPECT_TRUE(small->client().Lookup(*MakeKey("f2"))->reply.found);
  EXPECT_FALSE(small->client().Lookup(*MakeKey("f3"))->reply.found);
  adjust_ = [](Config& config) { config.cluster_prefetch_entries_max = 0; };
  const auto off = Start("off");
  ASSERT_TRUE(off->client().Lookup(*MakeKey("f0"))->reply.found);
  off->index().away = true;
  EXPECT_FALSE(off->client().Lookup(*MakeKey("f1"))->reply.found);
  EXPECT_EQ(Count(Counter::cluster_prefetched), 2u);
}

TEST_F(ClusterTest, AJobThatGoesOnIsNotedOnceItUsesNothingNew) {
  adjust_ = [](Config& config) { config.cluster_job_quiet_s = 1; };
  const auto a = Start("a");
  for (const std::string function : {"f0", "f1"}) {
    ASSERT_TRUE(a->client().Lookup(*MakeKey(function)));
    ASSERT_TRUE(a->client().Compile(MakeCompile(function, "graph " + function + " 4")));
  }
  WaitFor([&] { return Count(Counter::cluster_manifests) == 1; });
}

TEST_F(ClusterTest, AHolderThatLosesItsLeaseTakesItAgain) {
  const auto a = Start("a");
  a->compilers().CloseGate();
  std::thread compile([&] { EXPECT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4"))); });
  a->compilers().WaitForJob();
  const Digest graph_key = GraphKeyOf("graph f 4");
  const uint64_t fence = LeaseOf(graph_key).fence;
  ASSERT_NE(fence, 0u);
  // As a server that was started anew and knows of nothing.
  ASSERT_TRUE(RunTask(index_.Release(graph_key, fence, Until::Done())));
  WaitFor([&] { return LeaseOf(graph_key).fence > fence; });
  a->compilers().OpenGate();
  compile.join();
  WaitFor([&] { return LeaseOf(graph_key).fence == 0; });
}

TEST_F(ClusterTest, WithoutBlobsNobodyWaitsForWhatCannotCome) {
  tier_ = nullptr;
  const Digest graph_key = GraphKeyOf("graph f 4");
  ASSERT_TRUE(RunTask(index_.Acquire(graph_key, "other", std::chrono::hours(1), Until::Done())));
  const auto a = Start("a");
  EXPECT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Count(Counter::cluster_waits), 0u);
}

TEST_F(ClusterTest, WhatIsTooLargeToShareIsWaitedForOnce) {
  tier_ = &small_blobs_;
  const std::string graph = "graph far_too_large_for_an_index 4";
  std::vector<std::unique_ptr<Machine>> machines;
  std::vector<std::thread> threads;
  for (const char* name : {"a", "b", "c"}) {
    machines.push_back(Start(name));
    machines.back()->compilers().CloseGate();
    threads.emplace_back(
        [&, machine = machines.back().get()] { EXPECT_TRUE(machine->client().Compile(MakeCompile("f", graph))); });
    if (machines.size() == 1) machines.front()->compilers().WaitForJob();
  }
  WaitFor([&] { return Count(Counter::cluster_waits) == 2; });
  machines[0]->compilers().OpenGate();
  // Both at once, and not the last after the other.
  WaitFor([&] { return machines[1]->compilers().started() == 1 && machines[2]->compilers().started() == 1; });
  machines[1]->compilers().OpenGate();
  machines[2]->compilers().OpenGate();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ClusterTest, WhatIsTooLargeToShareKeepsNothingElseFromIt) {
  tier_ = &small_blobs_;
  const auto a = Start("a");
  a->index().away = true;
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(a->client().Compile(MakeCompile("large", "graph far_too_large_for_an_index 4")));
  a->index().away = false;
  WaitFor([&] { return a->core().sharing.unsent() == 0; });
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("large"))->reply.found);
}

TEST(CircuitBreakerTest, TakesWhatFailsTogetherForOneFailure) {
  FakeClock clock;
  cache::CircuitBreaker breaker({.failures_max = 2, .apart_ms_min = 1000}, clock);
  for (int i = 0; i < 10; ++i) breaker.Failed("the connection was cut");
  EXPECT_TRUE(breaker.Allow());
  clock.AdvanceSeconds(1);
  breaker.Failed("and again");
  EXPECT_FALSE(breaker.Allow());
}

TEST(CircuitBreakerTest, LetsOneTryAfterAWhileAndAllAfterASuccess) {
  FakeClock clock;
  cache::CircuitBreaker breaker({.failures_max = 2, .pause_ms_min = 1000, .pause_ms_max = 4000}, clock);
  ASSERT_TRUE(breaker.Allow());
  breaker.Failed("one");
  ASSERT_TRUE(breaker.Allow());
  clock.AdvanceSeconds(1);
  breaker.Failed("two");
  EXPECT_FALSE(breaker.Allow());
  clock.AdvanceSeconds(1);
  ASSERT_TRUE(breaker.Allow());
  EXPECT_FALSE(breaker.Allow()) << "one at a time";
  breaker.Failed("three");
  clock.AdvanceSeconds(1);
  EXPECT_FALSE(breaker.Allow()) << "twice as long";
  clock.AdvanceSeconds(1);
  ASSERT_TRUE(breaker.Allow());
  breaker.GaveUp();
  ASSERT_TRUE(breaker.Allow()) << "who leaves without an answer lets another try";
  breaker.Succeeded();
  EXPECT_TRUE(breaker.Allow());
  EXPECT_EQ(breaker.facts().opened, 1u);
  EXPECT_EQ(breaker.facts().why, "three");
}

}  // namespace
}  // namespace ingot::daemon
