// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/temp_dir.h"

namespace ingot::cache {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CredentialsTest : public ::testing::Test {
 protected:
  Environment environment() {
    return [this](const char* name) -> std::optional<std::string> {
      const auto at = variables_.find(name);
      if (at == variables_.end()) return std::nullopt;
      return at->second;
    };
  }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_ / name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  TempDir dir_;
  std::map<std::string, std::string> variables_;
};

TEST_F(CredentialsTest, TheEnvironmentComesFirst) {
  variables_ = {
      {"AWS_ACCESS_KEY_ID", "K"},
      {"AWS_SECRET_ACCESS_KEY", "S"},
      {"AWS_SESSION_TOKEN", "T"},
      {"AWS_SHARED_CREDENTIALS_FILE", Write("c", "[default]\naws_access_key_id=F\naws_secret_access_key=G\n")}};
  const auto found = FindCredentials({}, environment());
  ASSERT_TRUE(found) << found.error().ToText();
  EXPECT_EQ(found->access_key, "K");
  EXPECT_EQ(found->secret.Reveal(), "S");
  EXPECT_EQ(found->token.Reveal(), "T");
  EXPECT_EQ(found->source, "the environment");
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_THAT(FindCredentials({}, environment()).error().message(), HasSubstr("only one of"));
}

TEST_F(CredentialsTest, ProfilesOfTheUsualFiles) {
  variables_["HOME"] = dir_.path();
  ASSERT_EQ(mkdir((dir_ / ".aws").c_str(), 0700), 0);
  EXPECT_THAT(FindCredentials({}, environment()).error().message(), HasSubstr("no S3 credentials"));
  Write(".aws/credentials",
        "# ours\r\n[default]\r\naws_access_key_id = A\r\naws_secret_access_key = a=/b+\r\n\r\n"
        "[ci]\naws_access_key_id=C\n aws_session_token = indented\naws_secret_access_key=c\n");
  Write(".aws/config",
        "[default]\nregion = eu-1\n[profile deploy]\naws_access_key_id=D\naws_secret_access_key=d\n"
        "region = eu-2\ns3 =\n  max_concurrent_requests = 20\n");
  EXPECT_EQ(FindCredentials({}, environment())->secret.Reveal(), "a=/b+");
  EXPECT_EQ(FindRegion({}, environment()), "eu-1");
  variables_["AWS_PROFILE"] = "ci";
  EXPECT_EQ(FindCredentials({}, environment())->access_key, "C");
  EXPECT_EQ(FindCredentials({}, environment())->token.Reveal(), "");
  EXPECT_EQ(FindRegion({}, environment()), "us-east-1");
  const S3Account deploy{.profile = "deploy"};
  EXPECT_EQ(FindCredentials(deploy, environment())->access_key, "D");
  EXPECT_EQ(FindCredentials(deploy, environment())->source, "profile deploy of " + dir_.path() + "/.aws/config");
  EXPECT_EQ(FindRegion(deploy, environment()), "eu-2");
  // Who asks for a profile means it, whatever the environment holds.
  variables_["AWS_ACCESS_KEY_ID"] = variables_["AWS_SECRET_ACCESS_KEY"] = "E";
  EXPECT_EQ(FindCredentials(deploy, environment())->access_key, "D");
  EXPECT_FALSE(FindCredentials({.profile = "nobody"}, environment()));
}

TEST_F(CredentialsTest, AFileOfItsOwnIsPrivate) {
  const std::string text = "[default]\naws_access_key_id = A\naws_secret_access_key = s3cr3t\n";
  const S3Account account{.credentials_file = Write("keys", text)};
  EXPECT_EQ(FindCredentials(account, environment())->access_key, "A");
  for (const mode_t mode : {0640, 0604, 0660, 0644, 0610}) {
    Write("keys", text, mode);
    const auto found = FindCredentials(account, environment());
    ASSERT_FALSE(found) << mode;
    EXPECT_THAT(found.error().message(), HasSubstr("chmod 600"));
  }
  Write("keys", "[default]\naws_access_key_id = A\n");
  EXPECT_THAT(FindCredentials(account, environment()).error().message(), HasSubstr("only one of"));
  Write("keys", "[default]\naws_access_key_id = A\ns3cr3t\n");
  const auto broken = FindCredentials(account, environment());
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr("line 3"));
  EXPECT_THAT(broken.error().message(), Not(HasSubstr("s3cr3t")));
}

TEST_F(CredentialsTest, EveryBeginningOfAFileIsReadOrRefused) {
  const std::string text = "; x\n[a b]\nk = v\n  nested = 1\n\t\n[c]\nkey=\n=v\n# end";
  const auto whole = ParseProfiles(text);
  ASSERT_TRUE(whole) << whole.error().ToText();
  EXPECT_EQ(whole->at("a b").at("k"), "v");
  EXPECT_EQ(whole->at("a b").size(), 1u);
  size_t read = 0;
  for (size_t size = 0; size <= text.size(); ++size) {
    const auto part = ParseProfiles(std::string_view(text).substr(0, size));
    if (part) {
      ++read;
    } else {
      EXPECT_EQ(part.error().code(), Code::kInvalid);
    }
    for (int bit = 0; bit < 8 && size < text.size(); ++bit) {
      std::string flipped = text;
      flipped[size] = static_cast<char>(flipped[size] ^ 1 << bit);
      Ignore(ParseProfiles(flipped), "it must only end");
    }
  }
  EXPECT_GT(read, text.size() / 2);
  EXPECT_FALSE(ParseProfiles("k = v"));
  EXPECT_FALSE(ParseProfiles("[a"));
}

}  // namespace
}  // namespace ingot::cache
