// SPDX-License-Identifier: Apache-2.0
// Bundles from one daemon to another, inside one process.
#include "daemon/admin/bundle.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "daemon/admin/manifest.h"
#include "daemon/state/convert.h"
#include "proto/cluster_generated.h"
#include "tests/support/daemon/bundle_at.h"
#include "tests/support/daemon/test_server.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// What machines share.
struct Tier {
  cache::MemoryStore store;
  cache::LocalIndex index{store};
  cache::LocalBlobs blobs{store};
};

/// One machine: a daemon with a store, a key and a trust file of its own.
class Box {
 public:
  /// `tier` nullptr: no cluster.
  Box(const std::string& dir, const std::string& name, const std::string& key, const std::string& trust,
      Tier* tier = nullptr)
      : dir_(dir + "/" + name) {
    std::filesystem::create_directories(dir_);
    std::filesystem::permissions(dir_, std::filesystem::perms::owner_all);
    config_.idle_exit_s = 0;
    config_.cluster_key = key;
    config_.cluster_trust = trust;
    config_.cluster_lookup_ms_max = 10'000;
    config_.cluster_miss_ms = 0;
    ClusterParts parts;
    if (tier != nullptr) {
      auto files = OpenTrustFiles(config_);
      EXPECT_TRUE(files) << files.error().ToText();
      EXPECT_TRUE(files->trust->Refresh());
      parts.index = std::shared_ptr<cache::Index>(&tier->index, [](cache::Index*) {});
      parts.blobs = std::shared_ptr<cache::BlobStore>(&tier->blobs, [](cache::BlobStore*) {});
      parts.trust = files->trust;
      parts.key = files->key;
      parts.host = name;
    }
    core_ = std::make_unique<Core>(config_, store_, graphs_, compilers_, SystemClock(), std::move(parts));
    server_ = std::make_unique<RunningServer>(*core_, proto::Endpoint{dir_, dir_ + "/s"});
    client_ = server_->Connect();
  }

  Result<json> Ask(const std::string& verb, const json& arguments, const std::vector<int>& files = {}) {
    TRY_ASSIGN(const std::string text, client_->Query(verb, arguments.dump(), -1, files));
    return json::parse(text);
  }
  Result<json> ExportTo(const std::string& path, const json& arguments) {
    TRY_ASSIGN(const UniqueFd file, FreshFile(path));
    return Ask("export", arguments, {file.get()});
  }
  Result<json> ImportFrom(const std::string& path, const json& arguments) {
    TRY_ASSIGN(const UniqueFd file, OpenRegular(path));
    return Ask("import", arguments, {file.get()});
  }
  /// The artifact that a lookup gives; empty: a miss.
  std::string Serves(const std::string& function) {
    auto found = client_->Lookup(*MakeKey(function));
    EXPECT_TRUE(found) << found.error().ToText();
    if (!found || !found->reply.found) return "";
    char text[64] = {};
    EXPECT_GT(pread(found->files.at(0).get(), text, sizeof text - 1, 0), 0);
    return text;
  }
  bool Compile(const std::string& function, const std::string& recording) {
    return client_->Compile(MakeCompile(function, recording)).has_value();
  }
  Core& core() { return *core_; }
  Config& config() { return config_; }
  cache::MemoryStore& store() { return store_; }

 private:
  const std::string dir_;
  Config config_;
  cache::MemoryStore store_;
  FakeGraphs graphs_;
  FakeCompilers compilers_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<client::Connection> client_;
};

class BundleTest : public testing::Test {
 protected:
  void SetUp() override {
    GlobalMetrics().Reset();
    std::filesystem::permissions(dir_.path(), std::filesystem::perms::owner_all);
    auto key = cache::SigningKey::Generate("ci");
    ASSERT_TRUE(key);
    ASSERT_TRUE(key->Save(key_file()));
    WriteTrust("version = 1\n\n[[key]]\npublic = \"" + key->public_key().ToLine() +
               "\"\ndomains = [\"all\"]\n\n[[domain]]\nname = \"all\"\n");
    a_ = std::make_unique<Box>(dir_.path(), "a", key_file(), trust_file());
    b_ = std::make_unique<Box>(dir_.path(), "b", "", trust_file());
    for (const std::string name : {"f", "g", "h"}) ASSERT_TRUE(a_->Compile(name, "graph " + name + " 4"));
  }
  void WriteTrust(const std::string& text) {
    std::filesystem::remove(trust_file());
    std::ofstream(trust_file()) << text;
    using std::filesystem::perms;
    std::filesystem::permissions(trust_file(), perms::owner_read | perms::owner_write);
  }
  std::string key_file() const { return dir_.path() + "/signing.key"; }
  std::string trust_file() const { return dir_.path() + "/trust.toml"; }
  std::string file() const { return dir_.path() + "/b.bundle"; }
  json Export(json arguments) {
    const auto answer = a_->ExportTo(file(), arguments);
    EXPECT_TRUE(answer) << answer.error().ToText();
    return answer ? *answer : json();
  }
  Result<json> Import(json arguments = json::object()) { return b_->ImportFrom(file(), arguments); }
  uint64_t Entries(Box& box) const { return box.store().TotalsOf()[0].count; }
  std::string Whole() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Put(const std::string& bytes) const { std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes; }
  /// Writes the bundle of what `change` makes of the records of another one, and the blobs of that.
  void Repack(const std::function<void(proto::ClusterEntryT&)>& change) {
    auto reader = ReaderAt(file());
    ASSERT_TRUE(reader) << reader.error().ToText();
    auto writer = WriterAt(file());
    ASSERT_TRUE(writer);
    for (const BundleMember& member : reader->entries()) {
      Buffer bytes(member.bytes);
      ASSERT_TRUE(reader->Read(member, bytes.data()));
      proto::ClusterEntryT record;
      proto::ReadMessage<proto::ClusterEntry>(bytes)->UnPackTo(&record);
      for (const auto& one : record.variants) {
        proto::StoredVariantT stored;
        proto::ReadMessage<proto::StoredVariant>(one->variant)->UnPackTo(&stored);
        for (const Digest& digest : {ArtifactOf(*stored.variant), Digest{stored.text_low, stored.text_high}}) {
          const BundleMember* const blob = reader->FindBlob(digest);
          if (blob == nullptr || writer->Has(BundleKind::kBlob, digest)) continue;
          Buffer content(blob->bytes);
          ASSERT_TRUE(reader->Read(*blob, content.data()));
          ASSERT_TRUE(writer->Add(BundleKind::kBlob, digest, content));
        }
      }
      change(record);
      ASSERT_TRUE(writer->Add(BundleKind::kEntry, member.name, proto::PackMessage<proto::ClusterEntry>(record)));
    }
    ASSERT_TRUE(writer->Finish());
  }

  /// Writes the same bundle with what `change` makes of its records of graphs.
  void RepackGraphs(const std::function<void(proto::ClusterGraphT&)>& change) {
    auto reader = ReaderAt(file());
    ASSERT_TRUE(reader) << reader.error().ToText();
    auto writer = WriterAt(file());
    ASSERT_TRUE(writer);
    const auto read = [&](const BundleMember& member) {
      Buffer bytes(member.bytes);
      EXPECT_TRUE(reader->Read(member, bytes.data()));
      return bytes;
    };
    for (const BundleMember& member : reader->entries()) {
      const Buffer bytes = read(member);
      proto::ClusterEntryT record;
      proto::ReadMessage<proto::ClusterEntry>(bytes)->UnPackTo(&record);
      for (const auto& one : record.variants) {
        proto::StoredVariantT stored;
        proto::ReadMessage<proto::StoredVariant>(one->variant)->UnPackTo(&stored);
        for (const Digest& digest : {ArtifactOf(*stored.variant), Digest{stored.text_low, stored.text_high}}) {
          const BundleMember* const blob = reader->FindBlob(digest);
          ASSERT_NE(blob, nullptr);
          if (!writer->Has(BundleKind::kBlob, digest)) {
            ASSERT_TRUE(writer->Add(BundleKind::kBlob, digest, read(*blob)));
          }
        }
      }
    }
    for (const BundleMember& member : reader->graphs()) {
      const Buffer bytes = read(member);
      proto::ClusterGraphT graph;
      proto::ReadMessage<proto::ClusterGraph>(bytes)->UnPackTo(&graph);
      change(graph);
      ASSERT_TRUE(writer->Add(BundleKind::kGraph, member.name, proto::PackMessage<proto::ClusterGraph>(graph)));
    }
    for (const BundleMember& member : reader->entries()) {
      ASSERT_TRUE(writer->Add(BundleKind::kEntry, member.name, read(member)));
    }
    ASSERT_TRUE(writer->Finish());
  }

  TestDir dir_;
  std::unique_ptr<Box> a_, b_;
};

TEST_F(BundleTest, WhatOneMachineExportedServesAnother) {
  const json out = Export({{"function", "f"}});
  EXPECT_EQ(out["entries"], 1);
  EXPECT_EQ(out["blobs"], 2) << "the artifact, and its graph's text";
  EXPECT_EQ(out["signer_name"], "ci");
  EXPECT_EQ(b_->Serves("f"), "");
  const auto in = Import();
  ASSERT_TRUE(in) << in.error().ToText();
  EXPECT_EQ((*in)["new"], 1);
  EXPECT_EQ(b_->Serves("f"), "artifact of graph f 4");
  EXPECT_EQ(GlobalMetrics().Get(Counter::compiles), 3u) << "nothing was compiled for it";
}

// Other entries, of other ranks or models, may come to the same graph.
TEST_F(BundleTest, EqualGraphsMeetWhereABundleWasImported) {
  EXPECT_EQ(Export({{"keys", {"f", "g"}}})["graphs"], 2);
  const auto in = Import();
  ASSERT_TRUE(in) << in.error().ToText();
  EXPECT_EQ((*in)["graphs"], 2);
  EXPECT_EQ((*in)["graphs_new"], 2);
  ASSERT_TRUE(b_->Compile("another", "graph f 4"));
  EXPECT_EQ(GlobalMetrics().Get(Counter::compiles), 3u) << "f, g and h, by the one who exported them";
  EXPECT_EQ(GlobalMetrics().Get(Counter::graph_hits), 1u);
  EXPECT_EQ(b_->Serves("another"), "artifact of graph f 4");
  const auto again = Import();
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)["graphs_new"], 0);
}

TEST_F(BundleTest, NoGraphIsTakenThatWasNotSignedSo) {
  Export({{"keys", {"f", "g"}}});
  const auto artifact_of = [](const proto::ClusterGraphT& graph) {
    proto::GraphRecordT record;
    proto::ReadMessage<proto::GraphRecord>(graph.record)->UnPackTo(&record);
    return Digest{record.artifact_low, record.artifact_high};
  };
  std::vector<Digest> artifacts;
  RepackGraphs([&](proto::ClusterGraphT& graph) { artifacts.push_back(artifact_of(graph)); });
  ASSERT_EQ(artifacts.size(), 2u);
  // Each says that it came to the other's artifact.
  RepackGraphs([&](proto::ClusterGraphT& graph) {
    proto::GraphRecordT record;
    proto::ReadMessage<proto::GraphRecord>(graph.record)->UnPackTo(&record);
    const Digest other = artifact_of(graph) == artifacts[0] ? artifacts[1] : artifacts[0];
    record.artifact_low = other.low;
    record.artifact_high = other.high;
    const Buffer bytes = proto::PackMessage<proto::GraphRecord>(record);
    graph.record.assign(bytes.begin(), bytes.end());
  });
  for (const bool allow_unsigned : {false, true}) {
    const auto answer = Import({{"allow_unsigned", allow_unsigned}});
    ASSERT_TRUE(answer) << answer.error().ToText();
    EXPECT_EQ((*answer)["graphs_refused"], 2);
    EXPECT_EQ((*answer)["graphs_new"], 0);
  }
  ASSERT_TRUE(b_->Compile("another", "graph f 4"));
  EXPECT_EQ(b_->Serves("another"), "artifact of graph f 4");
  EXPECT_EQ(GlobalMetrics().Get(Counter::graph_hits), 0u);
}

// Whatever a bit of the record is, the import says that it is damaged or refuses it, and nothing is served by it.
TEST_F(BundleTest, SurvivesEveryDamageOfAGraphRecord) {
  Export({{"keys", {"f"}}});
  const std::string whole = Whole();
  Buffer good;
  RepackGraphs([&](proto::ClusterGraphT& graph) { good = graph.record; });
  for (size_t i = 0; i <= good.size(); ++i) {
    Put(whole);
    RepackGraphs([&](proto::ClusterGraphT& graph) {
      graph.record = good;
      if (i == good.size()) graph.record.resize(good.size() / 2);
      if (i < good.size()) graph.record[i] ^= 1;
    });
    const auto answer = Import();
    if (answer) {
      EXPECT_EQ((*answer)["graphs_refused"], 1) << i;
      EXPECT_EQ((*answer)["graphs_new"], 0) << i;
    } else {
      EXPECT_EQ(answer.error().code(), Code::kCorrupt) << answer.error().ToText();
    }
  }
  EXPECT_EQ(b_->store().TotalsOf()[1].count, 0u);
}

TEST_F(BundleTest, TakesKeysFunctionsOrAll) {
  EXPECT_EQ(Export({{"all", true}})["entries"], 3);
  EXPECT_EQ(Export({{"keys", {"f", "g", "f"}}})["entries"], 2);
  const std::string key = ToKey(*MakeKey("h")).ToDigest().ToHex();
  EXPECT_EQ(Export({{"keys", {key.substr(0, 9)}}})["entries"], 1);
  const auto none = a_->ExportTo(file(), {{"function", "zzz"}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("no function 'zzz'"));
  EXPECT_EQ(a_->ExportTo(file(), json::object()).error().code(), Code::kInvalid);
  // No path goes to the daemon: without a descriptor there is no file.
  const auto path = a_->Ask("export", {{"file", file()}, {"all", true}});
  EXPECT_EQ(path.error().code(), Code::kInvalid);
  EXPECT_THAT(path.error().message(), HasSubstr("no file came with the request"));
}

TEST_F(BundleTest, ImportingTwiceChangesNothing) {
  Export({{"all", true}});
  ASSERT_TRUE(Import());
  const auto version = b_->store().StatOf(cache::Table::kEntries, ToKey(*MakeKey("f")).ToDigest())->version;
  const auto again = Import();
  ASSERT_TRUE(again) << again.error().ToText();
  EXPECT_EQ((*again)["new"], 0);
  EXPECT_EQ((*again)["known"], 3);
  EXPECT_EQ(b_->store().StatOf(cache::Table::kEntries, ToKey(*MakeKey("f")).ToDigest())->version, version);
}

TEST_F(BundleTest, DryRunListsAndChangesNothing) {
  Export({{"all", true}});
  const auto answer = Import({{"dry_run", true}});
  ASSERT_TRUE(answer) << answer.error().ToText();
  ASSERT_EQ((*answer)["rows"].size(), 3u);
  for (const json& row : (*answer)["rows"]) {
    EXPECT_EQ(row["outcome"], "new");
    EXPECT_EQ(row["signer"].get<std::string>().size(), 32u);
    EXPECT_GT(row["bytes"], 0);
  }
  EXPECT_EQ(Entries(*b_), 0u);
  EXPECT_EQ(b_->store().TotalsOf()[2].count, 0u);
}

TEST_F(BundleTest, NothingIsImportedOfADamagedFile) {
  Export({{"all", true}});
  const std::string whole = Whole();
  // In the last member that has content: all before it is good.
  for (const size_t at : {whole.size() - 1, whole.rfind("end "), whole.rfind("artifact of graph"), size_t{20}}) {
    ASSERT_LT(at, whole.size());
    std::string damaged = whole;
    damaged[at] ^= 1;
    Put(damaged);
    const auto answer = Import();
    ASSERT_FALSE(answer) << at;
    EXPECT_EQ(answer.error().code(), Code::kCorrupt) << answer.error().ToText();
  }
  Put(whole.substr(0, whole.size() / 2));
  EXPECT_EQ(Import().error().code(), Code::kCorrupt);
  EXPECT_EQ(Entries(*b_), 0u);
  EXPECT_EQ(b_->store().TotalsOf()[2].count, 0u);
}

// The container is whole and what it holds is not what anybody signed.
TEST_F(BundleTest, NothingIsTakenThatWasNotSigned) {
  Export({{"keys", {"f"}}});
  Repack([](proto::ClusterEntryT& record) {
    proto::StoredVariantT stored;
    proto::ReadMessage<proto::StoredVariant>(record.variants[0]->variant)->UnPackTo(&stored);
    stored.variant->proven = {1, 2, 3};
    const Buffer bytes = proto::PackMessage<proto::StoredVariant>(stored);
    record.variants[0]->variant.assign(bytes.begin(), bytes.end());
  });
  const auto answer = Import();
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_EQ((*answer)["refused"], 1);
  EXPECT_THAT((*answer)["rows"][0]["why"].get<std::string>(), HasSubstr("other_variant"));
  EXPECT_EQ(b_->Serves("f"), "");
  // Nor where unsigned things are taken: it is signed, and wrongly.
  const auto allowed = Import({{"allow_unsigned", true}});
  ASSERT_TRUE(allowed);
  EXPECT_EQ((*allowed)["refused"], 1);
  EXPECT_EQ(b_->Serves("f"), "");
}

TEST_F(BundleTest, ARecordUnderAnotherKeyIsDamage) {
  Export({{"keys", {"f"}}});
  Repack([](proto::ClusterEntryT& record) { record.key = MakeKey("g"); });
  const auto answer = Import();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kCorrupt);
  EXPECT_THAT(answer.error().message(), HasSubstr("is the record of another key"));
  EXPECT_EQ(Entries(*b_), 0u);
}

TEST_F(BundleTest, ABundleWithoutAnArtifactThatItNamesIsDamage) {
  Export({{"keys", {"f"}}});
  auto reader = ReaderAt(file());
  ASSERT_TRUE(reader);
  Buffer record(reader->entries()[0].bytes);
  ASSERT_TRUE(reader->Read(reader->entries()[0], record.data()));
  auto writer = WriterAt(file());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->Add(BundleKind::kEntry, reader->entries()[0].name, record));
  ASSERT_TRUE(writer->Finish());
  const auto answer = Import();
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message(), HasSubstr("which is not in the bundle"));
}

TEST_F(BundleTest, NothingComesFromAKeyThatIsNotTrusted) {
  Export({{"all", true}});
  WriteTrust("version = 1\n\n[[domain]]\nname = \"all\"\n");
  auto answer = Import();
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_EQ((*answer)["refused"], 3);
  EXPECT_THAT((*answer)["rows"][0]["why"].get<std::string>(), HasSubstr("unknown_key"));
  EXPECT_EQ(Entries(*b_), 0u);
  std::filesystem::remove(trust_file());
  answer = Import();
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_THAT((*answer)["rows"][0]["why"].get<std::string>(), HasSubstr("no_trust_file"));
}

TEST_F(BundleTest, WhatADomainDoesNotAllowIsRefusedAndTheRestComes) {
  Export({{"all", true}});
  const auto key = cache::SigningKey::Load(key_file());
  WriteTrust("version = 1\n\n[[key]]\npublic = \"" + key->public_key().ToLine() +
             "\"\ndomains = [\"some\"]\n\n[[domain]]\nname = \"some\"\nfunctions = [\"f\", \"g\"]\n\n[[domain]]\n"
             "name = \"all\"\n");
  const auto answer = Import();
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_EQ((*answer)["new"], 2);
  EXPECT_EQ((*answer)["refused"], 1);
  EXPECT_EQ(b_->Serves("g"), "artifact of graph g 4");
  EXPECT_EQ(b_->Serves("h"), "");
}

TEST_F(BundleTest, UnsignedIsMadeAndTakenOnlyWhereThatIsSaid) {
  ASSERT_TRUE(b_->Compile("k", "graph k 4"));
  const json from_b = {{"all", true}};
  // No key: the default one is nowhere, since the home directory of the test has none.
  setenv("XDG_CONFIG_HOME", dir_.path().c_str(), 1);
  std::filesystem::create_directories(dir_.path() + "/ingot");
  const auto refused = b_->ExportTo(file(), from_b);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("--unsigned"));
  EXPECT_EQ(std::filesystem::file_size(file()), 0u);
  json allowed = from_b;
  allowed["unsigned"] = true;
  ASSERT_TRUE(b_->ExportTo(file(), allowed));
  const auto no = a_->ImportFrom(file(), json::object());
  ASSERT_TRUE(no) << no.error().ToText();
  EXPECT_EQ((*no)["refused"], 1);
  EXPECT_THAT((*no)["rows"][0]["why"].get<std::string>(), HasSubstr("unsigned"));
  EXPECT_EQ(a_->Serves("k"), "");
  const auto yes = a_->ImportFrom(file(), {{"allow_unsigned", true}});
  ASSERT_TRUE(yes) << yes.error().ToText();
  EXPECT_EQ((*yes)["new"], 1);
  EXPECT_EQ(a_->Serves("k"), "artifact of graph k 4");
  unsetenv("XDG_CONFIG_HOME");
}

TEST_F(BundleTest, LeavesOutWhatHasNoArtifact) {
  EXPECT_FALSE(a_->Compile("bad", "graph bad 4"));
  const json out = Export({{"all", true}});
  EXPECT_EQ(out["entries"], 3);
  ASSERT_EQ(out["left_out"].size(), 1u);
  EXPECT_EQ(out["left_out"][0]["function"], "bad");
  EXPECT_EQ(out["left_out"][0]["why"], "its compile failed");
  std::filesystem::remove(file());
  const auto none = a_->ExportTo(file(), {{"keys", {"bad"}}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNotFound);
}

TEST_F(BundleTest, GoesIntoOneEntryWithWhatIsThere) {
  Export({{"keys", {"f"}}});
  ASSERT_TRUE(b_->Compile("f", "graph f 6"));
  ASSERT_TRUE(Import());
  const auto entry = RunTask(b_->core().entries.Get(ToKey(*MakeKey("f")).ToDigest(), Until::Done()));
  ASSERT_TRUE(entry);
  EXPECT_EQ((*entry)->record.variants.size(), 2u);
}

TEST_F(BundleTest, AManifestNamesWhatWasUsed) {
  ASSERT_EQ(a_->Serves("g"), "artifact of graph g 4");
  const auto all = a_->Ask("manifest", {{"all", true}});
  ASSERT_TRUE(all) << all.error().ToText();
  EXPECT_EQ((*all)["entries"].size(), 3u);
  EXPECT_EQ((*all)["next"], nullptr);
  const auto one = a_->Ask("manifest", {{"function", "g"}});
  ASSERT_EQ((*one)["entries"].size(), 1u);
  const json& entry = (*one)["entries"][0];
  EXPECT_EQ(entry["key"], ToKey(*MakeKey("g")).ToDigest().ToHex());
  EXPECT_EQ(entry["function"], "g");
  ASSERT_EQ(entry["variants"].size(), 1u);
  EXPECT_EQ(entry["variants"][0]["artifact"], DigestOf("artifact of graph g 4").ToHex());
  const auto later = a_->Ask("manifest", {{"all", true}, {"since", 4'000'000'000u}});
  EXPECT_EQ(later.error().code(), Code::kNotFound);
}

TEST_F(BundleTest, PrefetchOpensWhatIsHereAndSaysWhatIsNot) {
  auto manifest = a_->Ask("manifest", {{"function", "g"}});
  ASSERT_TRUE(manifest);
  json entries = (*manifest)["entries"];
  entries.push_back({{"key", Digest{1, 2}.ToHex()}, {"function", "gone"}});
  a_->core().artifacts.Forget(DigestOf("artifact of graph g 4"));
  const auto answer = a_->Ask("prefetch", {{"entries", entries}});
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_EQ((*answer)["entries"][0]["outcome"], "there");
  EXPECT_EQ((*answer)["entries"][0]["artifacts"], 1);
  EXPECT_NE(a_->core().artifacts.Peek(DigestOf("artifact of graph g 4")), nullptr);
  EXPECT_EQ((*answer)["entries"][1]["outcome"], "not found");
  EXPECT_THAT((*answer)["entries"][1]["why"].get<std::string>(), HasSubstr("no cluster is configured"));
  EXPECT_EQ(a_->Ask("prefetch", {{"entries", {{{"key", "xyz"}}}}}).error().code(), Code::kInvalid);
  EXPECT_EQ(a_->Ask("prefetch", {{"entries", 7}}).error().code(), Code::kInvalid);
}

class SyncTest : public BundleTest {
 protected:
  void SetUp() override {
    BundleTest::SetUp();
    setenv("XDG_CONFIG_HOME", dir_.path().c_str(), 1);
    c_ = std::make_unique<Box>(dir_.path(), "c", key_file(), trust_file(), &tier_);
    d_ = std::make_unique<Box>(dir_.path(), "d", "", trust_file(), &tier_);
    for (const std::string name : {"f", "g"}) ASSERT_TRUE(c_->Compile(name, "graph " + name + " 4"));
    WaitUntilSent();
  }
  void TearDown() override { unsetenv("XDG_CONFIG_HOME"); }
  void WaitUntilSent() {
    EXPECT_TRUE(support::Eventually([&] { return Waiting() == 0; }));
  }
  int Waiting() {
    const auto answer = c_->Ask("outbox", json::object());
    EXPECT_TRUE(answer) << answer.error().ToText();
    return answer ? (*answer)["waiting"].get<int>() : -1;
  }
  uint64_t Shared() { return tier_.store.TotalsOf()[0].count; }

  Tier tier_;
  std::unique_ptr<Box> c_, d_;
};

TEST_F(SyncTest, PrefetchBringsWhatAManifestNames) {
  const auto manifest = c_->Ask("manifest", {{"all", true}});
  ASSERT_TRUE(manifest);
  for (const char* outcome : {"came", "there"}) {
    const auto answer = d_->Ask("prefetch", {{"entries", (*manifest)["entries"]}});
    ASSERT_TRUE(answer) << answer.error().ToText();
    ASSERT_EQ((*answer)["entries"].size(), 2u);
    for (const json& row : (*answer)["entries"]) {
      EXPECT_EQ(row["outcome"], outcome);
      EXPECT_EQ(row["artifacts"], 1);
    }
  }
  EXPECT_NE(d_->core().artifacts.Peek(DigestOf("artifact of graph g 4")), nullptr);
  EXPECT_EQ(d_->Serves("f"), "artifact of graph f 4");
}

TEST_F(SyncTest, PullBringsWhatOthersHaveAndPushGivesWhatIsHere) {
  const auto pulled = d_->Ask("sync", {{"function", "g"}});
  ASSERT_TRUE(pulled) << pulled.error().ToText();
  ASSERT_EQ((*pulled)["entries"].size(), 1u);
  EXPECT_EQ((*pulled)["entries"][0]["outcome"], "came");
  EXPECT_EQ((*pulled)["next"], nullptr);
  const auto all = d_->Ask("sync", json::object());
  ASSERT_TRUE(all) << all.error().ToText();
  EXPECT_EQ((*all)["entries"].size(), 2u);
  EXPECT_EQ(Entries(*d_), 2u);
  // Somebody emptied the tier.
  for (const char* name : {"f", "g"}) {
    ASSERT_TRUE(tier_.store.Delete(cache::Table::kEntries, ToKey(*MakeKey(name)).ToDigest(), {}));
  }
  ASSERT_EQ(Shared(), 0u);
  const auto pushed = c_->Ask("sync", {{"push", true}});
  ASSERT_TRUE(pushed) << pushed.error().ToText();
  EXPECT_EQ((*pushed)["offered"], 2);
  WaitUntilSent();
  EXPECT_EQ(Shared(), 2u);
  const auto unable = d_->Ask("sync", {{"push", true}});
  ASSERT_FALSE(unable);
  EXPECT_THAT(unable.error().message(), HasSubstr("without a private key"));
}

TEST_F(SyncTest, PullTakesNothingThatIsNotTrusted) {
  WriteTrust("version = 1\n\n[[domain]]\nname = \"all\"\n");
  ASSERT_TRUE(d_->Ask("doctor", json::object())) << "reads the trust file again";
  const auto pulled = d_->Ask("sync", json::object());
  ASSERT_TRUE(pulled) << pulled.error().ToText();
  for (const json& row : (*pulled)["entries"]) {
    EXPECT_EQ(row["outcome"], "not found");
    EXPECT_THAT(row["why"].get<std::string>(), HasSubstr("not from a key that is trusted"));
  }
  EXPECT_EQ(Entries(*d_), 0u);
}

TEST(ManifestEntry, ComesBackAsItWas) {
  ManifestEntry entry{.key = {1, 2}, .function = "f", .variants = {{{3, 4}, {5, 6}, 700}}};
  const auto read = ManifestEntryOf(ToJson(entry));
  ASSERT_TRUE(read);
  EXPECT_EQ(ToJson(*read), ToJson(entry));
}

TEST(ManifestEntry, RefusesWhatIsNoEntry) {
  for (const char* text : {"[]", "7", "{}", R"({"key": 7})", R"({"key": "12"})",
                           R"({"key": "00000000000000000000000000000001", "variants": {}})",
                           R"({"key": "00000000000000000000000000000001", "variants": [7]})",
                           R"({"key": "00000000000000000000000000000001", "variants": [{"graph_key": "x"}]})"}) {
    const auto read = ManifestEntryOf(nlohmann::ordered_json::parse(text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Code::kInvalid);
  }
}

TEST(ProgressTest, SaysHowFarWorkIsWhileItLasts) {
  EXPECT_FALSE(Progress::Of("p"));
  {
    const Progress progress("p");
    progress.Say("writes", 3, 7);
    ASSERT_TRUE(Progress::Of("p"));
    EXPECT_EQ(Progress::Of("p")->done, 3u);
  }
  EXPECT_FALSE(Progress::Of("p"));
}

}  // namespace
}  // namespace ingot::daemon
