// SPDX-License-Identifier: Apache-2.0
// One compile for all machines: whose turn it is, who waits, and until when.
#include <boost/asio/detached.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/daemon/test_machines.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;

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
  EXPECT_TRUE(Eventually([&] { return gated.writes >= 1; }));
  const Digest graph_key = GraphKeyOf("graph f 4");
  cache::Lease lease = LeaseOf(graph_key);
  const uint64_t fence = lease.fence;
  ASSERT_NE(fence, 0u);
  // It goes on for longer than the lease would last by itself.
  for (int beats = 0; beats < 5; ++beats) {
    bool has_changed = false;
    EXPECT_TRUE(Eventually([&] {
      const cache::Lease before = std::exchange(lease, LeaseOf(graph_key));
      has_changed |= lease.fence != fence || lease.left > before.left;
      return has_changed;
    }));
    ASSERT_EQ(lease.fence, fence);
  }
  gated.Open();
  EXPECT_TRUE(Eventually([&] { return LeaseOf(graph_key).fence == 0; }));
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
    EXPECT_TRUE(Eventually([&] { return machine->core().sharing.unsent() == 0; }));
  }
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) >= 2; }));
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
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_waits) == 1; }));
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
  EXPECT_TRUE(Eventually([&] {
    const auto answer = nlohmann::json::parse(*b->client().Query("progress", R"({"progress": "mine"})"));
    flight = answer.value("flight", nlohmann::json());
    return flight.is_object() && flight["left_s"].is_number();
  }));
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
  EXPECT_TRUE(Eventually([&] { return LeaseOf(graph_key).fence > fence; }));
  a->compilers().OpenGate();
  compile.join();
  EXPECT_TRUE(Eventually([&] { return LeaseOf(graph_key).fence == 0; }));
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
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_waits) == 2; }));
  machines[0]->compilers().OpenGate();
  // Both at once, and not the last after the other.
  EXPECT_TRUE(
      Eventually([&] { return machines[1]->compilers().started() == 1 && machines[2]->compilers().started() == 1; }));
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
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("large"))->reply.found);
}

}  // namespace
}  // namespace ingot::daemon
