// SPDX-License-Identifier: Apache-2.0
// Whole daemons of which one serves the others: TLS, tokens, signatures and stores as they are used.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/peer/remote_tokens.h"
#include "cache/trust/signing_key.h"
#include "tests/support/certificates.h"
#include "tests/support/daemon/test_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_s3.h"
#include "tests/support/redis_server.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;
using nlohmann::json;

class ServeProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("XDG_CONFIG_HOME", (dir_.path() + "/config").c_str(), 1), 0);
    const cache::SigningKey key = std::move(cache::SigningKey::Generate("ci")).value();
    ASSERT_TRUE(key.Save(dir_.path() + "/signing.key"));
    std::ofstream(dir_.path() + "/trust.toml") << "version = 1\n\n[[key]]\npublic = \"" << key.public_key().ToLine()
                                               << "\"\ndomains = [\"all\"]\n\n[[domain]]\nname = \"all\"\n";
    std::filesystem::permissions(dir_.path() + "/trust.toml", std::filesystem::perms(0600));
    certificates_.Issue("server", "IP:127.0.0.1");
    const auto token = cache::MakeToken("rack", 3, "rack", 0);
    ASSERT_TRUE(cache::WriteTokenFile(dir_.path() + "/token", token->secret));
    ASSERT_TRUE(cache::EditTokens(dir_.path() + "/tokens", [&](std::vector<cache::TokenGrant>& grants) -> Status {
      grants.push_back(token->grant);
      return {};
    }));
  }
  void TearDown() override {
    for (const char* name : {"a", "b", "c", "server"}) {
      client::ConnectionOptions options = Options(name);
      options.start = false;
      if (auto connection = client::Connection::Open(options)) {
        Ignore((*connection)->Query("stop"), "it may end before it answers");
      }
      const auto where = proto::ResolveEndpoint(options.store_dir, "");
      EXPECT_TRUE(Eventually([&] { return !proto::LockFile::HolderOf(where->lock_path()); })) << name;
    }
  }
  client::ConnectionOptions Options(const std::string& name) {
    client::ConnectionOptions options;
    options.store_dir = dir_.path() + "/" + name;
    options.daemon = INGOT_FAKE_DAEMON;
    options.start_ms_max = 60'000;
    options.daemon_arguments = {"--worker",
                                INGOT_FAKE_WORKER,
                                "--workers",
                                "1",
                                "--worker-memory-bytes-max",
                                "0",
                                "--store-disk-free-bytes-min",
                                "0"};
    const auto add = [&](std::vector<std::string> more) {
      options.daemon_arguments.insert(options.daemon_arguments.end(), more.begin(), more.end());
    };
    const std::string port = std::to_string(port_);
    if (name == "server") {
      add({"--serve", "127.0.0.1:" + port, "--serve-certificate", certificates_.cert("server"), "--serve-key",
           certificates_.key("server"), "--serve-tokens", dir_.path() + "/tokens", "--serve-name", "rack"});
    } else {
      if (cluster_.empty()) {
        add({"--cluster-index", "ingots://127.0.0.1:" + port, "--cluster-ca", certificates_.ca(),
             "--cluster-token-file", dir_.path() + "/token"});
      }
      add(cluster_);
      add({"--cluster-key", dir_.path() + "/signing.key", "--cluster-trust", dir_.path() + "/trust.toml",
           "--cluster-lookup-ms-max", "10000", "--cluster-compile-ms-max", "20000", "--cluster-miss-ms", "0"});
    }
    return options;
  }
  std::unique_ptr<client::Connection> Open(const std::string& name) {
    auto connection = client::Connection::Open(Options(name));
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  static int64_t Stat(client::Connection& connection, const char* name) {
    const json stats = json::parse(*connection.Query("stats", R"({"all":true})"));
    return stats.value(name, int64_t{0});
  }

  TestDir dir_;
  ingot::support::Certificates certificates_{dir_.path()};
  const uint16_t port_ = ingot::support::FreePort();
  /// Where machines share, if not by the server.
  std::vector<std::string> cluster_;
};

TEST_F(ServeProcessTest, OneCompileServesAllAndAServerThatIsKilledComesBack) {
  auto server = Open("server");
  ASSERT_TRUE(server);
  const auto a = Open("a");
  ASSERT_TRUE(a);
  auto compiled = a->Compile(MakeCompile("f", "graph f 4"));
  ASSERT_TRUE(compiled) << compiled.error().ToText();
  ASSERT_TRUE(Eventually([&] { return Stat(*a, "cluster_writes") == 2; })) << *a->Query("stats");
  const auto b = Open("b");
  ASSERT_TRUE(b);
  auto found = b->Lookup(*MakeKey("f"));
  ASSERT_TRUE(found) << found.error().ToText();
  EXPECT_TRUE(found->reply.found) << found->reply.why;
  EXPECT_EQ(Stat(*b, "compiles"), 0);
  EXPECT_EQ(Stat(*b, "cluster_hits"), 1);
  EXPECT_GE(Stat(*server, "serve_sessions"), 3) << "indexes and blobs of both";
  EXPECT_EQ(Stat(*server, "compiles"), 0);

  // As kill -9: programs go on, each machine for itself.
  const pid_t pid = static_cast<pid_t>(server->daemon_pid());
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  server.reset();
  ASSERT_TRUE(b->Compile(MakeCompile("g", "graph g 4")));
  EXPECT_EQ(Stat(*b, "compiles"), 1);
  EXPECT_TRUE(b->Lookup(*MakeKey("f"))->reply.found);
  // Back, it has what it had, and what was made meanwhile comes by itself.
  server = Open("server");
  ASSERT_TRUE(server);
  ASSERT_TRUE(Eventually([&] {
    auto got = a->Lookup(*MakeKey("g"));
    return got && got->reply.found;
  })) << *a->Query("stats");
  EXPECT_EQ(Stat(*a, "compiles"), 1);
}

// Records and blobs in S3, dealt out among two stores, of which one is lost.
TEST_F(ServeProcessTest, S3AloneIsEnough) {
  using ingot::support::FakeS3;
  ASSERT_EQ(setenv("AWS_ACCESS_KEY_ID", FakeS3::kAccessKey, 1), 0);
  ASSERT_EQ(setenv("AWS_SECRET_ACCESS_KEY", FakeS3::kSecret, 1), 0);
  FakeS3 kept;
  cluster_ = {"--cluster-blobs-endpoint", kept.endpoint(), "--cluster-blobs-bucket", FakeS3::kBucket,
              "--cluster-blobs-region",   FakeS3::kRegion};
  const auto a = Open("a");
  ASSERT_TRUE(a);
  constexpr int kMade = 6;
  for (int i = 0; i < kMade; ++i) {
    const std::string name = "f" + std::to_string(i);
    ASSERT_TRUE(a->Compile(MakeCompile(name, "graph " + name + " 4")));
  }
  ASSERT_TRUE(Eventually([&] { return Stat(*a, "cluster_writes") == 2 * kMade; })) << *a->Query("stats");
  const auto b = Open("b");
  ASSERT_TRUE(b);
  for (int i = 0; i < kMade; ++i) EXPECT_TRUE(b->Lookup(*MakeKey("f" + std::to_string(i)))->reply.found) << i;
  EXPECT_EQ(Stat(*b, "compiles"), 0);
  const auto shared = kept.objects();
  const auto has = [](const auto& objects, const std::string& part) {
    return std::ranges::any_of(objects, [&](const auto& one) { return one.first.find(part) != std::string::npos; });
  };
  for (const char* part : {"/records/entries/", "/records/graphs/", "/marks/entries/", "/blobs/"}) {
    EXPECT_TRUE(has(shared, part)) << part;
  }
}

TEST_F(ServeProcessTest, AnAddressThatCannotBeServedIsSaid) {
  client::ConnectionOptions options = Options("server");
  options.daemon_arguments.insert(options.daemon_arguments.end(), {"--serve", "127.0.0.1:nowhere"});
  const auto connection = client::Connection::Open(options);
  ASSERT_FALSE(connection);
  EXPECT_THAT(connection.error().message(), ::testing::HasSubstr("serve_listen"));
}

}  // namespace
}  // namespace ingot::daemon
