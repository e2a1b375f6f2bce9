// SPDX-License-Identifier: Apache-2.0
// Daemons of several machines that share an index and blobs, inside one process.
#include <chrono>
#include <thread>

#include "base/fake_clock.h"
#include "cache/async/circuit_breaker.h"
#include "daemon/cluster/tiers.h"
#include "daemon/state/convert.h"
#include "tests/support/daemon/test_machines.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;

TEST_F(ClusterTest, WhatOneMachineMadeServesAnother) {
  const auto a = Start("a");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
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
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  const auto taken_in = std::make_shared<NotingStore>();
  store_ = taken_in;
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_THAT(taken_in->writes(), testing::ElementsAre(NotingStore::Write{Table::kArtifacts, false},
                                                       NotingStore::Write{Table::kEntries, false}));
}

TEST_F(ClusterTest, AGraphThatCouldNotBeSharedIsSharedLater) {
  const auto a = Start("a");
  a->index().away = true;
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  a->index().away = false;
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2 && a->core().sharing.unsent() == 0; }));
  // Another function of the same graph.
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Compile(MakeCompile("g", "graph f 4")));
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ClusterTest, FailuresAreSharedWithTheCompilerThatFailed) {
  const auto a = Start("a");
  ASSERT_FALSE(a->client().Compile(MakeCompile("bad", "graph bad 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) >= 1; }));
  const auto b = Start("b");
  const auto answer = b->client().Compile(MakeCompile("bad", "graph bad 4"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(Count(Counter::compile_failures), 1u);
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
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f3"))->reply.found);
}

/// Of one entry that machines add to, by one key, as those of a fleet have it, or each by its own.
TEST_F(ClusterTest, WhatEachMachineAddsToAnEntryStays) {
  const cache::SigningKey other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({key_.get(), &other});
  for (const bool is_one_key : {true, false}) {
    const std::string function = is_one_key ? "f" : "g";
    const auto graph = [&](int which) { return "graph " + function + std::to_string(which) + " 4"; };
    const auto compile = [&](Machine& machine, int which) {
      proto::CompileT request = MakeCompile(function, graph(which));
      AddDependency(request, "value", "steps", static_cast<uint64_t>(which));
      ASSERT_TRUE(machine.client().Compile(request));
      EXPECT_TRUE(Eventually([&] { return machine.core().sharing.unsent() == 0; }));
    };
    const auto variants = [&](Machine& machine) {
      const auto found = machine.client().Lookup(*MakeKey(function), -1, /*again=*/true);
      return found ? found->reply.variants.size() : 0;
    };
    const auto a = Start(function + "a"), b = StartWith(function + "b", is_one_key ? key_.get() : &other);
    compile(*a, 2);
    EXPECT_EQ(variants(*b), 1u);
    compile(*b, 3);
    compile(*a, 4);
    // It has not heard of the fourth, and says the second again, and more.
    compile(*b, 5);
    EXPECT_EQ(variants(*Start(function + "c", /*may_sign=*/false)), 4u) << is_one_key;
    EXPECT_EQ(variants(*a), 4u) << is_one_key;
    EXPECT_EQ(variants(*b), 4u) << is_one_key;
    // The same once more adds nothing.
    const uint64_t writes = Count(Counter::cluster_writes);
    compile(*a, 4);
    EXPECT_EQ(Count(Counter::cluster_writes), writes);
  }
}

TEST_F(ClusterTest, WhatNobodyHadIsAskedForAgainOnceItIsThere) {
  adjust_ = [](Config& config) { config.cluster_miss_ms = 3'600'000; };
  const auto a = Start("a"), b = Start("b");
  EXPECT_FALSE(a->client().Lookup(*MakeKey("f"))->reply.found);
  const auto compile = [&](Machine& machine, int which) {
    proto::CompileT request = MakeCompile("f", "graph f" + std::to_string(which) + " 4");
    AddDependency(request, "value", "steps", static_cast<uint64_t>(which));
    ASSERT_TRUE(machine.client().Compile(request));
    EXPECT_TRUE(Eventually([&] { return machine.core().sharing.unsent() == 0; }));
  };
  compile(*a, 2);
  compile(*b, 3);
  const auto found = a->client().Lookup(*MakeKey("f"), -1, /*again=*/true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->reply.variants.size(), 2u);
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
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 6; }));
  a->index().away = false;
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 1; }));
  const auto b = Start("b", /*may_sign=*/false);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("g"))->reply.found);
  // By now it is the only one, and the fault is its own.
  answer = Code::kInvalid;
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  EXPECT_EQ(Count(Counter::cluster_unsent), 1u);
}

TEST_F(ClusterTest, TheFirstLookUpOfAJobBringsTheOthers) {
  const std::vector<std::string> functions = {"f0", "f1", "f2", "f3", "f4"};
  const auto a = Start("a");
  for (const std::string& function : functions) {
    ASSERT_TRUE(a->client().Lookup(*MakeKey(function)));
    ASSERT_TRUE(a->client().Compile(MakeCompile(function, "graph " + function + " 4")));
  }
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0 && Count(Counter::cluster_writes) == 10; }));
  a->ChangeClient();
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_manifests) == 1; }));
  const auto b = Start("b");
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f0"))->reply.found);
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_prefetched) == 4; }));
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
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0 && Count(Counter::cluster_writes) == 8; }));
  a->ChangeClient();
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_manifests) == 1; }));
  const uint64_t bytes = std::string("artifact of graph f0 4").size();
  adjust_ = [&](Config& config) { config.cluster_prefetch_bytes_max = 2 * bytes; };
  const auto small = Start("small");
  ASSERT_TRUE(small->client().Lookup(*MakeKey("f0"))->reply.found);
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_prefetched) == 2; }));
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
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_manifests) == 1; }));
}

TEST(TiersTest, RefuseAnAddressOfSeveralServers) {
  for (const char* field : {"cluster_index", "cluster_blobs_endpoint"}) {
    Config config;
    const std::string two = "redis://127.0.0.1:6379 redis://127.0.0.1:6380";
    ASSERT_TRUE(SetField(config, field, two, "test"));
    const auto opened = Tiers::Open(config);
    ASSERT_FALSE(opened) << field;
    EXPECT_EQ(opened.error().code(), Code::kInvalid);
    const std::string why = opened.error().message();
    for (const std::string& part :
         {std::string(field), two, std::string("one server"), std::string("managed endpoint")}) {
      EXPECT_THAT(why, testing::HasSubstr(part));
    }
  }
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
