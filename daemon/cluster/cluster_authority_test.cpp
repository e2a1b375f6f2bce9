// SPDX-License-Identifier: Apache-2.0
// Who may answer whom, among machines of which not all trust each other: each test is the attack of one who has a key
// for something else, can write to the shared tier and has none, or has a user vouch for his file.
#include <fcntl.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/cluster_generated.h"
#include "tests/support/daemon/bundle_at.h"
#include "tests/support/daemon/test_machines.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;
using Json = nlohmann::json;

class AuthorityTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    scratch_ = std::make_unique<cache::SigningKey>(std::move(cache::SigningKey::Generate("scratch")).value());
    prod_ = std::make_unique<cache::SigningKey>(std::move(cache::SigningKey::Generate("prod")).value());
    WriteTrust(DomainsOf({scratch_.get(), prod_.get()}));
  }
  /// scratch.* and prod.*, each for the key of that name.
  static std::string DomainsOf(const std::vector<const cache::SigningKey*>& keys) {
    std::string text = "version = 1\n";
    for (const std::string name : {"scratch", "prod"}) {
      text += "\n[[domain]]\nname = \"" + name + "\"\nfunctions = [\"" + name + ".*\"]\n";
    }
    for (const cache::SigningKey* key : keys) {
      text += "\n[[key]]\npublic = \"" + key->public_key().ToLine() + "\"\ndomains = [\"" + key->public_key().name +
              "\"]\n";
    }
    return text;
  }
  /// Compiles, and waits until others know it. The artifact's digest.
  Digest Share(Machine& machine, const std::string& function, const std::string& graph) {
    const auto compiled = machine.client().Compile(MakeCompile(function, graph));
    EXPECT_TRUE(compiled) << compiled.error().ToText();
    EXPECT_TRUE(Eventually([&] { return machine.core().sharing.unsent() == 0; }));
    return compiled ? ArtifactOf(*compiled->reply.variant) : Digest();
  }
  EntryRef EntryOf(Machine& machine, const std::string& function) {
    return *RunTask(machine.core().entries.Get(ToKey(*MakeKey(function)).ToDigest(), Until::Done()));
  }
  Buffer Shared(Table table, const Digest& key) {
    const auto value = shared_.Get(table, key);
    return value ? value->bytes : Buffer();
  }
  /// The earliest build time that a shared record says.
  static int64_t BuiltOf(const Buffer& record) {
    int64_t built_s = std::numeric_limits<int64_t>::max();
    for (const proto::SignedVariant* one : *proto::ReadMessage<proto::ClusterEntry>(record)->variants()) {
      const auto envelope = cache::DecodeEnvelope({one->envelope()->data(), one->envelope()->size()});
      built_s = std::min(built_s, cache::DecodeProvenance(envelope->provenance)->built_s);
    }
    return built_s;
  }
  /// What `ingot export`, `ingot import` do.
  Result<Json> Bundle(Machine& machine, const std::string& verb, const Json& arguments) {
    const std::string path = dir_.path() + "/b.bundle";
    TRY_ASSIGN(const UniqueFd file, verb == "export" ? FreshFile(path) : OpenRegular(path));
    TRY_ASSIGN(const std::string text, machine.client().Query(verb, arguments.dump(), -1, {file.get()}));
    return Json::parse(text);
  }

  std::unique_ptr<cache::SigningKey> scratch_, prod_;
};

TEST_F(AuthorityTest, AKeyOfOneDomainSuppliesNoCodeOfAnother) {
  const auto a = StartWith("a", scratch_.get());
  a->compilers().AddToArtifacts(" of the attacker's");
  const Digest evil = Share(*a, "scratch.f", "graph g 4");
  EXPECT_TRUE(Eventually([&] { return !Shared(Table::kGraphs, GraphKeyOf("graph g 4")).empty(); }));
  // The graph of a production function is the same, and its key can be computed by whoever has the model.
  const auto b = StartWith("b", prod_.get());
  const Digest made = Share(*b, "prod.f", "graph g 4");
  EXPECT_NE(made, evil);
  EXPECT_EQ(Count(Counter::compiles), 2u);
  // A machine that trusts production alone is served what that made.
  WriteTrust(DomainsOf({prod_.get()}));
  const auto c = StartWith("c", nullptr);
  const auto found = c->client().Lookup(*MakeKey("prod.f"));
  ASSERT_TRUE(found && found->reply.found);
  EXPECT_EQ(ArtifactOf(*found->reply.variants[0]), made);
}

TEST_F(AuthorityTest, WhatIsHereForOneDomainAnswersNoneOfAnotherByItsGraph) {
  const auto a = StartWith("a", scratch_.get());
  a->compilers().AddToArtifacts(" of the attacker's");
  const Digest evil = Share(*a, "scratch.f", "graph g 4");
  const auto b = StartWith("b", prod_.get());
  // Let in for a function that the key may write: it is in this machine's store from here on.
  ASSERT_EQ(Share(*b, "scratch.other", "graph g 4"), evil);
  EXPECT_EQ(Count(Counter::compiles), 1u);
  EXPECT_NE(Share(*b, "prod.f", "graph g 4"), evil);
  EXPECT_EQ(Count(Counter::compiles), 2u);
}

TEST_F(AuthorityTest, AFailureOfOneDomainStopsNobodyInAnother) {
  const auto a = StartWith("a", scratch_.get());
  EXPECT_FALSE(a->client().Compile(MakeCompile("scratch.f", "graph bad 4")));
  EXPECT_TRUE(Eventually([&] { return !Shared(Table::kGraphs, GraphKeyOf("graph bad 4")).empty(); }));
  const auto b = StartWith("b", prod_.get());
  const uint64_t before = Count(Counter::compile_failures);
  EXPECT_FALSE(b->client().Compile(MakeCompile("prod.f", "graph bad 4")));
  EXPECT_EQ(Count(Counter::compile_failures), before + 1) << "it has tried by itself";
}

TEST_F(AuthorityTest, WhoPassesOnTheWordOfAnotherDomainIsNotBelieved) {
  // A careless machine lets scratch write everything, and signs with the key of production what came by that.
  WriteTrustOf({scratch_.get(), prod_.get()});
  const auto a = StartWith("a", scratch_.get());
  const Digest evil = Share(*a, "scratch.f", "graph g 4");
  const auto careless = StartWith("careless", prod_.get());
  ASSERT_EQ(Share(*careless, "prod.f", "graph g 4"), evil);
  const Digest entry = ToKey(*MakeKey("prod.f")).ToDigest();
  ASSERT_FALSE(Shared(Table::kEntries, entry).empty());
  WriteTrust(DomainsOf({scratch_.get(), prod_.get()}));
  const auto c = StartWith("c", nullptr);
  EXPECT_FALSE(c->client().Lookup(*MakeKey("prod.f"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), 0u);
}

TEST_F(AuthorityTest, WhatIsPutBackIsNotTaken) {
  WriteTrustOf({prod_.get()});
  const auto a = StartWith("a", prod_.get());
  Share(*a, "f", "graph f 4");
  const Digest entry = ToKey(*MakeKey("f")).ToDigest();
  const Buffer older = Shared(Table::kEntries, entry);
  ASSERT_FALSE(older.empty());
  // A later word of the same machine: builds are told apart by seconds.
  EXPECT_TRUE(Eventually([&] { return SystemClock().now_s() > BuiltOf(older); }));
  ASSERT_TRUE(shared_.Delete(Table::kEntries, entry, {}));
  a->core().sharing.Offer(entry);
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  const Buffer newer = Shared(Table::kEntries, entry);
  ASSERT_GT(BuiltOf(newer), BuiltOf(older));
  const auto b = StartWith("b", nullptr);
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  // The entry goes, as by eviction; who can write to the tier, and has no key, puts the older one back.
  ASSERT_TRUE(RunTask(b->core().entries.Delete(entry, Until::Done())));
  ASSERT_TRUE(shared_.Put(Table::kEntries, entry, older, {}));
  const uint64_t before = Count(Counter::cluster_distrusted);
  EXPECT_FALSE(b->client().Lookup(*MakeKey("f"))->reply.found);
  EXPECT_GT(Count(Counter::cluster_distrusted), before);
  ASSERT_TRUE(shared_.Put(Table::kEntries, entry, newer, {}));
  EXPECT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found) << "and the newer one is as good as it was";
}

TEST_F(AuthorityTest, WhatWasTakenUnsignedIsSignedByNobody) {
  WriteTrustOf({prod_.get()});
  const auto a = StartWith("a", nullptr);
  a->compilers().AddToArtifacts(" of the attacker's");
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(Bundle(*a, "export", {{"all", true}, {"unsigned", true}}));
  const auto b = StartWith("b", prod_.get());
  ASSERT_EQ((*Bundle(*b, "import", {{"allow_unsigned", true}}))["new"], 1);
  EXPECT_TRUE(IsUnsigned(*EntryOf(*b, "f")->record.variants[0]));
  // The same graph of another function: by nobody's word either, though this machine has the key of production.
  ASSERT_TRUE(b->client().Compile(MakeCompile("g", "graph f 4")));
  EXPECT_TRUE(IsUnsigned(*EntryOf(*b, "g")->record.variants[0]));
  // A recording of the daemon's own clients that equals it adds what it saw, and makes it no better.
  ASSERT_TRUE(b->client().Compile(MakeCompile("f", "graph f 4")));
  for (const std::string name : {"f", "g"}) b->core().sharing.Offer(ToKey(*MakeKey(name)).ToDigest());
  EXPECT_TRUE(Eventually([&] { return b->core().sharing.unsent() == 0; }));
  ASSERT_TRUE(b->client().Query("sync", R"({"push": true})"));
  EXPECT_TRUE(Eventually([&] { return b->core().sharing.unsent() == 0; }));
  EXPECT_EQ(RunTask(index_.List(Table::kEntries, std::nullopt, "", 100, Until::Done()))->rows.size(), 0u);
  EXPECT_EQ(RunTask(index_.List(Table::kGraphs, std::nullopt, "", 100, Until::Done()))->rows.size(), 0u);
}

TEST_F(AuthorityTest, WhatWasTakenUnsignedIsExportedAsThat) {
  WriteTrustOf({prod_.get()});
  const std::string key_file = dir_.path() + "/signing.key";
  ASSERT_TRUE(prod_->Save(key_file));
  adjust_ = [&](Config& config) {
    config.cluster_key = key_file;
    config.cluster_trust = trust_file();
  };
  const auto a = StartWith("a", nullptr);
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(Bundle(*a, "export", {{"all", true}, {"unsigned", true}}));
  const auto b = StartWith("b", prod_.get());
  ASSERT_TRUE(Bundle(*b, "import", {{"allow_unsigned", true}}));
  const auto alone = Bundle(*b, "export", {{"all", true}});
  EXPECT_EQ(alone.error().code(), Code::kNotFound) << "there is nothing that this key can vouch for";
  ASSERT_TRUE(b->client().Compile(MakeCompile("own", "graph own 4")));
  const auto beside = Bundle(*b, "export", {{"all", true}});
  ASSERT_TRUE(beside) << beside.error().ToText();
  EXPECT_EQ((*beside)["entries"], 1);
  EXPECT_THAT((*beside)["left_out"][0]["why"].get<std::string>(), testing::HasSubstr("imported unsigned"));
  const auto all = Bundle(*b, "export", {{"all", true}, {"unsigned", true}});
  EXPECT_EQ((*all)["entries"], 2);
}

TEST_F(AuthorityTest, WhatCameByThreeHandsFallsWithTheFirst) {
  const auto other = std::move(cache::SigningKey::Generate("other")).value();
  WriteTrustOf({scratch_.get(), prod_.get(), &other});
  const auto a = StartWith("a", scratch_.get());
  Share(*a, "f", "graph f 4");
  // Each proves a size more, and so says it anew.
  const auto b = StartWith("b", prod_.get());
  ASSERT_TRUE(b->client().Lookup(*MakeKey("f"))->reply.found);
  Share(*b, "f", "graph f 6");
  Share(*b, "f", "graph f 8");
  const auto c = StartWith("c", &other);
  ASSERT_TRUE(c->client().Lookup(*MakeKey("f"))->reply.found);
  Share(*c, "f", "graph f 10");
  const std::string first = scratch_->public_key().id().ToHex();
  size_t by_first = 0;
  proto::ClusterEntryT shared;
  proto::ReadMessage<proto::ClusterEntry>(Shared(Table::kEntries, ToKey(*MakeKey("f")).ToDigest()))->UnPackTo(&shared);
  for (const auto& one : shared.variants) {
    proto::StoredVariantT stored;
    proto::ReadMessage<proto::StoredVariant>(one->variant)->UnPackTo(&stored);
    const bool is_template = stored.variant->kind == proto::VariantKind::Template;
    // The template was made of what a recorded and b: whoever signs it names both.
    EXPECT_TRUE(!is_template || cache::VoucherKeysOf(one->envelope).contains(first));
    by_first += is_template;
  }
  EXPECT_GT(by_first, 0u);
}

TEST_F(AuthorityTest, AWordOfAnotherDomainSilencesNobody) {
  const auto a = StartWith("a", prod_.get());
  Share(*a, "prod.f", "graph g 4");
  const Digest entry = ToKey(*MakeKey("prod.f")).ToDigest();
  // Who has the key of scratch puts its word over the same variant into the place of the one of production.
  proto::ClusterEntryT shared;
  proto::ReadMessage<proto::ClusterEntry>(Shared(Table::kEntries, entry))->UnPackTo(&shared);
  const auto was = cache::DecodeEnvelope(shared.variants[0]->envelope);
  cache::Provenance said = *cache::DecodeProvenance(was->provenance);
  said.function = "scratch.x";
  const Buffer foreign = *cache::SignProvenance(*scratch_, said);
  shared.variants[0]->envelope.assign(foreign.begin(), foreign.end());
  ASSERT_TRUE(shared_.Put(Table::kEntries, entry, proto::PackMessage<proto::ClusterEntry>(shared), {}));
  a->core().sharing.Offer(entry);
  EXPECT_TRUE(Eventually([&] { return a->core().sharing.unsent() == 0; }));
  const auto b = StartWith("b", nullptr);
  EXPECT_TRUE(b->client().Lookup(*MakeKey("prod.f"))->reply.found) << "production has said it again";
}

TEST_F(AuthorityTest, ATextThatIsNotOfItsGraphIsCompiledByNobody) {
  const auto a = StartWith("a", nullptr);
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 4")));
  ASSERT_TRUE(a->client().Compile(MakeCompile("f", "graph f 6")));
  // Whoever brought a variant may have named its graph truly, and another text, which agrees at the size asked for.
  const auto lie = RunTask(a->core().artifacts.PutText("template f and something else", 1, Until::Done()));
  ASSERT_TRUE(lie);
  const auto ask = [&] {
    proto::CompileT request = MakeCompile("f", "graph f 4");
    request.gears = {8};
    return a->client().Compile(request);
  };
  Entries::Change change = [&](proto::EntryRecordT& record) {
    for (const auto& stored : record.variants) {
      stored->text_low = lie->low;
      stored->text_high = lie->high;
    }
  };
  ASSERT_TRUE(RunTask(a->core().entries.ChangeStored(ToKey(*MakeKey("f")).ToDigest(), change, Until::Done())));
  const uint64_t before = Count(Counter::compiles);
  EXPECT_EQ(ask().error().code(), Code::kNotFound);
  EXPECT_EQ(Count(Counter::compiles), before);
}

}  // namespace
}  // namespace ingot::daemon
