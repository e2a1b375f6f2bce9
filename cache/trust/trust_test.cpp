// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "cache/trust/trust_text.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class TrustTest : public testing::Test {
 protected:
  TrustTest() { Write(Trusting({&ci_})); }

  static std::string Trusting(const std::vector<const SigningKey*>& keys) {
    std::string text = EmptyTrustText();
    for (const SigningKey* key : keys) text = *WithKey(text, key->public_key().ToLine(), {"all"}, {}, {});
    return text;
  }
  void Write(const std::string& text) {
    ASSERT_TRUE(EditTrustText(path_, [&](const std::string&) -> Result<std::string> { return text; }));
  }
  Judgement Judge(const Trust& trust, const SigningKey& key) {
    const Provenance provenance = FakeProvenance();
    return trust.Judge(FakeReceived(provenance), *SignProvenance(key, provenance), AsBytes("artifact"));
  }

  TempDir dir_;
  const std::string path_ = dir_ / "config/trust.toml";
  const SigningKey ci_ = FakeKey(1, "ci"), team_ = FakeKey(2, "team");
  FakeClock clock_{kFakeBuilt_s + 60};
};

TEST_F(TrustTest, FollowsTheFile) {
  Trust trust({path_, "", {}}, clock_);
  EXPECT_TRUE(Judge(trust, ci_).trusted());
  EXPECT_EQ(Judge(trust, team_).verdict, Verdict::kUnknownKey);
  Write(Trusting({&team_}));
  EXPECT_TRUE(trust.Refresh());
  EXPECT_EQ(Judge(trust, ci_).verdict, Verdict::kUnknownKey);
  EXPECT_TRUE(Judge(trust, team_).trusted());
}

TEST_F(TrustTest, NobodyIsTrustedWithoutAFileThatCanBeUsed) {
  Trust trust({path_, "", {}}, clock_);
  const auto refused = [&](const std::string& why) {
    EXPECT_FALSE(trust.Refresh());
    const Judgement judgement = Judge(trust, ci_);
    EXPECT_EQ(judgement.verdict, Verdict::kNoTrustFile);
    EXPECT_THAT(judgement.text, HasSubstr(why));
  };
  const auto good = [&] {
    EXPECT_TRUE(trust.Refresh());
    EXPECT_TRUE(Judge(trust, ci_).trusted());
  };
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    refused("chmod go-w");
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  good();
  ASSERT_EQ(chmod((dir_ / "config").c_str(), 0770), 0);
  refused("chmod go-w");
  ASSERT_EQ(chmod((dir_ / "config").c_str(), 01777), 0);
  good();
  ASSERT_EQ(chmod((dir_ / "config").c_str(), 0755), 0);
  good();
  std::ofstream(path_) << "version = 1\n[[kay]]\n";
  refused("'kay'");
  std::filesystem::remove(path_);
  refused("trust file");
  Write(Trusting({&ci_}));
  good();
}

TEST_F(TrustTest, AnotherUsersFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  const auto text = ReadTrustText(path_);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message(), HasSubstr("belongs to user 12345"));
}

TEST_F(TrustTest, EditsKeepModeAndLinks) {
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const std::string link = dir_ / "link.toml";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  ASSERT_TRUE(EditTrustText(link, [&](const std::string& text) { return WithRevocation(text, {.host = "a"}); }));
  struct stat found{};
  ASSERT_EQ(lstat(link.c_str(), &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0644u);
  EXPECT_THAT(*ReadTrustText(path_), HasSubstr("host = \"a\""));
}

TEST_F(TrustTest, AFailedEditChangesNothing) {
  const std::string before = *ReadTrustText(path_);
  EXPECT_FALSE(EditTrustText(path_, [&](const std::string& text) { return WithRevocation(text, {}); }));
  EXPECT_EQ(*ReadTrustText(path_), before);
  const std::string fresh = dir_ / "fresh.toml";
  EXPECT_FALSE(EditTrustText(fresh, [&](const std::string& text) { return WithRevocation(text, {}); }));
  EXPECT_FALSE(std::filesystem::exists(fresh));
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_FALSE(EditTrustText(path_, [&](const std::string& text) { return WithRevocation(text, {.host = "a"}); }));
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "config")) {
    EXPECT_EQ(entry.path().filename(), "trust.toml");
  }
}

TEST_F(TrustTest, EditsOfSeveralLoseNone) {
  constexpr int kEditors = 4, kEdits = 10;
  std::vector<std::thread> editors;
  for (int editor = 0; editor < kEditors; ++editor) {
    editors.emplace_back([&, editor] {
      for (int i = 0; i < kEdits; ++i) {
        const Status done = EditTrustText(path_, [&](const std::string& text) {
          return WithRevocation(text, {.host = fmt::format("h{}-{}", editor, i)});
        });
        EXPECT_TRUE(done) << done.error().ToText();
      }
    });
  }
  for (std::thread& editor : editors) editor.join();
  EXPECT_EQ(TrustPolicy::Parse(*ReadTrustText(path_))->revocations().size(), size_t{kEditors * kEdits});
}

TEST_F(TrustTest, QuarantineIsInForceAtOnceAndKept) {
  const std::string quarantine = dir_ / "config/quarantine.toml";
  Trust trust({path_, quarantine, {}}, clock_);
  EXPECT_TRUE(Judge(trust, ci_).trusted());
  ASSERT_TRUE(trust.Quarantine({.key = ci_.public_key().id(), .reason = "other bytes"}));
  const Judgement judgement = Judge(trust, ci_);
  EXPECT_EQ(judgement.verdict, Verdict::kRevoked);
  EXPECT_THAT(judgement.text, HasSubstr("other bytes"));
  EXPECT_EQ(Judge(Trust({path_, quarantine, {}}, clock_), ci_).verdict, Verdict::kRevoked);
  ASSERT_EQ(chmod(quarantine.c_str(), 0666), 0);
  EXPECT_FALSE(trust.Refresh());
  EXPECT_EQ(Judge(trust, ci_).verdict, Verdict::kNoTrustFile);
}

/// Every judgement is by one state of the file, while the file changes under it.
TEST_F(TrustTest, JudgesWhileTheFileChanges) {
  Trust trust({path_, dir_ / "config/quarantine.toml", {}}, clock_);
  const Provenance provenance = FakeProvenance();
  const Buffer of_ci = *SignProvenance(ci_, provenance), of_team = *SignProvenance(team_, provenance);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> judged = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        for (const Buffer& envelope : {of_ci, of_team}) {
          const Judgement judgement = trust.Judge(FakeReceived(provenance), envelope, AsBytes("artifact"));
          EXPECT_TRUE(judgement.trusted() || judgement.verdict == Verdict::kUnknownKey) << judgement.text;
        }
        ++judged;
        EXPECT_TRUE(trust.Refresh());
      }
    });
  }
  for (int i = 0; i < 20 || judged < 20; ++i) {
    Write(Trusting({i % 2 == 0 ? &team_ : &ci_}));
    EXPECT_TRUE(trust.Refresh());
    EXPECT_EQ(Judge(trust, ci_).trusted(), i % 2 == 1);
    EXPECT_EQ(Judge(trust, team_).trusted(), i % 2 == 0);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace ingot::cache
