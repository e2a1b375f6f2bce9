// SPDX-License-Identifier: Apache-2.0
// `ingot token` as people run it, and what a server makes of what it wrote.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "cache/peer/remote_tokens.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using testing::Not;
using TokenVerdict = TokenTable::Verdict;
using TokenJson = nlohmann::json;

constexpr int64_t kTokenDay = 86'400;

class TokenVerbTest : public testing::Test {
 protected:
  struct Answer {
    int status = -1;
    std::string text;  ///< stdout and stderr
  };
  /// Runs `ingot token ...` on the test's file of tokens.
  Answer Token(const std::string& arguments) {
    const std::string command = fmt::format(
        "env -u XDG_CONFIG_HOME -u INGOT_CONFIG HOME={} {} token {} --file {} 2>&1 "
        "</dev/null",
        dir_.path(), INGOT_PROGRAM, arguments, tokens());
    Answer out;
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return out;
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) out.text.append(block, n);
    const int status = pclose(pipe);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
  }
  TokenJson Ask(const std::string& arguments) {
    const Answer answer = Token(arguments + " --json");
    EXPECT_EQ(answer.status, 0) << answer.text;
    return TokenJson::parse(answer.text, nullptr, /*allow_exceptions=*/false);
  }
  TokenJson New(const std::string& name, const std::string& more = "") {
    return Ask(fmt::format("new {} --audience rack --out {} {}", name, dir_ / name, more));
  }
  /// The state that `token list` gives it.
  std::string StateOf(const std::string& name) {
    const TokenJson answer = Ask("list");
    for (const TokenJson& token : answer["tokens"]) {
      if (token["name"] == name) return token["state"];
    }
    return "";
  }
  /// What the server of that name says to whoever shows the token of a file.
  TokenTable::Answer Admit(const std::string& name, const std::string& server = "rack") {
    TokenTable table(tokens(), server, clock_);
    EXPECT_TRUE(table.Refresh());
    const auto secret = ReadTokenFile(dir_ / name);
    EXPECT_TRUE(secret) << secret.error().ToText();
    return table.Admit(secret ? secret->Reveal() : std::string());
  }
  TokenVerdict Check(const TokenTable::Answer& admitted, TokenScope scope) {
    TokenTable table(tokens(), "rack", clock_);
    EXPECT_TRUE(table.Refresh());
    return table.Check(admitted.grant.hash, scope).verdict;
  }
  std::string tokens() const { return dir_ / "tokens"; }
  static mode_t ModeOf(const std::string& path) {
    struct stat found{};
    return stat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempDir dir_;
  FakeClock clock_{SystemClock().now_s()};
};

TEST_F(TokenVerbTest, ANewTokenLetsItsOwnerInAndIsWrittenForHimAlone) {
  const TokenJson made = New("ci");
  EXPECT_EQ(made["scopes"], "read,write");
  EXPECT_EQ(made["state"], "good");
  EXPECT_EQ(made["audience"], "rack");
  EXPECT_EQ(ModeOf(dir_ / "ci"), 0600u);
  EXPECT_EQ(ModeOf(tokens()), 0600u);
  const std::string secret = ReadTokenFile(dir_ / "ci").value().Reveal();
  EXPECT_THAT(TextOf(tokens()), Not(HasSubstr(secret))) << "a server knows hashes alone";
  const auto admitted = Admit("ci");
  EXPECT_EQ(admitted.verdict, TokenVerdict::kGood);
  EXPECT_EQ(admitted.grant.name, "ci");
  EXPECT_EQ(Check(admitted, TokenScope::kWrite), TokenVerdict::kGood);
  EXPECT_EQ(Check(admitted, TokenScope::kAdmin), TokenVerdict::kSmallScope);
  EXPECT_THAT(Token("list").text, HasSubstr(made["id"].get<std::string>()));
}

TEST_F(TokenVerbTest, AScopeAllowsWhatItSaysAlone) {
  EXPECT_EQ(New("reader", "--scope read")["scopes"], "read");
  const auto admitted = Admit("reader");
  EXPECT_EQ(Check(admitted, TokenScope::kRead), TokenVerdict::kGood);
  EXPECT_EQ(Check(admitted, TokenScope::kWrite), TokenVerdict::kSmallScope);
  const Answer wrong = Token(fmt::format("new other --audience rack --out {} --scope read,fly", dir_ / "other"));
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.text, HasSubstr("fly"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "other"));
}

TEST_F(TokenVerbTest, AnAudienceIsOneServer) {
  New("ci");
  EXPECT_EQ(Admit("ci", "other").verdict, TokenVerdict::kOtherAudience);
  Ask(fmt::format("new any --audience '*' --out {}", dir_ / "any"));
  EXPECT_EQ(Admit("any", "other").verdict, TokenVerdict::kGood);
  EXPECT_NE(Token(fmt::format("new x --audience 'two words' --out {}", dir_ / "x")).status, 0);
  EXPECT_NE(Token(fmt::format("new x --out {}", dir_ / "x")).status, 0) << "an audience must be said";
}

TEST_F(TokenVerbTest, ATokenExpires) {
  New("week", "--days 7");
  New("ever", "--days 0");
  EXPECT_EQ(Admit("week").verdict, TokenVerdict::kGood);
  clock_.AdvanceSeconds(8 * kTokenDay);
  EXPECT_EQ(Admit("week").verdict, TokenVerdict::kExpired);
  EXPECT_EQ(Admit("ever").verdict, TokenVerdict::kGood);
  // One that was issued long ago, as the list shows it.
  ASSERT_TRUE(EditTokens(tokens(), [](std::vector<TokenGrant>& grants) -> Status {
    for (TokenGrant& grant : grants) {
      if (grant.name == "week") grant.expires_s = SystemClock().now_s() - 60;
    }
    return {};
  }));
  EXPECT_EQ(StateOf("week"), "expired");
  EXPECT_EQ(StateOf("ever"), "good");
  for (const char* days : {"-1", "soon", "40000"}) {
    EXPECT_NE(Token(fmt::format("new x --audience rack --out {} --days={}", dir_ / "x", days)).status, 0) << days;
  }
}

TEST_F(TokenVerbTest, ARevokedTokenLetsNobodyIn) {
  const TokenJson first = New("ci");
  EXPECT_EQ(Ask("revoke ci")["state"], "revoked");
  EXPECT_EQ(Admit("ci").verdict, TokenVerdict::kRevoked);
  EXPECT_EQ(StateOf("ci"), "revoked");
  EXPECT_NE(Token("revoke ci").status, 0) << "there is none any more";
  // The name is free again, and by its id one is told from the other.
  std::filesystem::remove(dir_ / "ci");
  const TokenJson second = New("ci");
  EXPECT_NE(second["id"], first["id"]);
  EXPECT_EQ(Admit("ci").verdict, TokenVerdict::kGood);
  EXPECT_EQ(Ask("revoke " + second["id"].get<std::string>())["state"], "revoked");
}

TEST_F(TokenVerbTest, NothingIsWrittenOverAndNoNameGivenTwice) {
  New("ci");
  const std::string secret = TextOf(dir_ / "ci");
  EXPECT_NE(Token(fmt::format("new other --audience rack --out {}", dir_ / "ci")).status, 0);
  EXPECT_EQ(TextOf(dir_ / "ci"), secret);
  const Answer again = Token(fmt::format("new ci --audience rack --out {}", dir_ / "second"));
  EXPECT_NE(again.status, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "second")) << "a secret that nobody issued";
  EXPECT_EQ(Ask("list")["tokens"].size(), 1u);
}

TEST_F(TokenVerbTest, FilesThatAreOpenToOthersAreRefused) {
  New("ci");
  std::filesystem::permissions(tokens(), std::filesystem::perms(0644));
  for (const std::string& verb : {std::string("list"), std::string("revoke ci"),
                                  fmt::format("new other --audience rack --out {}", dir_ / "other")}) {
    const Answer refused = Token(verb);
    EXPECT_NE(refused.status, 0) << verb;
    EXPECT_THAT(refused.text, HasSubstr("tokens")) << verb;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "other"));
  std::filesystem::permissions(tokens(), std::filesystem::perms(0600));
  EXPECT_EQ(StateOf("ci"), "good") << "nothing was changed meanwhile";
  std::filesystem::permissions(dir_ / "ci", std::filesystem::perms(0644));
  EXPECT_FALSE(ReadTokenFile(dir_ / "ci"));
}

}  // namespace
}  // namespace ingot::cache
