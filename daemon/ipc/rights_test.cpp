// SPDX-License-Identifier: Apache-2.0
// What who reaches which socket may do, and whose entries he is served. Other users are other users: processes that the
// kernel says are of another uid.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/state/convert.h"
#include "proto/message.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* kAdministers[] = {"stats",    "overview", "metrics",  "config", "log",    "load",   "list",
                                        "doctor",   "ranks",    "evict",    "pin",    "unpin",  "retry",  "rival",
                                        "manifest", "outbox",   "verify",   "gc",     "recall", "export", "prefetch",
                                        "sync",     "tune",     "contests", "import", "stop",   "drain"};

class RightsTest : public ServerTest {
 protected:
  /// What the daemon says to who has no more than its clients' socket.
  Error AsClient(const std::string& verb, const Json& arguments) {
    auto channel = client::Channel::Connect(socket_path());
    EXPECT_TRUE(channel);
    proto::QueryT query;
    query.verb = verb;
    query.json = arguments.dump();
    const auto reply = (*channel)->Call(proto::MessageType::Query, proto::PackMessage<proto::Query>(query), 10'000);
    return reply ? Error(Code::kInternal, "it was answered") : reply.error();
  }
};

TEST_F(RightsTest, AClientAdministersNothing) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const std::string key = ToKey(*MakeKey("f")).ToDigest().ToHex();
  for (const char* verb : kAdministers) {
    const Error error = AsClient(verb, {{"key", key}, {"all", true}, {"file", dir_.path() + "/file"}});
    EXPECT_EQ(error.code(), Code::kDenied) << verb << ": " << error.message();
    EXPECT_THAT(error.message(), HasSubstr("who administers the daemon")) << verb;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/file"));
  EXPECT_TRUE(Connect()->Lookup(*MakeKey("f"))->reply.found) << "it is there, and serves";
}

TEST_F(RightsTest, AClientAsksOnlyOfWhatItCanNameWhole) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const std::string key = ToKey(*MakeKey("f")).ToDigest().ToHex();
  for (const char* verb : {"inspect", "why-miss"}) {
    for (const std::string& name : {std::string("f"), key.substr(0, 31), std::string(), key + "0"}) {
      EXPECT_EQ(AsClient(verb, {{"key", name}}).code(), Code::kDenied) << verb << " " << name;
    }
    EXPECT_EQ(AsClient(verb, {{"key", key}}).message(), "it was answered") << verb;
  }
  EXPECT_EQ(AsClient("text", {{"graph", "f"}}).code(), Code::kDenied);
  EXPECT_EQ(AsClient("diff", {{"a", key}, {"b", "f"}}).code(), Code::kDenied);
  EXPECT_EQ(AsClient("diff", {{"a", key}}).code(), Code::kDenied);
}

TEST_F(RightsTest, WhoReachesTheOtherSocketAdministers) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_EQ(Json::parse(*connection->Query("list"))["entries"].size(), 1u);
  EXPECT_TRUE(connection->Query("inspect", R"({"key": "f"})"));
  struct stat facts{};
  ASSERT_EQ(stat((socket_path() + ".admin").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  // Where it is not there, the daemon's word stands.
  std::filesystem::remove(socket_path() + ".admin");
  const auto denied = Connect()->Query("list");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code(), Code::kDenied);
  EXPECT_THAT(denied.error().message(), HasSubstr("s.admin"));
}

TEST_F(RightsTest, FilesOfAClientGoNowhere) {
  // Descriptors that come at the clients' socket are the kernel's to close; the next request is answered all the same.
  auto channel = client::Channel::Connect(socket_path());
  ASSERT_TRUE(channel);
  proto::QueryT query;
  query.verb = "status";
  query.json = "{}";
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  // The daemon has its end of the connection from the first answer on.
  EXPECT_TRUE((*channel)->Call(proto::MessageType::Query, proto::PackMessage<proto::Query>(query), 10'000));
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE((*channel)->Call(proto::MessageType::Query, proto::PackMessage<proto::Query>(query), 10'000,
                                 std::vector<int>(20, file.get())));
  }
  EXPECT_EQ(open_files(), before);
  // Nor do those that nobody asked of who administers.
  auto admin = client::Channel::Connect(socket_path() + ".admin");
  ASSERT_TRUE(admin);
  EXPECT_TRUE((*admin)->Call(proto::MessageType::Query, proto::PackMessage<proto::Query>(query), 10'000));
  const auto with_admin = open_files();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE((*admin)->Call(proto::MessageType::Query, proto::PackMessage<proto::Query>(query), 10'000,
                               std::vector<int>(20, file.get())));
  }
  EXPECT_EQ(open_files(), with_admin);
}

/// A daemon that serves two other users, and tells two groups apart.
class TenantsTest : public RightsTest {
 protected:
  static constexpr int kOne = 65533, kOther = 65532, kGroup = 65531, kOtherGroup = 65530;

  void SetUp() override {
    config_.client_uids = fmt::format("{} {}", kOne, kOther);
    config_.client_gids = fmt::format("{} {}", kGroup, kOtherGroup);
    std::filesystem::permissions(dir_.path(), static_cast<std::filesystem::perms>(0755));
    // Where other users can reach it, whatever the build is in.
    std::filesystem::copy_file(INGOT_TENANT_CLIENT, program());
    ServerTest::SetUp();
  }
  std::string program() const { return dir_.path() + "/client"; }
  /// What a process of that user and group is told.
  std::string As(int uid, int gid, const std::string& words) const {
    const std::string as_root = geteuid() == 0 ? "" : "sudo -n ";  // It takes other users to show this.
    const std::string command = fmt::format(
        "{}setpriv --reuid={} --regid={} --clear-groups env -i INGOT_DAEMON_UID={} HOME=/nonexistent {} {} {} 2>&1",
        as_root, uid, gid, geteuid(), program(), socket_path(), words);
    FILE* const pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string out;
    char text[256];
    while (pipe != nullptr && fgets(text, sizeof text, pipe) != nullptr) out += text;
    EXPECT_EQ(pclose(pipe), 0) << command << ": " << out;
    return out;
  }
};

TEST_F(TenantsTest, NobodyIsServedWhatAnotherTenantClaims) {
  ASSERT_EQ(As(kOne, kOne, "compile victim.f 'graph evil 4'"), "compiled artifact of graph evil 4");
  // The same key of another user, of the daemon's own, and of another group of the same user.
  EXPECT_THAT(As(kOther, kOther, "lookup victim.f"), StartsWith("missed"));
  EXPECT_FALSE(Connect()->Lookup(*MakeKey("victim.f"))->reply.found);
  EXPECT_THAT(As(kOne, kGroup, "lookup victim.f"), StartsWith("missed"));
  EXPECT_EQ(As(kOther, kOther, "compile victim.f 'graph honest 4'"), "compiled artifact of graph honest 4");
  // From memory as from the store: each again, in turn.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(As(kOne, kOne, "lookup victim.f"), "found artifact of graph evil 4");
    EXPECT_EQ(As(kOther, kOther, "lookup victim.f"), "found artifact of graph honest 4");
    EXPECT_THAT(As(kOther, kOtherGroup, "lookup victim.f"), StartsWith("missed"));
  }
}

TEST_F(TenantsTest, EqualCodeIsMadeOnceForAll) {
  ASSERT_EQ(As(kOne, kOne, "compile f 'graph same 4'"), "compiled artifact of graph same 4");
  EXPECT_EQ(As(kOther, kOther, "compile g 'graph same 4'"), "compiled artifact of graph same 4");
  EXPECT_EQ(As(kOther, kGroup, "compile g 'graph same 4'"), "compiled artifact of graph same 4");
  EXPECT_TRUE(Connect()->Compile(MakeCompile("h", "graph same 4")));
  EXPECT_EQ(compilers_->started(), 1u);
}

TEST_F(TenantsTest, NobodySaysOfHimselfWhoHeIs) {
  ASSERT_THAT(As(kOne, kOne, "compile f 'graph f 4'"), StartsWith("compiled"));
  EXPECT_EQ(As(kOther, kOther, fmt::format("claim f {}", kOne)), "invalid");
  EXPECT_EQ(As(kOther, kOther, fmt::format("claim f {}", kOther)), "invalid");
  auto key = MakeKey("f");
  key->components.push_back(MakeComponent("tenant", "of", std::to_string(kOne)));
  EXPECT_EQ(Connect()->Lookup(*key).error().code(), Code::kInvalid);
}

TEST_F(TenantsTest, WhyNothingWasFoundSaysNothingOfAnother) {
  proto::CompileT request = MakeCompile("f", "graph f 4");
  request.key = MakeKey("f", "a secret name");
  ASSERT_TRUE(Connect()->Compile(request));
  const std::string why = As(kOne, kOne, "lookup f");
  EXPECT_THAT(why, StartsWith("missed never stored"));
  EXPECT_THAT(why, testing::Not(HasSubstr("secret")));
}

TEST_F(TenantsTest, NobodyAsksOfWhatIsAnothers) {
  // Its digest can be worked out by whoever has the program.
  proto::CompileT request = MakeCompile("f", "graph same 4");
  request.key = MakeKey("f", "a secret name");
  ASSERT_TRUE(Connect()->Compile(request));
  const std::string theirs = ToKey(*MakeKey("f", "a secret name")).ToDigest().ToHex();
  ASSERT_THAT(As(kOne, kOne, "compile g 'graph same 4'"), StartsWith("compiled"));
  const auto found = Connect()->Lookup(*request.key);
  const std::string artifact = ArtifactOf(*found->reply.variants.at(0)).ToHex();
  for (const char* verb : {"inspect", "why-miss"}) {
    const std::string told = As(kOne, kOne, fmt::format("ask {} key {}", verb, theirs));
    EXPECT_THAT(told, StartsWith("not_found")) << verb;
    EXPECT_THAT(told, testing::Not(HasSubstr("secret"))) << verb;
  }
  EXPECT_THAT(As(kOne, kOne, fmt::format("ask diff a {} b {}", artifact, theirs)), StartsWith("not_found"));
  // Code that both have names the entry of who asks alone.
  EXPECT_THAT(As(kOne, kOne, fmt::format("ask text graph {}", theirs)), StartsWith("not_found"));
  const std::string status = As(kOne, kOne, "ask status x y");
  EXPECT_THAT(status, HasSubstr("\"oldest_flights\":[]"));
  EXPECT_THAT(status, HasSubstr("\"cluster\":null"));
}

TEST_F(TenantsTest, WhatATenantFoundWrongIsNotGivenToItAgain) {
  ASSERT_THAT(As(kOne, kOne, "compile f 'graph f 4'"), StartsWith("compiled"));
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const std::string artifact = ArtifactOf(*Connect()->Lookup(*MakeKey("f"))->reply.variants.at(0)).ToHex();
  ASSERT_EQ(As(kOne, kOne, "quarantine " + artifact), "ok");
  EXPECT_THAT(As(kOne, kOne, "compile f 'graph f 4'"), StartsWith("internal"));
  EXPECT_THAT(As(kOne, kOne, "lookup f"), StartsWith("missed"));
}

TEST_F(TenantsTest, WhatOneSaysIsWrongIsTakenFromNoOther) {
  ASSERT_THAT(As(kOne, kOne, "compile f 'graph f 4'"), StartsWith("compiled"));
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const auto found = Connect()->Lookup(*MakeKey("f"));
  const std::string artifact = ArtifactOf(*found->reply.variants.at(0)).ToHex();
  EXPECT_EQ(As(kOther, kOther, "quarantine " + artifact), "not_found") << "he has no entry with it";
  EXPECT_EQ(As(kOne, kOne, "quarantine " + artifact), "ok");
  EXPECT_THAT(As(kOne, kOne, "lookup f"), StartsWith("missed"));
  EXPECT_TRUE(Connect()->Lookup(*MakeKey("f"))->reply.found);
  EXPECT_THAT(As(kOther, kOther, "compile f 'graph f 4'"), StartsWith("compiled"));
}

TEST_F(TenantsTest, OtherUsersAdministerNothingAndStrangersAreNotServed) {
  for (const char* verb : {"list", "config", "stop", "evict", "import", "export"}) {
    EXPECT_EQ(As(kOne, kOne, fmt::format("query {}", verb)), "denied") << verb;
  }
  EXPECT_THAT(As(kGroup, kGroup, "lookup f"), StartsWith("unavailable"));
  // Nor does who is told to expect another daemon's user believe this one.
  const auto client = Connect();
  ASSERT_TRUE(client->Query("status"));
}

}  // namespace
}  // namespace ingot::daemon
