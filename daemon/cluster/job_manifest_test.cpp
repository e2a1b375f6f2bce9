// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/job_manifest.h"

#include <gtest/gtest.h>

#include "cache/index/local_index.h"
#include "cache/store/memory_store.h"
#include "proto/message.h"
#include "tests/support/run_task.h"

namespace ingot::daemon {
namespace {

constexpr int64_t kNow = 1'700'000'000, kDay = 86'400;

proto::JobEntry Used(uint64_t key, int64_t when = kNow) { return {key, key, 10, when}; }
proto::JobManifestT Manifest(std::vector<proto::JobEntry> entries) {
  proto::JobManifestT out;
  out.function = "f";
  out.entries = std::move(entries);
  return out;
}
std::vector<uint64_t> KeysOf(const proto::JobManifestT& manifest) {
  std::vector<uint64_t> keys;
  for (const proto::JobEntry& entry : manifest.entries) keys.push_back(entry.low());
  return keys;
}
using Keys = std::vector<uint64_t>;

cache::Key KeyWith(const std::string& function, const std::string& code, const std::string& model,
                   const std::string& rank) {
  const auto item = [](const std::string& name, const std::string& text) {
    return cache::Item{name, DigestOf(text), text};
  };
  return {{{"function", {item("name", function), item("code", code)}},
           {"module_state", {item("model.act_fn", model)}},
           {"inputs", {item("x", code)}},
           {"ranks", {item("global_rank", rank)}}}};
}

TEST(JobNameTest, IsTheFunctionItsModelAndItsRanks) {
  const Digest name = JobNameOf(KeyWith("f", "1", "SiLU", "0"));
  EXPECT_EQ(JobNameOf(KeyWith("f", "2", "SiLU", "0")), name) << "other code finds the rest of what it used";
  EXPECT_NE(JobNameOf(KeyWith("g", "1", "SiLU", "0")), name);
  EXPECT_NE(JobNameOf(KeyWith("f", "1", "GELU", "0")), name);
  EXPECT_NE(JobNameOf(KeyWith("f", "1", "SiLU", "1")), name);
}

TEST(MergeJobTest, UnitesInTheOrderOfUse) {
  proto::JobManifestT known = Manifest({Used(1), Used(2)});
  EXPECT_TRUE(MergeJob(known, Manifest({Used(3), Used(2)}), 10, kNow));
  EXPECT_EQ(KeysOf(known), (Keys{1, 2, 3}));
  EXPECT_FALSE(MergeJob(known, Manifest({Used(1), Used(3, kNow + 60)}), 10, kNow + 60)) << "nothing worth a write";
  EXPECT_TRUE(MergeJob(known, Manifest({Used(1, kNow + 2 * kDay)}), 10, kNow + 2 * kDay)) << "it is used still";
}

TEST(MergeJobTest, ForgetsWhatIsNotUsedAnyMore) {
  proto::JobManifestT known = Manifest({Used(1, kNow - 8 * kDay), Used(2, kNow - kDay)});
  EXPECT_TRUE(MergeJob(known, Manifest({Used(3)}), 10, kNow));
  EXPECT_EQ(KeysOf(known), (Keys{2, 3}));
}

TEST(MergeJobTest, HasALimit) {
  proto::JobManifestT known = Manifest({Used(1, kNow - 3), Used(2, kNow - 2), Used(3, kNow - 3)});
  EXPECT_TRUE(MergeJob(known, Manifest({Used(4), Used(5)}), 3, kNow));
  EXPECT_EQ(KeysOf(known), (Keys{2, 4, 5}));
  EXPECT_TRUE(MergeJob(known, Manifest({Used(6), Used(7), Used(8), Used(9)}), 3, kNow));
  EXPECT_EQ(known.entries.size(), 3u);
}

TEST(JobManifestTest, IsReadAsItWasWrittenAndDamageIsNothing) {
  cache::MemoryStore store;
  cache::LocalIndex index(store);
  const Digest name{3, 4};
  EXPECT_TRUE(RunTask(ReadJobManifest(index, name, Until::Done()))->entries.empty());
  EXPECT_TRUE(*RunTask(PutJobManifest(index, name, Manifest({Used(1), Used(2)}), 10, kNow, Until::Done())));
  EXPECT_FALSE(*RunTask(PutJobManifest(index, name, Manifest({Used(2)}), 10, kNow, Until::Done())));
  EXPECT_EQ(KeysOf(*RunTask(ReadJobManifest(index, name, Until::Done()))), (Keys{1, 2}));
  const Buffer good = store.Get(cache::Table::kStats, name)->bytes;
  for (size_t i = 0; i <= good.size(); ++i) {
    Buffer bad = good;
    if (i == good.size()) bad.resize(i / 2);
    if (i < good.size()) bad[i] ^= 1;
    ASSERT_TRUE(store.Put(cache::Table::kStats, name, bad, {}));
    const auto read = RunTask(ReadJobManifest(index, name, Until::Done()));
    ASSERT_TRUE(read) << read.error().ToText();
    EXPECT_LE(read->entries.size(), good.size() / sizeof(proto::JobEntry));
  }
}

}  // namespace
}  // namespace ingot::daemon
