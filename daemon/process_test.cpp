// SPDX-License-Identifier: Apache-2.0
// The daemon as a process: how it is started, found, lost and replaced.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "client/lib/start_daemon.h"
#include "daemon/test_server.h"

namespace ingot::daemon {
namespace {

using nlohmann::json;

class ProcessTest : public testing::Test {
 protected:
  void TearDown() override {
    client::ConnectionOptions options = Options();
    options.start = false;
    options.any_build = true;
    if (auto connection = client::Connection::Open(options)) {
      Ignore((*connection)->Query("stop"), "it may end before it answers");
    }
    WaitUntilGone();
  }
  client::ConnectionOptions Options() {
    client::ConnectionOptions options;
    options.store_dir = dir_.path() + "/store";
    options.socket = dir_.path() + "/run/s";
    options.daemon = INGOT_FAKE_DAEMON;
    options.daemon_arguments = {"--worker", INGOT_FAKE_WORKER, "--workers", "1",
                                "--worker-memory-bytes-max", "0"};
    return options;
  }
  std::unique_ptr<client::Connection> Open() {
    auto connection = client::Connection::Open(Options());
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  /// The daemon's lock is free once its process has ended.
  void WaitUntilGone() {
    const std::string lock = dir_.path() + "/run/s.lock";
    const proto::UniqueFd fd(open(lock.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return;
    EXPECT_EQ(flock(fd.get(), LOCK_EX), 0);
  }

  TestDir dir_;
};

TEST_F(ProcessTest, StartsADaemonThatKeepsWhatItCompiled) {
  {
    const auto connection = Open();
    ASSERT_TRUE(connection);
    auto compiled = connection->Compile(MakeCompile("f", "graph f 4"));
    ASSERT_TRUE(compiled) << compiled.error().ToText();
    const json status = json::parse(*connection->Query("status"));
    EXPECT_EQ(status["pid"], connection->daemon_pid());
    EXPECT_EQ(status["store_trouble"], "");
    struct stat facts;
    ASSERT_EQ(stat((dir_.path() + "/run/s").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    ASSERT_EQ(stat((dir_.path() + "/run").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700u);
    ASSERT_TRUE(connection->Query("drain"));
  }
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/run/s"));
  const auto connection = Open();
  EXPECT_TRUE(connection->Lookup(*MakeKey("f"))->reply.found);
  EXPECT_EQ(json::parse(*connection->Query("stats"))["compiles"], 0);
}

TEST_F(ProcessTest, RemembersHowOftenAnEarlierDaemonCouldServe) {
  client::ConnectionOptions options = Options();
  options.daemon_arguments.insert(options.daemon_arguments.end(),
                                  {"--workload-window-s", "1", "--workload-lookups-min", "2"});
  {
    const auto connection = client::Connection::Open(options);
    ASSERT_TRUE(connection) << connection.error().ToText();
    ASSERT_TRUE((*connection)->Compile(MakeCompile("f", "graph f 4")));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE((*connection)->Lookup(*MakeKey("f"))->reply.found);
    ASSERT_TRUE((*connection)->Query("drain"));
  }
  WaitUntilGone();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // Into another window.
  const auto connection = client::Connection::Open(options);
  ASSERT_TRUE(connection) << connection.error().ToText();
  EXPECT_EQ(json::parse(*(*connection)->Query("doctor"))["ok"], true);
  ASSERT_TRUE((*connection)->Query("evict", R"({"key":"f"})"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE((*connection)->Lookup(*MakeKey("f"))->reply.found);
  // The misses may lie in two windows.
  EXPECT_THAT(*(*connection)->Query("doctor"),
              testing::ContainsRegex("0 of [23] lookups hit of late, 4 of [45] before; mostly evicted"));
}

TEST_F(ProcessTest, StartsOneDaemonForManyClients) {
  std::vector<std::thread> clients;
  std::mutex mutex;
  std::set<uint32_t> pids;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const auto connection = Open();
      if (connection == nullptr) return;
      std::lock_guard lock(mutex);
      pids.insert(connection->daemon_pid());
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(pids.size(), 1u);
}

TEST_F(ProcessTest, LeavesTheRunningDaemonAlone) {
  const auto connection = Open();
  const Status second =
      client::StartDaemon(connection->endpoint(), INGOT_FAKE_DAEMON, {"--lock-wait-s", "0"}, 10000);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_NE(second.error().message().find(std::to_string(connection->daemon_pid())),
            std::string::npos)
      << second.error().message();
  EXPECT_TRUE(connection->Query("status"));
}

TEST_F(ProcessTest, ComesBackAfterItWasKilled) {
  const auto connection = Open();
  const uint32_t first = connection->daemon_pid();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  kill(static_cast<pid_t>(first), SIGKILL);
  WaitUntilGone();
  // The dead daemon's socket file is still there.
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/run/s"));
  auto lost = connection->Query("status");
  EXPECT_TRUE(lost || lost.error().code() == Code::kUnavailable);
  auto again = connection->Lookup(*MakeKey("f"));
  ASSERT_TRUE(again) << again.error().ToText();
  EXPECT_TRUE(again->reply.found);
  EXPECT_NE(connection->daemon_pid(), first);
}

TEST_F(ProcessTest, ServesFromMemoryWhenTheStoreCannotBeUsed) {
  std::ofstream(dir_.path() + "/store") << "a file where a directory should be";
  const auto connection = Open();
  ASSERT_TRUE(connection);
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(connection->Lookup(*MakeKey("f"))->reply.found);
  EXPECT_NE(json::parse(*connection->Query("status"))["store_trouble"], "");
  EXPECT_EQ(json::parse(*connection->Query("doctor"))["ok"], false);
}

TEST_F(ProcessTest, AsksADaemonOfAnotherBuildToDrain) {
  const auto connection = Open();
  const uint32_t first = connection->daemon_pid();
  client::ConnectionOptions other = Options();
  other.build = "another";
  auto mismatch = client::Connection::Open(other);
  // The program that was started is of this build too, which the other client must refuse.
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code(), Code::kUnavailable);
  Ignore(connection->Query("status"), "the first call notices that the daemon is gone");
  ASSERT_TRUE(connection->Query("status"));
  EXPECT_NE(connection->daemon_pid(), first);
  other.start = false;
  EXPECT_EQ(client::Connection::Open(other).error().code(), Code::kUnavailable);
}

TEST_F(ProcessTest, TurnsAWorkersDeathIntoARememberedError) {
  const auto connection = Open();
  auto crash = connection->Compile(MakeCompile("f", "graph abort 4"));
  ASSERT_FALSE(crash);
  EXPECT_EQ(crash.error().code(), Code::kInternal);
  auto again = connection->Compile(MakeCompile("f", "graph abort 4"));
  EXPECT_NE(again.error().message().find("failed earlier"), std::string::npos);
  EXPECT_EQ(json::parse(*connection->Query("stats"))["worker_crashes"], 1);
  EXPECT_TRUE(connection->Compile(MakeCompile("g", "graph g 4")));
}

TEST_F(ProcessTest, DrainsOnSigterm) {
  const auto connection = Open();
  kill(static_cast<pid_t>(connection->daemon_pid()), SIGTERM);
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/run/s"));
}

/// A daemon one of whose threads never comes back, and what its log said in the end.
class StuckTest : public ProcessTest {
 protected:
  void Start(const char* drain_s_max) {
    options_ = Options();
    options_.daemon_arguments.insert(options_.daemon_arguments.end(),
                                     {"--drain-s-max", drain_s_max, "--exit-s-max", "1"});
    auto connection = client::Connection::Open(options_);
    ASSERT_TRUE(connection) << connection.error().ToText();
    connection_ = std::move(connection).value();
    pid_ = static_cast<pid_t>(connection_->daemon_pid());
    EXPECT_EQ(connection_->Compile(MakeCompile("f", "graph stuck 4"), 0).error().code(), Code::kTimeout);
    // The query is read after the compile, whose thread is stuck by then or will be.
    EXPECT_TRUE(connection_->Query("status"));
  }
  std::string Log() const {
    std::ifstream file(dir_.path() + "/store/ingotd.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  client::ConnectionOptions options_;
  std::unique_ptr<client::Connection> connection_;
  pid_t pid_ = 0;
};

TEST_F(StuckTest, EndsWithinItsLimits) {
  Start("1");
  kill(pid_, SIGTERM);
  WaitUntilGone();
  EXPECT_THAT(Log(), testing::ContainsRegex("ends at once reason=.*running=\"Compile "));
}

TEST_F(StuckTest, EndsWithinItsLimitWhenItIsStopped) {
  Start("3600");
  Ignore(connection_->Query("stop"), "it may end before it answers");
  WaitUntilGone();
  EXPECT_THAT(Log(), testing::HasSubstr("ends at once"));
}

TEST_F(StuckTest, EndsAtOnceAtASecondSignal) {
  Start("3600");
  kill(pid_, SIGTERM);
  // The first one has been seen once nobody can connect any more.
  while (client::Channel::Connect(dir_.path() + "/run/s")) std::this_thread::yield();
  kill(pid_, SIGTERM);
  WaitUntilGone();
  EXPECT_THAT(Log(), testing::HasSubstr("a second signal"));
}

// A daemon that has no descriptor left parts with who lies idle, and goes on.
TEST_F(ProcessTest, ServesOnWithoutDescriptors) {
  const auto connection = Open();
  ASSERT_TRUE(connection->Query("status"));
  const auto pid = static_cast<pid_t>(connection->daemon_pid());
  rlim_t used = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    used = std::max<rlim_t>(used, std::stoul(entry.path().filename()) + 1);
  }
  const rlimit limit{used + 4, used + 4};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0) << std::strerror(errno);
  std::vector<std::shared_ptr<client::Channel>> idle;
  for (int i = 0; i < 40; ++i) {
    auto channel = client::Channel::Connect(dir_.path() + "/run/s");
    ASSERT_TRUE(channel);
    idle.push_back(std::move(channel).value());
  }
  client::ConnectionOptions options = Options();
  options.start = false;
  const auto other = client::Connection::Open(options);
  ASSERT_TRUE(other) << other.error().ToText();
  for (client::Connection* const client : {connection.get(), other->get()}) {
    const auto answer = client->Query("status", "{}", 60'000);
    EXPECT_TRUE(answer) << answer.error().ToText();
  }
}

TEST_F(ProcessTest, ExitsWhenNobodyIsConnected) {
  client::ConnectionOptions options = Options();
  options.daemon_arguments.insert(options.daemon_arguments.end(), {"--idle-exit-s", "1"});
  { ASSERT_TRUE(client::Connection::Open(options)); }
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/run/s"));
}

}  // namespace
}  // namespace ingot::daemon
