// SPDX-License-Identifier: Apache-2.0
// What a client sees of the daemon, over a real socket; the compiler is a fake.
#include "tests/support/daemon/test_server.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <future>
#include <numeric>

#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

using nlohmann::json;
using proto::Outcome;
using proto::VariantKind;

TEST_F(ServerTest, CompilesAMissAndServesItAfterwards) {
  const auto connection = Connect();
  auto miss = connection->Lookup(*MakeKey("f"));
  ASSERT_TRUE(miss) << miss.error().ToText();
  EXPECT_FALSE(miss->reply.found);
  EXPECT_EQ(miss->reply.why, "never stored: no entry of function f");

  auto compiled = connection->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(compiled) << compiled.error().ToText();
  EXPECT_EQ(compiled->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(ReadAll(compiled->file), "artifact of graph f 4");
  EXPECT_TRUE(proto::CheckSealed(compiled->file.get()));

  for (int i = 0; i < 3; ++i) {
    auto hit = connection->Lookup(*MakeKey("f"));
    ASSERT_TRUE(hit);
    ASSERT_TRUE(hit->reply.found);
    ASSERT_EQ(hit->reply.variants.size(), 1u);
    EXPECT_EQ(ReadAll(hit->files.at(0)), "artifact of graph f 4");
    EXPECT_EQ(hit->reply.entry_low, miss->reply.entry_low);
  }
  EXPECT_EQ(Count(Counter::compiles), 1u);
  EXPECT_EQ(Count(Counter::entry_hits), 3u);
  EXPECT_EQ(Count(Counter::entry_misses), 1u);

  const Digest digest{compiled->reply.variant->artifact_low, compiled->reply.variant->artifact_high};
  auto fetched = connection->Fetch(digest);
  ASSERT_TRUE(fetched) << fetched.error().ToText();
  EXPECT_EQ(ReadAll(*fetched), "artifact of graph f 4");
  EXPECT_EQ(connection->Fetch({1, 2}).error().code(), Code::kNotFound);
}

TEST_F(ServerTest, LooksUpWhileAllThreadsThatWriteWaitForTheDisk) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  core_->entries.Forget(daemon::ToKey(*MakeKey("f")).ToDigest());
  std::promise<void> go;
  const std::shared_future<void> disk = go.get_future().share();
  for (uint64_t i = 0; i < config_.pool_threads; ++i) core_->pool.Post([disk] { disk.wait(); });
  const auto hit = connection->Lookup(*MakeKey("f"), /*deadline_ms=*/10'000);
  EXPECT_TRUE(hit && hit->reply.found);
  const auto miss = connection->Lookup(*MakeKey("g"), /*deadline_ms=*/10'000);
  EXPECT_TRUE(miss && !miss->reply.found);
  go.set_value();
}

TEST_F(ServerTest, CompilesOnceForManyClientsOfOneKey) {
  std::vector<std::thread> clients;
  std::atomic<int> served{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this, &served] {
      const auto connection = Connect();
      auto answer = connection->Compile(MakeCompile("f", "graph f 4"));
      if (answer && ReadAll(answer->file) == "artifact of graph f 4") ++served;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served, 8);
  EXPECT_EQ(compilers_->started(), 1u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  EXPECT_EQ(Count(Counter::joins) + Count(Counter::graph_hits), 7u);
}

TEST_F(ServerTest, SharesOneGraphBetweenEntries) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph same 4")));
  auto other = connection->Compile(MakeCompile("g", "graph same 4"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->reply.outcome, Outcome::GraphHit);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  EXPECT_TRUE(connection->Lookup(*MakeKey("g"))->reply.found);
}

TEST_F(ServerTest, ProvesSizesOfATemplateAlsoAfterARestart) {
  auto connection = Connect();
  EXPECT_EQ(connection->Compile(MakeCompile("f", "graph f 4"))->reply.outcome, Outcome::Compiled);
  auto second = connection->Compile(MakeCompile("f", "graph f 8"));
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_EQ(second->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(second->reply.variant->kind, VariantKind::Template);
  EXPECT_EQ(second->reply.variant->proven, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(ReadAll(second->file), "artifact of template f");
  auto third = connection->Compile(MakeCompile("f", "graph f 16"));
  EXPECT_EQ(third->reply.outcome, Outcome::Proven);
  EXPECT_EQ(third->reply.variant->proven, (std::vector<int64_t>{4, 8, 16}));
  StopServer();
  StartServer();
  connection = Connect();
  auto fourth = connection->Compile(MakeCompile("f", "graph f 32"));
  ASSERT_TRUE(fourth) << fourth.error().ToText();
  EXPECT_EQ(fourth->reply.outcome, Outcome::Proven);
  EXPECT_EQ(fourth->reply.variant->proven, (std::vector<int64_t>{4, 8, 16, 32}));
  EXPECT_EQ(Count(Counter::compiles), 2u);
  EXPECT_EQ(Count(Counter::proven), 2u);
  EXPECT_EQ(connection->Lookup(*MakeKey("f"))->reply.variants.size(), 2u);
}

TEST_F(ServerTest, MakesTheTemplateOfTwoRecordingsAtOnce) {
  const auto connection = Connect();
  proto::CompileT request = MakeCompile("f", "graph f 8");
  const std::string sibling = "graph f 4";
  request.sibling.assign(sibling.begin(), sibling.end());
  const auto both = connection->Compile(request);
  ASSERT_TRUE(both) << both.error().ToText();
  EXPECT_EQ(both->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(both->reply.variant->kind, VariantKind::Template);
  EXPECT_EQ(both->reply.variant->proven, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(compilers_->started(), 1u);
  EXPECT_EQ(connection->Compile(request)->reply.outcome, Outcome::Proven);
  EXPECT_EQ(connection->Compile(MakeCompile("f", sibling))->reply.outcome, Outcome::Proven);
  EXPECT_EQ(compilers_->started(), 1u);
}

TEST_F(ServerTest, CompilesARecordingAloneThatHasNothingInCommonWithItsSibling) {
  const auto connection = Connect();
  const auto kind = [&](const char* function, const std::string& sibling) {
    proto::CompileT request = MakeCompile(function, fmt::format("graph {} 8", function));
    request.sibling.assign(sibling.begin(), sibling.end());
    const auto made = connection->Compile(request);
    EXPECT_TRUE(made) << made.error().ToText();
    return made->reply.variant->kind;
  };
  EXPECT_EQ(kind("f", "graph g 4"), VariantKind::Exact);
  EXPECT_EQ(kind("g", "no recording"), VariantKind::Exact);
  EXPECT_EQ(kind("halfbad", "graph halfbad 4"), VariantKind::Exact);  // Their template does not compile.
}

// Recordings that nobody has computed are held against what is stored, and leave nothing behind.
TEST_F(ServerTest, CompilesNothingForARequestThatMayOnlyBeProved) {
  const auto connection = Connect();
  const auto prove = [&](const char* recording) {
    proto::CompileT request = MakeCompile("f", recording);
    request.prove_only = true;
    return connection->Compile(request);
  };
  const auto early = prove("graph f 4");
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), Code::kNotFound);
  EXPECT_FALSE(connection->Lookup(*MakeKey("f"))->reply.found);
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(prove("graph f 8").error().code(), Code::kNotFound);  // It would take a template.
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 8")));
  EXPECT_EQ(prove("graph f 16")->reply.variant->proven, (std::vector<int64_t>{4, 8, 16}));
  EXPECT_EQ(prove("graph g 16").error().code(), Code::kNotFound);
  EXPECT_EQ(compilers_->started(), 2u);
  EXPECT_EQ(connection->Lookup(*MakeKey("f"))->reply.variants.size(), 2u);
}

/// A recording of `f` whose template shall have code for these sizes.
proto::CompileT MakeGeared(const std::string& f, int64_t size, std::vector<int64_t> gears) {
  proto::CompileT request = MakeCompile(f, fmt::format("graph {} {}", f, size));
  request.gears = std::move(gears);
  return request;
}

TEST_F(ServerTest, SpecializesATemplateForItsGears) {
  auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 8")));
  const auto made = connection->Compile(MakeGeared("f", 8, {16, 4, 8, 4}));
  ASSERT_TRUE(made) << made.error().ToText();
  EXPECT_EQ(made->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(made->reply.variant->kind, VariantKind::Template);
  EXPECT_EQ(made->reply.variant->proven, (std::vector<int64_t>{4, 8}));  // A gear is not proved by being one.
  EXPECT_EQ(ReadAll(made->file), "artifact of template f for 4 8 16");
  // The same gears, however they are listed, are the same compile.
  EXPECT_EQ(connection->Compile(MakeGeared("f", 4, {8, 16, 4}))->reply.outcome, Outcome::GraphHit);
  EXPECT_EQ(compilers_->started(), 3u);
  const auto proven = connection->Compile(MakeCompile("f", "graph f 16"));
  EXPECT_EQ(proven->reply.outcome, Outcome::Proven);
  EXPECT_EQ(ReadAll(proven->file), "artifact of template f for 4 8 16");
  StopServer();
  StartServer();
  connection = Connect();
  const auto found = connection->Lookup(*MakeKey("f"));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->reply.variants.size(), 2u);
  EXPECT_EQ(ReadAll(found->files.at(1)), "artifact of template f for 4 8 16");
  EXPECT_EQ(json::parse(*connection->Query("verify", R"({"recompile":true})"))["problems"], json::array());
}

TEST_F(ServerTest, KeepsTheGeneralCodeWhereGearsFail) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("ungeared", "graph ungeared 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("ungeared", "graph ungeared 8")));
  for (int i = 0; i < 2; ++i) {
    const auto made = connection->Compile(MakeGeared("ungeared", 8, {4, 8}));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kInternal);
  }
  EXPECT_EQ(compilers_->started(), 3u);  // The failure is remembered.
  const auto found = connection->Lookup(*MakeKey("ungeared"));
  EXPECT_EQ(ReadAll(found->files.at(1)), "artifact of template ungeared");
  EXPECT_EQ(connection->Compile(MakeCompile("ungeared", "graph ungeared 16"))->reply.outcome, Outcome::Proven);
  const json entry = json::parse(*connection->Query("inspect", R"({"key":"ungeared"})"));
  EXPECT_FALSE(entry.contains("failure")) << entry.dump();
}

TEST_F(ServerTest, RefusesGearsOfNoTemplate) {
  const auto connection = Connect();
  const auto refused = [&](proto::CompileT request) {
    const auto made = connection->Compile(request);
    return made ? Error(Code::kInternal, "it was compiled") : made.error();
  };
  EXPECT_EQ(refused(MakeGeared("f", 4, {4, 8})).code(), Code::kNotFound);
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(refused(MakeGeared("f", 8, {4, 8})).code(), Code::kNotFound);  // An exact variant has no gears.
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 8")));
  std::vector<int64_t> many(101);
  std::iota(many.begin(), many.end(), 1);
  const Error error = refused(MakeGeared("f", 8, many));
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_EQ(error.message(), "101 gears, gears_max is 100");
  EXPECT_EQ(compilers_->started(), 2u);
}

// A claim counts where the recording that carries it is an instance of the template and inside the claim.
TEST_F(ServerTest, KeepsAProvedRangeWithItsTemplate) {
  auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 8")));
  const auto claim = [&](const char* recording, const char* range, uint8_t degree) {
    proto::CompileT request = MakeCompile("f", recording);
    request.range = range;
    request.range_degree = degree;
    auto reply = connection->Compile(request);
    EXPECT_TRUE(reply) << reply.error().ToText();
    EXPECT_EQ(reply->reply.outcome, Outcome::Proven);
    return reply->reply.variant->range;
  };
  EXPECT_EQ(claim("graph f 8", "s0 >= 2 and s0 <= 512", 0), "");  // Proved for constants only.
  EXPECT_EQ(claim("graph f 16", "s0 >= 17", 1), "");              // The recording is outside.
  EXPECT_EQ(claim("graph f 16", "no guard", 1), "");
  EXPECT_EQ(claim("graph f 16", "s0 >= 2 and s0 <= 512", 1), "s0 >= 2 and s0 <= 512");
  EXPECT_EQ(claim("graph f 1024", "", 0), "s0 >= 2 and s0 <= 512");  // A further size leaves it alone.
  StopServer();
  StartServer();
  connection = Connect();
  const auto found = connection->Lookup(*MakeKey("f"));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->reply.variants.size(), 2u);
  EXPECT_EQ(found->reply.variants[1]->range, "s0 >= 2 and s0 <= 512");
}

TEST_F(ServerTest, KeepsSizesApartWithoutDynamic) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  proto::CompileT request = MakeCompile("f", "graph f 8");
  request.dynamic = false;
  auto second = connection->Compile(request);
  EXPECT_EQ(second->reply.variant->kind, VariantKind::Exact);
  EXPECT_EQ(second->reply.variant_index, 1u);
}

TEST_F(ServerTest, CompilesTheExactGraphWhenTheTemplateFails) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph halfbad 4")));
  auto second = connection->Compile(MakeCompile("f", "graph halfbad 8"));
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_EQ(second->reply.variant->kind, VariantKind::Exact);
  EXPECT_EQ(ReadAll(second->file), "artifact of graph halfbad 8");
}

// Kernels may ask more of sizes than the program does; such a template would never serve the recorded call.
TEST_F(ServerTest, CompilesTheExactGraphWhenTheTemplateDoesNotTakeItsSizes) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph from8 4")));
  const auto second = connection->Compile(MakeCompile("f", "graph from8 8"));
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_EQ(compilers_->started(), 3u);
  EXPECT_EQ(second->reply.variant->kind, VariantKind::Exact);
  EXPECT_EQ(ReadAll(second->file), "artifact of graph from8 8");
}

TEST_F(ServerTest, ProvesNoSizeThatTheTemplateDoesNotTake) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph from8 8")));
  const auto both = connection->Compile(MakeCompile("f", "graph from8 16"));
  ASSERT_TRUE(both) << both.error().ToText();
  EXPECT_EQ(both->reply.variant->kind, VariantKind::Template);
  EXPECT_EQ(connection->Compile(MakeCompile("f", "graph from8 9"))->reply.outcome, Outcome::Proven);
  const auto small = connection->Compile(MakeCompile("f", "graph from8 4"));
  ASSERT_TRUE(small) << small.error().ToText();
  EXPECT_EQ(small->reply.variant->kind, VariantKind::Exact);
  EXPECT_EQ(ReadAll(small->file), "artifact of graph from8 4");
  const auto found = connection->Lookup(*MakeKey("f"));
  ASSERT_EQ(found->reply.variants.size(), 3u);
  EXPECT_EQ(found->reply.variants[1]->proven, (std::vector<int64_t>{8, 16, 9}));
}

TEST_F(ServerTest, RemembersAFailureUntilRetry) {
  const auto connection = Connect();
  auto first = connection->Compile(MakeCompile("f", "graph bad 4"));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), Code::kUnsupported);
  auto second = connection->Compile(MakeCompile("f", "graph bad 4"));
  EXPECT_EQ(second.error().code(), Code::kUnsupported);
  EXPECT_NE(second.error().message().find("ingot retry"), std::string::npos);
  EXPECT_EQ(compilers_->started(), 1u);
  EXPECT_EQ(connection->Lookup(*MakeKey("f"))->reply.miss->reason, "failed");
  EXPECT_EQ(json::parse(*connection->Query("why-miss", R"({"key":"f"})"))["reason"], "failed");
  ASSERT_TRUE(connection->Query("retry", R"({"key":"f"})"));
  EXPECT_FALSE(connection->Compile(MakeCompile("f", "graph bad 4")));
  EXPECT_EQ(compilers_->started(), 2u);
  EXPECT_FALSE(connection->Compile(MakeCompile("f", "no recording")));
  EXPECT_EQ(compilers_->started(), 2u);
}

TEST_F(ServerTest, FinishesAFlightWhoseClientDied) {
  compilers_->CloseGate();
  {
    auto channel = client::Channel::Connect(socket_path());
    ASSERT_TRUE(channel);
    const Buffer body = proto::PackMessage<proto::Compile>(MakeCompile("f", "graph f 4"));
    EXPECT_EQ((*channel)->Call(proto::MessageType::Compile, body, 0).error().code(), Code::kTimeout);
    compilers_->WaitForJob();
  }
  compilers_->OpenGate();
  auto answer = Connect()->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_NE(answer->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(compilers_->started(), 1u);
}

TEST_F(ServerTest, AnswersTimeoutWhenTheCallerWaitsNoLonger) {
  compilers_->CloseGate();
  const auto connection = Connect();
  proto::CompileT request = MakeCompile("f", "graph f 4");
  request.wait_max_ms = 1;
  EXPECT_EQ(connection->Compile(request).error().code(), Code::kTimeout);
  // Other requests of this connection are answered meanwhile.
  EXPECT_TRUE(connection->Query("status"));
  compilers_->WaitForJob();
  compilers_->OpenGate();
  EXPECT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(compilers_->started(), 1u);
}

TEST_F(ServerTest, DrainFinishesWhatItHasAndTakesNothingMore) {
  compilers_->CloseGate();
  const auto connection = Connect();
  std::thread waiting([&] {
    auto answer = connection->Compile(MakeCompile("f", "graph f 4"));
    EXPECT_TRUE(answer) << answer.error().ToText();
  });
  compilers_->WaitForJob();
  const auto other = Connect();
  ASSERT_TRUE(other->Query("drain"));
  EXPECT_EQ(other->Compile(MakeCompile("g", "graph g 4")).error().code(), Code::kUnavailable);
  EXPECT_FALSE(client::Channel::Connect(socket_path()));
  compilers_->OpenGate();
  waiting.join();
  server_->Wait();
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ServerTest, NamesTheFirstDifferenceOfAMiss) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  auto miss = connection->Lookup(*MakeKey("f", "GELU"));
  EXPECT_EQ(miss->reply.why, "module_state model.act_fn: SiLU -> GELU");
}

// Thousands of rows that a client has just sent: they need not come back, unless others have seen more.
TEST_F(ServerTest, LeavesOutDependenciesThatTheClientKeeps) {
  const auto connection = Connect();
  proto::CompileT request = MakeCompile("f", "graph f 4");
  AddDependency(request, "global", "m.scale", 1);
  const auto all = connection->Compile(request);
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->reply.own_dependencies);
  EXPECT_EQ(all->reply.variant->dependencies.size(), 1u);

  request.keeps_dependencies = true;
  const auto own = connection->Compile(request);
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->reply.own_dependencies);
  EXPECT_TRUE(own->reply.variant->dependencies.empty());
  EXPECT_EQ(own->reply.variant->graph_low, all->reply.variant->graph_low);
  // What is stored has them.
  const auto hit = connection->Lookup(*MakeKey("f"));
  ASSERT_EQ(hit->reply.variants.size(), 1u);
  EXPECT_EQ(hit->reply.variants[0]->dependencies.size(), 1u);

  AddDependency(request, "global", "m.shift", 2);
  ASSERT_TRUE(connection->Compile(request));
  request.dependencies.pop_back();
  const auto merged = connection->Compile(request);
  ASSERT_TRUE(merged);
  EXPECT_FALSE(merged->reply.own_dependencies);
  EXPECT_EQ(merged->reply.variant->dependencies.size(), 2u);
}

TEST_F(ServerTest, KeepsVariantsOfTwoStatesBesideEachOther) {
  const auto connection = Connect();
  const auto request = [](uint64_t digest) {
    proto::CompileT out = MakeCompile("f", "graph f 4");
    AddDependency(out, "global", "m.scale", digest);
    return out;
  };
  ASSERT_TRUE(connection->Compile(request(1)));
  ASSERT_TRUE(connection->Compile(request(2)));
  auto hit = connection->Lookup(*MakeKey("f"));
  ASSERT_EQ(hit->reply.variants.size(), 2u);
  EXPECT_EQ(hit->reply.variants[0]->dependencies.at(0)->low, 1u);
  EXPECT_EQ(hit->reply.variants[1]->dependencies.at(0)->low, 2u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
}

TEST_F(ServerTest, CompilesAgainWhatTheStoreLost) {
  const auto connection = Connect();
  auto first = connection->Compile(MakeCompile("f", "graph f 4"));
  const Digest digest{first->reply.variant->artifact_low, first->reply.variant->artifact_high};
  ASSERT_TRUE(store_->Delete(cache::Table::kArtifacts, digest, {}));
  core_->artifacts.Forget(digest);
  auto miss = connection->Lookup(*MakeKey("f"));
  EXPECT_FALSE(miss->reply.found);
  EXPECT_TRUE(miss->reply.why.starts_with("stored, but its artifacts are gone")) << miss->reply.why;
  auto again = connection->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reply.outcome, Outcome::Compiled);
  auto hit = connection->Lookup(*MakeKey("f"));
  EXPECT_EQ(hit->reply.variants.size(), 1u);
}

TEST_F(ServerTest, ShowsAGraphAtEachStage) {
  const auto connection = Connect();
  auto compiled = connection->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(compiled);
  const proto::VariantT& variant = *compiled->reply.variant;
  const std::string graph = Digest{variant.graph_low, variant.graph_high}.ToHex();
  const auto text = [&](const std::string& name, const char* stage) {
    auto answer = connection->Query("text", json{{"graph", name}, {"stage", stage}}.dump());
    return answer ? json::parse(*answer)["text"].get<std::string>() : answer.error().ToText();
  };
  EXPECT_EQ(text(graph, "graph"), "graph f 4");
  EXPECT_EQ(text(graph.substr(0, 8), "optimized"), "Optimized of graph f 4");
  EXPECT_EQ(text(graph, "loop"), "Loop of graph f 4");
  EXPECT_EQ(text(graph, "llvm"), "Llvm of graph f 4");
  EXPECT_EQ(text(graph, "asm"), "Asm of graph f 4");
  EXPECT_TRUE(text(graph, "tea").starts_with("invalid: no stage 'tea'"));
  EXPECT_TRUE(text("zz", "graph").starts_with("not_found: "));
}

TEST_F(ServerTest, AnswersTheVerbsOfTheCli) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("pkg.f", "graph f 4")));
  ASSERT_TRUE(connection->Lookup(*MakeKey("pkg.f")));
  const auto query = [&](const char* verb, const char* arguments = "{}") {
    auto answer = connection->Query(verb, arguments);
    EXPECT_TRUE(answer) << verb << ": " << answer.error().ToText();
    return answer ? json::parse(*answer) : json();
  };
  EXPECT_EQ(query("status")["clients"], 1);
  EXPECT_EQ(query("stats")["compiles"], 1);
  const json list = query("list")["entries"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["function"], "pkg.f");
  EXPECT_EQ(list[0]["variants"], 1);
  EXPECT_EQ(list[0]["hits"], 1);
  EXPECT_EQ(list[0]["compile_s"], 0.5);
  const json entry = query("inspect", R"({"key":"pkg.f"})");
  EXPECT_EQ(entry["variants"][0]["kind"], "exact");
  EXPECT_EQ(entry["components"][1]["items"][0]["text"], "SiLU");
  EXPECT_EQ(query("verify", R"({"recompile":true})")["problems"], json::array());
  EXPECT_EQ(compilers_->started(), 2u);
  EXPECT_EQ(query("pin", R"({"key":"pkg.f"})")["pinned"], true);
  EXPECT_EQ(query("unpin", R"({"key":"pkg.f"})")["pinned"], false);
  EXPECT_EQ(query("doctor")["ok"], true);
  EXPECT_EQ(query("gc")["evicted"], 0);
  EXPECT_GT(query("config")["fields"].size(), 20u);
  EXPECT_EQ(query("evict", R"({"key":"pkg.f"})")["artifacts"], 1);
  EXPECT_EQ(query("list")["entries"].size(), 0u);
  EXPECT_FALSE(connection->Lookup(*MakeKey("pkg.f"))->reply.found);
  EXPECT_EQ(connection->Query("inspect", R"({"key":"pkg.f"})").error().code(), Code::kNotFound);
  EXPECT_EQ(query("why-miss", R"({"key":"pkg.f"})")["reason"], "evicted");
  EXPECT_EQ(connection->Query("dance").error().code(), Code::kInvalid);
  EXPECT_EQ(connection->Query("list", "[").error().code(), Code::kInvalid);
}

// Ranks and models meet at their graphs: what another entry still has must be there for the one that comes back.
TEST_F(ServerTest, EvictingAnEntryLeavesTheGraphThatAnotherShares) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph shared 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph shared 4")));
  ASSERT_EQ(Count(Counter::compiles), 1u);
  ASSERT_TRUE(connection->Query("evict", R"({"key":"f"})"));
  const auto again = connection->Compile(MakeCompile("f", "graph shared 4"));
  ASSERT_TRUE(again) << again.error().ToText();
  EXPECT_EQ(again->reply.outcome, proto::Outcome::GraphHit);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  // With the last entry that has it the graph goes as well.
  ASSERT_TRUE(connection->Query("evict", R"({"key":"f"})"));
  ASSERT_TRUE(connection->Query("evict", R"({"key":"g"})"));
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph shared 4")));
  EXPECT_EQ(Count(Counter::compiles), 2u);
}

}  // namespace
}  // namespace ingot::daemon
