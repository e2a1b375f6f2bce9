// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/check_serve.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "base/fake_clock.h"
#include "daemon/admin/check_tiers.h"
#include "tests/support/daemon/test_serve.h"
#include "tests/support/redis_server.h"

namespace ingot::daemon {
namespace {

using ::testing::HasSubstr;
using CheckJson = nlohmann::ordered_json;
constexpr long kDays = 90;

class CheckServeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("XDG_CONFIG_HOME", (world_.dir / "config").c_str(), 1), 0);
    world_.certificates.Issue("server", "DNS:localhost,IP:127.0.0.1", -60, kDays * 86'400);
    world_.Start();
  }
  CheckJson Check(const Clock& clock = SystemClock()) {
    Checks checks;
    CheckServe(world_.config, std::chrono::seconds(20), clock, checks);
    return std::move(checks).Finish();
  }
  /// The first of a name.
  static CheckJson Of(const CheckJson& answer, const std::string& name) {
    for (const CheckJson& check : answer["checks"]) {
      if (check["check"] == name) return check;
    }
    return {{"ok", nullptr}, {"text", "there is no check of that name: " + answer.dump()}};
  }

  ServeWorld world_;
};

TEST_F(CheckServeTest, WhatIsServedWellIsSaidToBe) {
  const CheckJson answer = Check();
  EXPECT_TRUE(answer["ok"].get<bool>()) << answer.dump();
  EXPECT_THAT(Of(answer, "serving: certificate")["text"].get<std::string>(), HasSubstr("localhost"));
  EXPECT_THAT(Of(answer, "serving: certificate")["text"].get<std::string>(), HasSubstr("more days"));
  EXPECT_THAT(Of(answer, "serving: tokens")["text"].get<std::string>(), HasSubstr("1 let somebody in"));
  EXPECT_EQ(Of(answer, "serving: reachable")["text"], world_.config.serve_listen);
}

TEST_F(CheckServeTest, NobodyIsServedAndNothingSaid) {
  world_.config.serve_listen.clear();
  EXPECT_TRUE(Check()["checks"].empty());
}

TEST_F(CheckServeTest, ACertificateThatEndsIsSaidBeforeAndAfter) {
  const auto text = [&](int64_t days) {
    const FakeClock clock(SystemClock().now_s() + days * 86'400);
    const CheckJson check = Of(Check(clock), "serving: certificate");
    EXPECT_FALSE(check["ok"].get<bool>()) << check.dump();
    return check["text"].get<std::string>();
  };
  EXPECT_THAT(text(kDays - 10), HasSubstr("renew it"));
  EXPECT_THAT(text(kDays + 1), HasSubstr("has ended"));
  EXPECT_THAT(text(-2), HasSubstr("does not hold before"));
}

TEST_F(CheckServeTest, FilesThatAreOpenToOthersAreSaid) {
  std::filesystem::permissions(world_.config.serve_tokens, std::filesystem::perms(0644));
  EXPECT_FALSE(Of(Check(), "serving: tokens")["ok"].get<bool>());
  std::filesystem::permissions(world_.config.serve_tokens, std::filesystem::perms(0600));
  std::filesystem::permissions(world_.config.serve_key, std::filesystem::perms(0644));
  EXPECT_FALSE(Of(Check(), "serving: certificate")["ok"].get<bool>());
  std::filesystem::remove(world_.config.serve_certificate);
  EXPECT_FALSE(Of(Check(), "serving: certificate")["ok"].get<bool>());
}

TEST_F(CheckServeTest, TokensThatLetNobodyInAreCounted) {
  world_.config.serve_name = "another";
  world_.NewToken("late", "read", "another", 1000);
  const CheckJson check = Of(Check(), "serving: tokens");
  EXPECT_FALSE(check["ok"].get<bool>());
  EXPECT_THAT(check["text"].get<std::string>(), HasSubstr("0 let somebody in"));
  EXPECT_THAT(check["text"].get<std::string>(), HasSubstr("1 are for other servers, 1 have expired"));
}

TEST_F(CheckServeTest, AServerThatIsNotThereOrShowsAnotherCertificateIsSaid) {
  world_.certificates.Issue("other", "IP:127.0.0.1");
  const std::string right = world_.config.serve_certificate;
  world_.config.serve_certificate = world_.certificates.cert("other");
  world_.config.serve_key = world_.certificates.key("other");
  // Its own authority is all that is trusted here, and the server has been started with another one's.
  EXPECT_FALSE(Of(Check(), "serving: reachable")["ok"].get<bool>());
  world_.config.serve_certificate = right;
  world_.Stop();
  EXPECT_FALSE(Of(Check(), "serving: reachable")["ok"].get<bool>());
}

// `ingot config check` before there is a daemon: a rack cache whose cluster_index is its own address.
TEST_F(CheckServeTest, ARackThatNamesItselfIsSaid) {
  world_.Stop();
  Config config = world_.config;
  const uint16_t port = ingot::support::FreePort();
  config.serve_listen = "127.0.0.1:" + std::to_string(port);
  config.serve_source = "cluster";
  config.cluster_index = "ingots://127.0.0.1:" + std::to_string(port);
  config.cluster_ca = world_.certificates.ca();
  config.cluster_token_file = world_.token_file;
  CheckJson answer = CheckTiers(config, 20);
  EXPECT_FALSE(answer["ok"].get<bool>());
  EXPECT_TRUE(Of(answer, "serving: reachable")["ok"].get<bool>()) << answer.dump();
  EXPECT_THAT(Of(answer, "cluster index")["text"].get<std::string>(), HasSubstr("leads back to itself"));
  // A store of its own is asked nothing in a circle.
  config.serve_source = "store";
  answer = CheckTiers(config, 20);
  EXPECT_TRUE(Of(answer, "cluster index")["ok"].get<bool>()) << answer.dump();
}

}  // namespace
}  // namespace ingot::daemon
