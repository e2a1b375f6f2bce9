// SPDX-License-Identifier: Apache-2.0
// What becomes of artifacts after they were served.
#include "daemon/tune/improving.h"

#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/processors.h"
#include "daemon/compile/graph_record.h"
#include "daemon/compile/recipe.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "tests/support/daemon/test_machines.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;
using nlohmann::json;
using proto::Outcome;

Bytes BytesOf(const UniqueFd& file, Buffer& into) {
  into.resize(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)));
  EXPECT_EQ(pread(file.get(), into.data(), into.size(), 0), static_cast<ssize_t>(into.size()));
  return into;
}

/// Layouts that the recipe of an artifact has.
size_t LayoutsOf(const UniqueFd& file) {
  Buffer bytes;
  const auto recipe = RecipeOf(BytesOf(file, bytes));
  EXPECT_TRUE(recipe) << recipe.error().ToText();
  return recipe && *recipe ? (*recipe)->arenas.size() : 0;
}

class ImprovingTest : public ServerTest {
 protected:
  ImprovingTest() {
    config_.tuning_idle_s = 0;
    before_server_ = [this] {
      core_->background = &background_;
      core_->improving.busy_processors = [this] {
        ++looks_;
        return std::optional<double>(busy_);
      };
    };
  }
  void TearDown() override {
    ServerTest::TearDown();
    background_.Stop();
  }
  size_t Layouts(const std::string& function) {
    const auto hit = Connect()->Lookup(*MakeKey(function));
    EXPECT_TRUE(hit && hit->reply.found);
    return hit && hit->reply.found ? LayoutsOf(hit->files.at(0)) : 0;
  }
  json Ask(const std::string& verb, const json& arguments) {
    const auto answer = Connect()->Query(verb, arguments.dump());
    EXPECT_TRUE(answer) << answer.error().ToText();
    return answer ? json::parse(*answer) : json();
  }

  FakeCompilers background_;
  std::atomic<double> busy_ = 0;
  std::atomic<int> looks_ = 0;
};

class TunedByHandTest : public ImprovingTest {
 protected:
  TunedByHandTest() { config_.tuning = "off"; }
};

TEST_F(ImprovingTest, ABetterArtifactComesInTheServedOnesPlace) {
  const auto connection = Connect();
  const auto first = connection->Compile(MakeCompile("f", "graph loose 4"));
  ASSERT_TRUE(first) << first.error().ToText();
  EXPECT_EQ(LayoutsOf(first->file), 0u);
  EXPECT_TRUE(Eventually([&] { return Count(Counter::improved) == 1; }));
  EXPECT_EQ(Count(Counter::arena_bytes_saved), 100u);
  EXPECT_EQ(Layouts("f"), 1u);
  // Whoever had the other goes on with it, also where it has to be brought again.
  EXPECT_EQ(LayoutsOf(first->file), 0u);
  const Digest before{first->reply.variant->artifact_low, first->reply.variant->artifact_high};
  EXPECT_TRUE(connection->Fetch(before));
  // The graph has it, so that a program that comes to the graph from elsewhere does too.
  const auto other = connection->Compile(MakeCompile("g", "graph loose 4"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->reply.outcome, Outcome::GraphHit);
  EXPECT_EQ(LayoutsOf(other->file), 1u);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  const json entry = Ask("inspect", {{"key", "f"}});
  EXPECT_EQ(entry["variants"][0]["replaced"], json::array({before.ToHex()}));
  EXPECT_EQ(entry["variants"][0]["provenance"]["arenas"], json::parse(R"([{"sizes":[],"bytes":64}])"));
  EXPECT_EQ(Ask("verify", {{"recompile", true}})["problems"], json::array());
  EXPECT_EQ(Ask("stats", json::object())["improved"], 1);
}

TEST_F(ImprovingTest, IdleTimeProvesWhatItsCompileHadNoTimeFor) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph loose large 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::proved_whole) == 1; }));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::improved) == 1; }));
  // What takes the place of what was proved is not proved.
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["variants"][0]["provenance"]["graph_proof"]["skipped"], "it is large");
  ASSERT_TRUE(Connect()->Compile(MakeCompile("g", "graph slow large 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::proved_whole) == 2; }));
  EXPECT_EQ(Count(Counter::quarantined), 0u);
}

TEST_F(ImprovingTest, WhatIdleTimeFindsWrongGoesIntoQuarantine) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose large wrong 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::quarantined) == 1; }));
  EXPECT_EQ(Count(Counter::proved_wrong), 1u);
  const auto hit = connection->Lookup(*MakeKey("f"));
  EXPECT_FALSE(hit && hit->reply.found);
  const auto again = connection->Compile(MakeCompile("f", "graph loose large wrong 4"));
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message().find("pass dce"), std::string::npos) << again.error().ToText();
  EXPECT_EQ(Count(Counter::improved), 0u);
}

TEST_F(TunedByHandTest, AProofIsNoted) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph tight large slow 4")));
  Ask("tune", {{"key", "f"}});
  EXPECT_EQ(Count(Counter::proved_whole), 1u);
  // The better artifact that it led to, and that one once.
  Ask("tune", {{"key", "f"}});
  EXPECT_EQ(Count(Counter::proved_whole), 2u);
  Ask("tune", {{"key", "f"}});
  EXPECT_EQ(Count(Counter::proved_whole), 2u);
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["variants"][0]["provenance"]["graph_proof"]["sizes"], 11);
}

TEST_F(ImprovingTest, NothingIsDoneWhileOthersNeedTheMachine) {
  busy_ = static_cast<double>(ProcessorCount());
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph loose 4")));
  const int looks = looks_;
  EXPECT_TRUE(Eventually([&] { return looks_ >= looks + 2; }));
  EXPECT_EQ(background_.started(), 0u);
  busy_ = 0;
  EXPECT_TRUE(Eventually([&] { return Count(Counter::improved) == 1; }));
}

TEST_F(ImprovingTest, ItGivesWayToACompileAndIsTriedAgain) {
  background_.CloseGate();
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose 4")));
  background_.WaitForJob();
  compilers_->CloseGate();
  std::thread client([this] { EXPECT_TRUE(Connect()->Compile(MakeCompile("g", "graph g 4"))); });
  compilers_->WaitForJob();
  EXPECT_TRUE(Eventually([&] { return background_.pending() == 0; }));
  background_.OpenGate();
  const int looks = looks_;
  EXPECT_TRUE(Eventually([&] { return looks_ >= looks + 2; }));
  EXPECT_EQ(Count(Counter::improved), 0u) << "somebody waits for a compile";
  compilers_->OpenGate();
  client.join();
  EXPECT_TRUE(Eventually([&] { return Count(Counter::improved) == 1; }));
}

TEST_F(TunedByHandTest, OnlyWhatIsAskedForIsImproved) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph loose 8")));
  ASSERT_TRUE(connection->Compile(MakeCompile("h", "graph tight 4")));
  const json one = Ask("tune", {{"key", "f"}});
  EXPECT_EQ(one, json::parse(R"({"entries":1,"variants":1,"improved":1,"arena_bytes_saved":100,"kernels_measured":0,
                                 "kernels_tuned":0})"));
  EXPECT_EQ(Layouts("f"), 1u);
  EXPECT_EQ(Layouts("g"), 0u);
  EXPECT_EQ(Ask("tune", {{"all", true}})["improved"], 1);
  EXPECT_EQ(Layouts("g"), 1u);
  // What was looked at is not looked at again.
  const size_t started = background_.started();
  EXPECT_EQ(Ask("tune", {{"all", true}})["improved"], 0);
  EXPECT_EQ(background_.started(), started);
  for (const char* wrong : {R"({})", R"({"key":"f","all":true})", R"({"key":"nobody"})"}) {
    EXPECT_FALSE(connection->Query("tune", wrong)) << wrong;
  }
}

TEST_F(TunedByHandTest, ATemplateIsImprovedForTheSizesThatWereRecorded) {
  config_.tuning_sizes_max = 2;
  const auto connection = Connect();
  for (const char* size : {"4", "8", "16"}) {
    ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose " + std::string(size))));
  }
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["improved"], 2) << "the exact one that came first, and the template";
  const json entry = Ask("inspect", {{"key", "f"}});
  json sizes = json::array();
  for (const json& variant : entry["variants"]) {
    if (variant["kind"] == "template") sizes = variant["provenance"]["arenas"];
  }
  EXPECT_EQ(sizes, json::parse(R"([{"sizes":[16],"bytes":64},{"sizes":[8],"bytes":64}])")) << entry.dump();
  // Another size is another reason to look; what is known stays.
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose 32")));
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["arena_bytes_saved"], 100);
}

TEST_F(TunedByHandTest, EntriesOfOneGraphTakeOverWhatOneOfThemHasLedTo) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph loose 4")));
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["improved"], 1);
  EXPECT_EQ(Layouts("g"), 0u);
  const size_t started = background_.started();
  EXPECT_EQ(Ask("tune", {{"key", "g"}})["improved"], 0);
  EXPECT_EQ(Layouts("g"), 1u);
  EXPECT_EQ(background_.started(), started);
}

TEST_F(TunedByHandTest, WhoFindsTheOldOneWrongEndsTheBetterOneToo) {
  const auto connection = Connect();
  const auto first = connection->Compile(MakeCompile("f", "graph loose 4"));
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["improved"], 1);
  const Digest before{first->reply.variant->artifact_low, first->reply.variant->artifact_high};
  Ask("quarantine", {{"artifact", before.ToHex()}, {"why", "other numbers"}});
  EXPECT_FALSE(connection->Lookup(*MakeKey("f"))->reply.found);
  EXPECT_FALSE(connection->Compile(MakeCompile("f", "graph loose 4")));
  // And no improvement that was under way brings it back.
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["improved"], 0);
  EXPECT_FALSE(connection->Lookup(*MakeKey("f"))->reply.found);
}

TEST_F(TunedByHandTest, WhatAnotherCompilerMadeIsLeftAlone) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph loose 4")));
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  Entries::Change change = [](proto::EntryRecordT& record) { record.variants[0]->graph_key_low ^= 1; };
  ASSERT_TRUE(RunTask(core_->entries.ChangeStored(entry, change, Until::Done())));
  EXPECT_EQ(Ask("tune", {{"key", "f"}}),
            json::parse(R"({"entries":1,"variants":0,"improved":0,"arena_bytes_saved":0,"kernels_measured":0,
                                 "kernels_tuned":0})"));
  EXPECT_EQ(background_.started(), 0u);
}

TEST_F(TunedByHandTest, WhatWasMeasuredServesAllGraphsFromThenOn) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph slow 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph slow 8")));
  json said = Ask("tune", {{"key", "f"}});
  EXPECT_EQ(said["kernels_measured"], 1);
  EXPECT_EQ(said["kernels_tuned"], 1);
  EXPECT_EQ(said["improved"], 1);
  EXPECT_EQ(Count(Counter::tuned_ns_saved), 100u);
  const json chosen = json::parse(R"([{"kernel":"00000000000000000000000000000007","schedule":"tile 2",
                                       "name":"product","first_ns":1000,"best_ns":900}])");
  const auto choices = [&](const char* function) {
    return Ask("inspect", {{"key", function}})["variants"][0]["provenance"]["choices"];
  };
  EXPECT_EQ(choices("f"), chosen);
  // The other one was compiled before, and is made anew without measuring.
  EXPECT_EQ(choices("g"), json::array());
  said = Ask("tune", {{"key", "g"}});
  EXPECT_EQ(said["kernels_measured"], 0);
  EXPECT_EQ(said["improved"], 1);
  EXPECT_EQ(choices("g"), chosen);
  // What comes now has it at once, also from a daemon that comes after this one.
  ASSERT_TRUE(connection->Compile(MakeCompile("h", "graph slow 16")));
  EXPECT_EQ(choices("h"), chosen);
  StopServer();
  StartServer();
  ASSERT_TRUE(Connect()->Compile(MakeCompile("i", "graph slow 32")));
  EXPECT_EQ(choices("i"), chosen);
  EXPECT_EQ(Ask("verify", {{"recompile", true}})["problems"], json::array());
}

class RivalTest : public TunedByHandTest {
 protected:
  json Choices(const char* function) {
    return Ask("inspect", {{"key", function}})["variants"][0]["provenance"]["choices"];
  }
  /// What a client says that measured the kernel.
  json Say(uint64_t kernel_ns, uint64_t library_ns, bool library) {
    return {{"kernel", kKernel}, {"kernel_ns", kernel_ns}, {"library_ns", library_ns}, {"library", library}};
  }
  static constexpr const char* kKernel = "00000000000000000000000000000007";
};

TEST_F(RivalTest, WhereTheLibraryIsFasterEveryCompileCallsIt) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph slow 4")));
  ASSERT_TRUE(connection->Compile(MakeCompile("g", "graph slow 8")));
  Ask("tune", {{"key", "f"}});
  const json said = Ask("contests", {{"key", "f"}});
  ASSERT_EQ(said["contests"].size(), 1u) << said.dump();
  const json& contest = said["contests"][0];
  EXPECT_EQ(contest["kernel"], kKernel);
  EXPECT_EQ(contest["sizes"], json::parse(R"([[["f32",[4],[1]]]])"));
  for (const char* side : {"ours", "library"}) {
    EXPECT_TRUE(connection->Fetch(*Digest::FromHex(contest[side].get<std::string>()))) << side;
  }
  EXPECT_NE(contest["ours"], contest["library"]);
  EXPECT_EQ(Ask("rival", Say(2000, 1000, true)), json::parse(R"({"chosen":true})"));
  EXPECT_EQ(Count(Counter::libraries_measured), 1u);
  EXPECT_EQ(Count(Counter::libraries_chosen), 1u);
  EXPECT_EQ(Ask("contests", {{"key", "f"}})["contests"], json::array()) << "once is enough";
  // What was compiled before is made anew, and what comes now has it at once; also from a daemon that comes later.
  const json chosen = json::parse(R"([{"kernel":"00000000000000000000000000000007","schedule":"library",
      "name":"product","first_ns":1000,"best_ns":900,"kernel_ns":2000,"library_ns":1000}])");
  EXPECT_EQ(Ask("tune", {{"all", true}})["improved"], 2);
  EXPECT_EQ(Choices("f"), chosen);
  EXPECT_EQ(Choices("g"), chosen);
  ASSERT_TRUE(connection->Compile(MakeCompile("h", "graph slow 16")));
  EXPECT_EQ(Choices("h"), chosen);
  StopServer();
  StartServer();
  ASSERT_TRUE(Connect()->Compile(MakeCompile("i", "graph slow 32")));
  EXPECT_EQ(Choices("i"), chosen);
  EXPECT_EQ(Ask("verify", {{"recompile", true}})["problems"], json::array());
}

TEST_F(RivalTest, WhereItIsNotTheKernelStays) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph slow 4")));
  Ask("tune", {{"key", "f"}});
  const json before = Choices("f");
  ASSERT_EQ(Ask("contests", {{"key", "f"}})["contests"].size(), 1u);
  EXPECT_EQ(Ask("rival", Say(1000, 2000, false)), json::parse(R"({"chosen":false})"));
  EXPECT_EQ(Ask("contests", {{"key", "f"}})["contests"], json::array());
  EXPECT_EQ(Ask("tune", {{"key", "f"}})["improved"], 0);
  EXPECT_EQ(Choices("f")[0]["schedule"], before[0]["schedule"]);
  EXPECT_EQ(Count(Counter::libraries_chosen), 0u);
}

TEST_F(RivalTest, NobodySaysWhatHeCannotHaveMeasured) {
  const auto connection = Connect();
  const auto refused = [&](const char* verb, const json& arguments) {
    const auto answer = connection->Query(verb, arguments.dump());
    return answer ? "taken" : answer.error().ToText();
  };
  EXPECT_THAT(refused("rival", Say(2000, 1000, true)), testing::HasSubstr("handed to nobody"));
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph slow 4")));
  ASSERT_EQ(Ask("contests", {{"key", "f"}})["contests"].size(), 1u);
  EXPECT_THAT(refused("rival", Say(1000, 970, true)), testing::HasSubstr("at most 96%"));
  EXPECT_THAT(refused("rival", Say(0, 0, true)), testing::HasSubstr("at most 96%"));
  EXPECT_THAT(refused("rival", Say(~0ull, ~0ull, false)), testing::HasSubstr("at most 96%"));
  EXPECT_THAT(refused("rival", {{"kernel", "no digest"}}), testing::StartsWith("invalid"));
  EXPECT_THAT(refused("contests", {{"key", "nobody"}}), testing::StartsWith("not_found"));
  EXPECT_EQ(Count(Counter::libraries_measured), 0u);
  EXPECT_EQ(Ask("contests", {{"key", "f"}})["contests"].size(), 1u) << "nothing is known yet";
}

TEST_F(RivalTest, WhatTheLibraryHasNoPartInIsAskedOnce) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph slow alone")));
  EXPECT_EQ(Ask("contests", {{"key", "f"}})["contests"], json::array());
  const size_t started = background_.started();
  EXPECT_EQ(Ask("contests", {{"key", "f"}})["contests"], json::array());
  EXPECT_EQ(background_.started(), started + 1) << "no rivals are compiled";
}

TEST_F(ClusterTest, WhatWasImprovedIsComparedByItsRecipe) {
  FakeCompilers background;
  const auto a = Start("a");
  a->core().background = &background;
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph loose 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 2; }));
  ASSERT_TRUE(a->client().Query("tune", R"({"key":"f"})"));
  EXPECT_EQ(Count(Counter::improved), 1u);
  // The first entry is shared as it was. One that is made from here on has the better artifact.
  ASSERT_TRUE(a->client().Compile(MakeCompile("g", "graph loose 4")));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::cluster_writes) == 3; }));
  const auto b = Start("b", /*may_sign=*/false);
  const auto plain = b->client().Lookup(*MakeKey("f")), better = b->client().Lookup(*MakeKey("g"));
  ASSERT_TRUE(plain->reply.found && better->reply.found);
  EXPECT_EQ(LayoutsOf(plain->files.at(0)), 0u);
  EXPECT_EQ(LayoutsOf(better->files.at(0)), 1u);
  EXPECT_TRUE(Eventually([&] { return b->core().shadowing.counts().equal == 2; }));
  EXPECT_EQ(b->core().shadowing.counts().different, 0u);
}

TEST(ReplaceArtifact, RemembersWhatClientsMayHaveStill) {
  proto::StoredVariantT stored;
  stored.variant = std::make_unique<proto::VariantT>();
  stored.variant->artifact_low = 1;
  for (uint64_t i = 2; i <= 20; ++i) ReplaceArtifact(stored, {i, 0}, 10 * i);
  EXPECT_EQ(stored.variant->artifact_bytes, 200u);
  EXPECT_TRUE(IsOrWas(stored, {20, 0}));
  EXPECT_TRUE(IsOrWas(stored, {19, 0}));
  EXPECT_FALSE(IsOrWas(stored, {21, 0}));
  EXPECT_FALSE(IsOrWas(stored, {1, 0})) << "there is an end";
  EXPECT_TRUE(WithoutOrigins(stored).replaced.empty());
}

TEST(ParseTuning, NamesTheTextsThereAre) {
  EXPECT_EQ(*ParseTuning("idle"), Tuning::kIdle);
  EXPECT_EQ(*ParseTuning("off"), Tuning::kOff);
  EXPECT_EQ(ParseTuning("on").error().ToText(), "invalid: 'tuning' must be idle or off, found 'on'");
}

TEST(RecipeOf, RefusesWhatIsNoArtifact) { EXPECT_EQ(RecipeOf(AsBytes("no artifact")).error().code(), Code::kCorrupt); }

}  // namespace
}  // namespace ingot::daemon
