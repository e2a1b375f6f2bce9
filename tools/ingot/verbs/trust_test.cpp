// SPDX-License-Identifier: Apache-2.0
// `ingot trust` as people run it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/temp_dir.h"
#include "cache/trust/trust_text.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

struct Answer {
  int status = -1;
  std::string text;  ///< stdout and stderr
};

class TrustVerbTest : public testing::Test {
 protected:
  /// Runs `ingot trust ...` with a home of its own.
  Answer Trust(const std::string& arguments) {
    const std::string command = fmt::format("env -u XDG_CONFIG_HOME HOME={} {} trust {} 2>&1 </dev/null", dir_.path(),
                                            INGOT_PROGRAM, arguments);
    Answer out;
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return out;
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) out.text.append(block, n);
    const int status = pclose(pipe);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
  }
  Json TrustJson(const std::string& arguments) {
    const Answer answer = Trust(arguments + " --json");
    EXPECT_EQ(answer.status, 0) << answer.text;
    return Json::parse(answer.text, nullptr, /*allow_exceptions=*/false);
  }
  std::string Write(const std::string& name, Bytes bytes) {
    const std::string path = dir_ / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  std::string Read(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  /// An envelope signed with the private key in a file.
  std::string Sign(const std::string& key_path) {
    const auto key = SigningKey::Load(key_path);
    EXPECT_TRUE(key) << key.error().ToText();
    return Write("envelope", *SignProvenance(*key, FakeProvenance()));
  }
  std::string config(const std::string& name) { return dir_ / (".config/ingot/" + name); }
  int Check(const std::string& envelope) {
    return Trust(fmt::format("check {} --artifact {}", envelope, Write("artifact", AsBytes("artifact")))).status;
  }

  TempDir dir_;
};

TEST_F(TrustVerbTest, FromAKeyToAVerdictAndBack) {
  const Answer made = Trust("keygen ci");
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_THAT(made.text, StartsWith("ingot-ed25519 "));
  struct stat found{};
  ASSERT_EQ(stat(config("signing.key").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  const std::string envelope = Sign(config("signing.key"));
  const std::string artifact = Write("artifact", AsBytes("artifact"));

  Answer checked = Trust(fmt::format("check {} --artifact {}", envelope, artifact));
  EXPECT_EQ(checked.status, 10);
  EXPECT_THAT(checked.text, HasSubstr("no_trust_file"));
  const Answer added = Trust(fmt::format("add '{}'", made.text.substr(0, made.text.size() - 1)));
  ASSERT_EQ(added.status, 0) << added.text;
  checked = Trust(fmt::format("check {} --artifact {}", envelope, artifact));
  EXPECT_EQ(checked.status, 0) << checked.text;
  EXPECT_THAT(checked.text, StartsWith("trusted: signed by key ci"));

  // Without its bytes it is not trusted, with others neither.
  checked = Trust("check " + envelope);
  EXPECT_EQ(checked.status, 3);
  EXPECT_THAT(checked.text, HasSubstr("awaits_artifact"));
  checked = Trust(fmt::format("check {} --artifact {}", envelope, envelope));
  EXPECT_EQ(checked.status, 4);
  EXPECT_THAT(checked.text, HasSubstr("other_artifact"));

  const Answer revoked = Trust("revoke --key ci --reason 'laptop stolen'");
  ASSERT_EQ(revoked.status, 0) << revoked.text;
  checked = Trust(fmt::format("check {} --artifact {} --json", envelope, artifact));
  EXPECT_EQ(checked.status, 6);
  EXPECT_THAT(checked.text, HasSubstr("\"verdict\": \"revoked\""));
  EXPECT_THAT(checked.text, HasSubstr("laptop stolen"));
  const Json list = TrustJson("list");
  EXPECT_TRUE(list["keys"][0]["revoked"].get<bool>());
  EXPECT_EQ(list["revocations"].size(), 1u);
}

TEST_F(TrustVerbTest, NeverShowsAPrivateKey) {
  std::string all = Trust("keygen ci").text;
  const std::string path = config("signing.key"), text = Read(path);
  std::istringstream words(text);
  std::string word, secret;
  words >> word >> secret;
  ASSERT_EQ(secret.size(), 44u);
  const std::vector<std::string> commands = {"show " + path,
                                             "show --json " + path,
                                             "add " + path,
                                             "rotate ci-2",
                                             "check " + path,
                                             "keygen ci",
                                             "keygen other --private-key " + path};
  for (const std::string& arguments : commands) {
    all += Trust(arguments).text;
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const Answer open = Trust("show " + path);
  EXPECT_EQ(open.status, 10);
  EXPECT_THAT(open.text, HasSubstr("chmod 600"));
  EXPECT_THAT(all + open.text, Not(HasSubstr(secret.substr(0, 12))));
  EXPECT_EQ(Read(path), text) << "a key is not written over";
}

TEST_F(TrustVerbTest, RotatesFromOneKeyToTheNext) {
  ASSERT_EQ(Trust("keygen ci").status, 0);
  const Json shown = TrustJson("show " + config("signing.key"));
  EXPECT_EQ(shown["kind"], "private_key");
  ASSERT_EQ(Trust(fmt::format("add '{}'", shown["public"].get<std::string>())).status, 0);
  // FakeProvenance is built on 2023-11-14.
  const Json rotated = TrustJson("rotate ci-2 --from 2023-11-01 --old-until 2023-11-10");
  EXPECT_EQ(rotated["file"], config("ci-2.key"));
  EXPECT_EQ(TrustJson(fmt::format("show '{}'", rotated["rotation"].get<std::string>()))["old_key"], shown["id"]);
  EXPECT_EQ(Check(Sign(config("ci-2.key"))), 3);
  EXPECT_EQ(Check(Sign(config("signing.key"))), 0);
  const std::string line = Write("rotation", AsBytes(rotated["rotation"].get<std::string>() + "\n"));
  const Answer added = Trust("add " + line);
  ASSERT_EQ(added.status, 0) << added.text;
  EXPECT_EQ(Check(Sign(config("ci-2.key"))), 0);
  EXPECT_EQ(Check(Sign(config("signing.key"))), 6);
  const Json keys = TrustJson("list")["keys"];
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[1]["follows"], shown["id"]);
}

TEST_F(TrustVerbTest, DomainsAndTimesAreOptions) {
  const std::string file = dir_ / "t.toml";
  const std::string line = FakeKey(1, "ci").public_key().ToLine(), other = FakeKey(2, "team").public_key().ToLine();
  ASSERT_EQ(Trust(fmt::format("add '{}' --file {}", line, file)).status, 0);
  const Answer added =
      Trust(fmt::format("add '{}' --domain prod --functions 'prod.*,live.*' --from 2026-01-01 --until "
                        "2027-01-01T00:00:00Z --file {}",
                        other, file));
  ASSERT_EQ(added.status, 0) << added.text;
  const Json list = TrustJson("list --file " + file);
  EXPECT_EQ(list["domains"][0]["name"], "prod");
  EXPECT_EQ(list["domains"][0]["functions"], Json({"prod.*", "live.*"}));
  EXPECT_EQ(list["domains"][1]["name"], "all");
  EXPECT_EQ(list["keys"][1]["from"], 1'767'225'600);
  EXPECT_EQ(list["keys"][1]["until"], 1'798'761'600);
  EXPECT_EQ(list["keys"][0]["from"], Json());
  const Answer text = Trust("list --file " + file);
  EXPECT_THAT(text.text, HasSubstr("prod.* live.*"));
  EXPECT_THAT(text.text, HasSubstr("2026-01-01T00:00:00Z .. 2027-01-01T00:00:00Z"));
}

TEST_F(TrustVerbTest, MistakesHaveTheNumbersOfTheirCodes) {
  EXPECT_EQ(Trust("list").status, 3);
  EXPECT_EQ(Trust("show /nowhere").status, 3);
  EXPECT_EQ(Trust("keygen 'a b'").status, 2);
  EXPECT_EQ(Trust("revoke").status, 2);
  EXPECT_EQ(Trust("revoke --key nobody").status, 3);
  EXPECT_EQ(Trust("revoke --host a --from yesterday").status, 2);
  EXPECT_EQ(Trust("revoke --artifact 12").status, 2);
  EXPECT_EQ(Trust("add 'ingot-ed25519 x y'").status, 2);
  EXPECT_EQ(Trust("nothing").status, 2);
  EXPECT_EQ(Trust("revoke --host a").status, 0);
  EXPECT_EQ(Trust("check " + Write("garbage", Buffer(100, 7))).status, 4);
  ASSERT_EQ(chmod(config("trust.toml").c_str(), 0666), 0);
  EXPECT_EQ(Trust("list").status, 10);
  EXPECT_EQ(Trust("revoke --host b").status, 10);
}

}  // namespace
}  // namespace ingot::cache
