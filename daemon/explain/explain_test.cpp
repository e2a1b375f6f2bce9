// SPDX-License-Identifier: Apache-2.0
// Why a key is not served, over the wire: each reason by its stable name, and what fell of late.
#include <nlohmann/json.hpp>

#include "base/fake_clock.h"
#include "daemon/state/convert.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

using nlohmann::json;

class ExplainTest : public ServerTest {
 protected:
  void SetUp() override {
    clock_ = &time_;
    config_.gc_interval_s = 0;
    ServerTest::SetUp();
    connection_ = Connect();
  }
  void TearDown() override {
    connection_.reset();
    ServerTest::TearDown();
  }

  json Ask(const std::string& verb, const json& arguments = json::object()) {
    const auto answer = connection_->Query(verb, arguments.dump());
    EXPECT_TRUE(answer) << verb << ": " << answer.error().ToText();
    return answer ? json::parse(*answer) : json();
  }
  json WhyMiss(const std::string& key) { return Ask("why-miss", {{"key", key}}); }
  std::string Refused(const std::string& verb, const json& arguments) {
    const auto answer = connection_->Query(verb, arguments.dump());
    return answer ? "answered" : answer.error().ToText();
  }
  /// "" when found.
  std::string MissOf(const proto::EntryKeyT& key) {
    const auto answer = connection_->Lookup(key);
    EXPECT_TRUE(answer);
    return answer->reply.found ? "" : answer->reply.miss->reason;
  }
  std::string ArtifactOf(const std::string& key) { return Ask("inspect", {{"key", key}})["variants"][0]["artifact"]; }

  FakeClock time_;
  std::unique_ptr<client::Connection> connection_;
};

TEST_F(ExplainTest, TellsTheReasonsOfAMissApart) {
  EXPECT_EQ(MissOf(*MakeKey("f")), "never_stored");
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(MissOf(*MakeKey("f")), "");
  const auto near = connection_->Lookup(*MakeKey("f", "GELU"));
  EXPECT_EQ(near->reply.miss->reason, "key_differs");
  EXPECT_EQ(near->reply.miss->component, "module_state");
  EXPECT_EQ(near->reply.miss->item, "model.act_fn");
  EXPECT_EQ(near->reply.miss->stored, "SiLU");
  EXPECT_EQ(near->reply.miss->asked, "GELU");
  EXPECT_NE(near->reply.miss->nearest_low, 0u);
  Ask("evict", {{"key", "f"}});
  EXPECT_EQ(MissOf(*MakeKey("f")), "evicted");
  EXPECT_EQ(WhyMiss("f")["why"], "evicted 2023-11-14 22:13 UTC by `ingot evict`");
}

TEST_F(ExplainTest, TellsAnotherBuildFromAChangedProgram) {
  const auto key = [](const char* torch) {
    auto out = MakeKey("f");
    out->components.push_back(MakeComponent("environment", "torch", torch));
    return out;
  };
  proto::CompileT request = MakeCompile("f", "graph f 4");
  request.key = key("2.13.0");
  ASSERT_TRUE(connection_->Compile(request));
  const auto miss = connection_->Lookup(*key("2.14.0"));
  EXPECT_EQ(miss->reply.miss->reason, "other_build");
  EXPECT_EQ(miss->reply.why, "environment torch: 2.13.0 -> 2.14.0");
}

TEST_F(ExplainTest, SaysWhenAFailedCompileIsTriedAgain) {
  ASSERT_FALSE(connection_->Compile(MakeCompile("lasting", "graph bad 4")));
  EXPECT_EQ(MissOf(*MakeKey("lasting")), "failed");
  const json lasting = WhyMiss("lasting");
  EXPECT_EQ(lasting["reason"], "failed");
  EXPECT_EQ(lasting["failure"]["retry_at"], 0);
  EXPECT_TRUE(lasting["why"].get<std::string>().starts_with(
      "a compile failed earlier: unsupported: bad graph; not tried again before `ingot retry "))
      << lasting["why"];
  ASSERT_FALSE(connection_->Compile(MakeCompile("refused", "not importable")));
  EXPECT_EQ(MissOf(*MakeKey("refused")), "failed");
  EXPECT_EQ(WhyMiss("refused")["why"],
            "a compile failed earlier: unsupported: not a graph: not importable; each recording tries again");
  ASSERT_TRUE(connection_->Compile(MakeCompile("refused", "graph good 4")));
  EXPECT_EQ(MissOf(*MakeKey("refused")), "");
  ASSERT_FALSE(connection_->Compile(MakeCompile("passing", "graph crash 4")));
  EXPECT_TRUE(WhyMiss("passing")["why"].get<std::string>().ends_with("; tried again after 2023-11-14 23:13 UTC"))
      << WhyMiss("passing")["why"];
  time_.AdvanceSeconds(3600);
  EXPECT_TRUE(WhyMiss("passing")["why"].get<std::string>().ends_with("; the next request tries again"));
}

TEST_F(ExplainTest, KeepsWhichDependencyWasRejected) {
  const auto request = [](uint64_t digest) {
    proto::CompileT out = MakeCompile("f", "graph f 4");
    AddDependency(out, "env", "MODE", digest);
    return out;
  };
  ASSERT_TRUE(connection_->Compile(request(1)));
  proto::CompileT changed = request(2);
  changed.rejected = "env MODE changed";
  ASSERT_TRUE(connection_->Compile(changed));
  const json why = WhyMiss("f");
  EXPECT_EQ(why["reason"], "rejected");
  EXPECT_EQ(why["why"], "stored, but rejected (2023-11-14 22:13 UTC): env MODE changed");
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["rejection"]["why"], "env MODE changed");
}

TEST_F(ExplainTest, GivesAQuarantinedArtifactToNobodyUntilRetry) {
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(connection_->Compile(MakeCompile("g", "graph f 4")));
  ASSERT_TRUE(connection_->Compile(MakeCompile("h", "graph h 4")));
  const std::string artifact = ArtifactOf("f");
  EXPECT_EQ(Refused("quarantine", {{"artifact", "12"}, {"why", "x"}}).substr(0, 8), "invalid:");
  EXPECT_EQ(Refused("quarantine", {{"artifact", artifact}}).substr(0, 8), "invalid:");
  EXPECT_EQ(Ask("quarantine", {{"artifact", artifact}, {"why", "output 0 differs by 2"}})["keys"].size(), 2u);
  EXPECT_EQ(Refused("quarantine", {{"artifact", artifact}, {"why", "again"}}).substr(0, 10), "not_found:");
  EXPECT_EQ(MissOf(*MakeKey("f")), "quarantined");
  EXPECT_EQ(MissOf(*MakeKey("g")), "quarantined");
  EXPECT_EQ(MissOf(*MakeKey("h")), "");
  // Nor does another entry, another try or a rejected record get it.
  for (const char* function : {"f", "i"}) {
    for (const char* rejected : {"", "env MODE changed"}) {
      proto::CompileT request = MakeCompile(function, "graph f 4");
      request.rejected = rejected;
      const auto refused = connection_->Compile(request);
      ASSERT_FALSE(refused);
      EXPECT_NE(refused.error().message().find("output 0 differs by 2"), std::string::npos);
    }
  }
  EXPECT_EQ(WhyMiss("i")["reason"], "quarantined");
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["failure"]["quarantined"], true);
  // Another graph of the entry serves, and does not hide that one is in quarantine.
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f2 4")));
  EXPECT_EQ(MissOf(*MakeKey("f")), "");
  const json failure = Ask("inspect", {{"key", "f"}})["failure"];
  EXPECT_EQ(failure["message"], "output 0 differs by 2");
  Ask("retry", {{"key", failure["graph_key"]}});
  EXPECT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(connection_->Compile(MakeCompile("g", "graph f 4")));
  EXPECT_EQ(Count(Counter::quarantined), 1u);
  EXPECT_FALSE(Ask("inspect", {{"key", "f"}}).contains("failure"));
}

TEST_F(ExplainTest, ComparesEntriesAndGraphs) {
  ASSERT_TRUE(connection_->Compile(MakeCompile("pkg.f", "graph f 4")));
  proto::CompileT other = MakeCompile("pkg.f", "graph f 8");
  other.key = MakeKey("pkg.f", "GELU");
  ASSERT_TRUE(connection_->Compile(other));
  const json list = Ask("list")["entries"];
  const std::string first = ToKey(*MakeKey("pkg.f")).ToDigest().ToHex();
  const std::string second = ToKey(*MakeKey("pkg.f", "GELU")).ToDigest().ToHex();
  const json found = Ask("diff", {{"a", first.substr(0, 8)}, {"b", second.substr(0, 8)}});
  EXPECT_EQ(found["a"]["key"], first);
  EXPECT_EQ(found["b"]["key"], second);
  ASSERT_EQ(found["differences"].size(), 1u);
  EXPECT_EQ(found["differences"][0]["text"], "module_state model.act_fn: SiLU -> GELU");
  EXPECT_EQ(found["graph"]["equal"], false);
  EXPECT_EQ(found["graph"]["text"], "graph inputs: graph f 4 -> graph f 8");
  const json same = Ask("diff", {{"a", first}, {"b", found["a"]["graph"]}});
  EXPECT_EQ(same["differences"], json::array());
  EXPECT_EQ(same["graph"]["equal"], true);
  EXPECT_EQ(WhyMiss(second)["graph"]["text"], "graph inputs: graph f 4 -> graph f 8");
  EXPECT_TRUE(Refused("diff", {{"a", "pkg.f"}, {"b", first}}).starts_with("invalid: 'pkg.f' names several entries"));
  EXPECT_TRUE(Refused("diff", {{"a", first}, {"b", "zz"}}).starts_with("not_found: no entry, graph or artifact 'zz'"));
}

TEST_F(ExplainTest, DoctorNamesAnUnchangedWorkloadThatHitsLess) {
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(connection_->Compile(MakeCompile("g", "graph g 4")));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(MissOf(*MakeKey("f")), "");
    EXPECT_EQ(MissOf(*MakeKey("g")), "");
  }
  EXPECT_EQ(Ask("doctor")["ok"], true);
  time_.AdvanceSeconds(3600);
  Ask("evict", {{"key", "f"}});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(MissOf(*MakeKey("f")), "evicted");
    EXPECT_EQ(MissOf(*MakeKey("g")), "");
    // Another key is another workload.
    EXPECT_EQ(MissOf(*MakeKey("g", "state " + std::to_string(i))), "key_differs");
  }
  const json report = Ask("doctor");
  EXPECT_EQ(report["ok"], false);
  const json& check = report["checks"].back();
  EXPECT_EQ(check["check"], "hit ratio");
  EXPECT_EQ(check["text"], "f: 0 of 10 lookups hit of late, 10 of 10 before; mostly evicted by `ingot evict` (10)");
}

/// A key as clients put it into the queries `split` and `agreed`.
json Parts(const proto::EntryKeyT& key) {
  json components = json::array();
  for (const auto& component : key.components) {
    json items = json::array();
    for (const auto& item : component->items)
      items.push_back({item->name, Digest{item->low, item->high}.ToHex(), item->text});
    components.push_back({component->name, items});
  }
  return components;
}

TEST_F(ExplainTest, NotesBesideAnArtifactThatItAgreedWithEager) {
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  const json components = Parts(*MakeKey("f"));
  const std::string artifact = ArtifactOf("f");
  EXPECT_TRUE(connection_->Lookup(*MakeKey("f"))->reply.variants[0]->agreed.empty());
  json noted = {{"components", components}, {"artifact", artifact}, {"sizes", json::array()}, {"why_not", "random"}};
  Ask("agreed", noted);
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["variants"][0]["agreed"][0]["why_not"], "random");
  noted["why_not"] = "";
  Ask("agreed", noted);
  const auto found = connection_->Lookup(*MakeKey("f"));
  ASSERT_EQ(found->reply.variants[0]->agreed.size(), 1u);
  EXPECT_EQ(found->reply.variants[0]->agreed[0]->when, time_.now_s());
  EXPECT_EQ(found->reply.variants[0]->agreed[0]->build, proto::BuildId());
  noted["sizes"] = {4};
  EXPECT_TRUE(Refused("agreed", noted).starts_with("not_found:"));
  noted["sizes"] = {"4"};
  EXPECT_TRUE(Refused("agreed", noted).starts_with("invalid:"));
  noted["sizes"] = json::array();
  noted["components"] = Parts(*MakeKey("g"));
  EXPECT_TRUE(Refused("agreed", noted).starts_with("not_found:"));
  noted["components"] = "f";
  EXPECT_TRUE(Refused("agreed", noted).starts_with("invalid:"));
  noted["components"] = components;
  noted["artifact"] = "12";
  EXPECT_TRUE(Refused("agreed", noted).starts_with("invalid:"));
}

TEST_F(ExplainTest, TellsTheNextProcessThatAProgramRunsInParts) {
  const auto key = MakeKey("f");
  Ask("split", {{"components", Parts(*key)}, {"note", R"({"why": "a value", "codes": {}})"}});
  const auto found = connection_->Lookup(*key);
  ASSERT_TRUE(found && found->reply.found);
  EXPECT_TRUE(found->reply.variants.empty());
  EXPECT_EQ(found->reply.in_parts, R"({"why": "a value", "codes": {}})");
  EXPECT_EQ(Ask("inspect", {{"key", "f"}})["in_parts"], "a value");
  // What is compiled for the key stands beside it.
  ASSERT_TRUE(connection_->Compile(MakeCompile("f", "graph f 4")));
  const auto both = connection_->Lookup(*key);
  EXPECT_EQ(both->reply.variants.size(), 1U);
  EXPECT_FALSE(both->reply.in_parts.empty());
  Ask("retry", {{"key", "f"}});
  EXPECT_EQ(connection_->Lookup(*key)->reply.in_parts, "");
  EXPECT_EQ(MissOf(*key), "");
  Ask("split", {{"components", Parts(*MakeKey("g"))}, {"note", "x"}});
  EXPECT_EQ(Ask("inspect", {{"key", "g"}})["in_parts"], "x");
  Ask("split", {{"components", Parts(*MakeKey("h"))}, {"note", R"({"why": "", "aside": [[5, 6, 7]]})"}});
  EXPECT_FALSE(Ask("inspect", {{"key", "h"}}).contains("in_parts"));
  // It has no graph that could have failed.
  EXPECT_TRUE(Refused("retry", {{"key", std::string(32, '0')}}).starts_with("not_found"));
  Ask("retry", {{"key", "g"}});
  EXPECT_EQ(MissOf(*MakeKey("g")), "never_stored");
}

TEST_F(ExplainTest, KeepsWhatIsKnownOfACallableApartFromItsEntries) {
  json components = Parts(*MakeKey("f"));
  components[0][0] = "learnt_of";
  EXPECT_EQ(Ask("noted", {{"components", components}})["note"], "");
  Ask("split", {{"components", components}, {"note", "x"}});
  EXPECT_EQ(Ask("noted", {{"components", components}})["note"], "x");
  // It is no entry of the function, and serves no call.
  EXPECT_TRUE(Ask("list", json::object())["entries"].empty());
  EXPECT_TRUE(Refused("inspect", {{"key", "f"}}).starts_with("not_found"));
  EXPECT_EQ(MissOf(*MakeKey("f")), "never_stored");
  Ask("retry", {{"key", "f"}});
  EXPECT_EQ(Ask("noted", {{"components", components}})["note"], "");
  EXPECT_TRUE(Refused("noted", {{"components", "f"}}).starts_with("invalid:"));
}

TEST_F(ExplainTest, RefusesToSplitWhatIsNoKey) {
  const json good = Parts(*MakeKey("f"));
  EXPECT_TRUE(Refused("split", {{"components", good}}).starts_with("invalid: a note of 0 bytes"));
  const std::string long_note((512 << 10) + 1, 'x');
  EXPECT_TRUE(Refused("split", {{"components", good}, {"note", long_note}}).starts_with("invalid: a note"));
  json digest = good, item = good;
  digest[0][1][0][1] = "12";
  item[0][1][0].push_back("more");
  const json short_one = json::array({json::array({"a"})});
  for (const json& bad : {json(), json("f"), json::array(), json::array({1}), short_one, item, digest}) {
    EXPECT_TRUE(Refused("split", {{"components", bad}, {"note", "x"}}).starts_with("invalid:")) << bad;
  }
  EXPECT_EQ(MissOf(*MakeKey("f")), "never_stored");
}

}  // namespace
}  // namespace ingot::daemon
