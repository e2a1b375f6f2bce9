// SPDX-License-Identifier: Apache-2.0
// The daemon as a process: how it is started, found, lost and replaced.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "client/lib/connect/start_daemon.h"
#include "tests/support/daemon/test_server.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;
using nlohmann::json;

class ProcessTest : public testing::Test {
 protected:
  void TearDown() override {
    Stop(Options());
    WaitUntilGone();
  }
  static void Stop(client::ConnectionOptions options) {
    options.start = false;
    if (auto connection = client::Connection::Open(options)) {
      Ignore((*connection)->Query("stop"), "it may end before it answers");
    }
  }
  client::ConnectionOptions Options() {
    client::ConnectionOptions options;
    options.store_dir = dir_.path() + "/store";
    options.daemon = INGOT_FAKE_DAEMON;
    options.daemon_arguments = {"--worker", INGOT_FAKE_WORKER, "--workers", "1", "--worker-memory-bytes-max",
                                "0",        "--place-check-s", "1"};
    return options;
  }
  std::unique_ptr<client::Connection> Open() { return Open(Options()); }
  std::unique_ptr<client::Connection> Open(const client::ConnectionOptions& options) {
    auto connection = client::Connection::Open(options);
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  proto::Endpoint Where() { return *proto::ResolveEndpoint(Options().store_dir, Options().socket); }
  /// The daemon's locks are free once its process has ended.
  void WaitUntilGone() {
    for (const std::string& path : {Where().lock_path(), proto::SocketLockPath(Where().memory_socket)}) {
      EXPECT_TRUE(Eventually([&] { return !proto::LockFile::HolderOf(path); })) << path;
    }
  }
  static std::string Trouble(client::Connection& connection) {
    return json::parse(*connection.Query("status"))["store_trouble"];
  }

  TestDir dir_;
};

/// How often anybody opens a file, from here on.
class OpensOf {
 public:
  explicit OpensOf(const std::string& path) : watch_(inotify_init1(IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(watch_.get(), path.c_str(), IN_OPEN), 0) << path;
  }
  /// Comes back after so many. Those that nobody has read yet may count as one.
  bool WaitFor(int times) const {
    while (times > 0) {
      pollfd readable{watch_.get(), POLLIN, 0};
      char events[4096];
      if (poll(&readable, 1, 120'000) != 1 || read(watch_.get(), events, sizeof events) <= 0) return false;
      --times;
    }
    return true;
  }

 private:
  const UniqueFd watch_;
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
    ASSERT_EQ(stat(Where().socket.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    for (const std::string& directory : {Where().store_dir, Where().home}) {
      ASSERT_EQ(stat(directory.c_str(), &facts), 0);
      EXPECT_EQ(facts.st_mode & 0777, 0700u);
    }
    ASSERT_TRUE(connection->Query("drain"));
  }
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(Where().socket));
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
  // Windows are those of the machine's clock: into another than any that the first can have counted in.
  EXPECT_TRUE(Eventually([ended = time(nullptr)] { return time(nullptr) > ended; }));
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
  const Status second = client::StartDaemon(connection->endpoint(), INGOT_FAKE_DAEMON, {"--lock-wait-s", "0"}, 10000);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_NE(second.error().message().find(std::to_string(connection->daemon_pid())), std::string::npos)
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
  EXPECT_TRUE(std::filesystem::exists(Where().socket));
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

TEST_F(ProcessTest, IsOneForAStoreWhateverTheEnvironmentSays) {
  const auto connection = Open();
  ASSERT_TRUE(connection);
  const std::string elsewhere = dir_.path() + "/elsewhere";
  ASSERT_EQ(mkdir(elsewhere.c_str(), 0700), 0);
  const char* const before = std::getenv("TMPDIR");
  const std::string tmp = before == nullptr ? "/tmp" : before;
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR", "INGOT_SOCKET"}) {
    const std::string value = elsewhere + (std::string_view(name) == "INGOT_SOCKET" ? "/s" : "");
    setenv(name, value.c_str(), 1);
    const auto other = Open();
    unsetenv(name);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->daemon_pid(), connection->daemon_pid()) << name;
    EXPECT_EQ(Trouble(*other), "") << name;
  }
  setenv("TMPDIR", tmp.c_str(), 1);
}

TEST_F(ProcessTest, IsFoundAtTheSocketItWasToldToUse) {
  client::ConnectionOptions told = Options();
  told.socket = dir_.path() + "/run/s";
  const auto connection = Open(told);
  ASSERT_TRUE(connection);
  EXPECT_EQ(connection->daemon_socket(), told.socket);
  const auto other = Open();
  ASSERT_TRUE(other);
  EXPECT_EQ(other->daemon_pid(), connection->daemon_pid());
  // Another store does not get that socket, and says why.
  client::ConnectionOptions third = told;
  third.store_dir = dir_.path() + "/third";
  const auto refused = client::Connection::Open(third);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("serves the store " + Where().store_dir));
}

TEST_F(ProcessTest, ServesFromMemoryWhereTheHoldersSocketCannotBeReached) {
  const auto connection = Open();
  ASSERT_TRUE(connection);
  // As in a container that shares the store and not the socket.
  client::ConnectionOptions there = Options();
  {
    ASSERT_TRUE(connection->Query("drain"));
    WaitUntilGone();
    auto lock = proto::LockFile::Take(Where().lock_path());
    ASSERT_TRUE(lock && *lock);
    ASSERT_TRUE((*lock)->Name("/nowhere/s"));
    const auto apart = Open(there);
    ASSERT_TRUE(apart);
    EXPECT_THAT(Trouble(*apart), testing::HasSubstr("/nowhere/s cannot be reached from here"));
    ASSERT_TRUE(apart->Compile(MakeCompile("f", "graph f 4")));
    const auto same = Open(there);
    EXPECT_EQ(same->daemon_pid(), apart->daemon_pid());
  }
  // Once the holder is gone, whoever serves from memory gives way.
  const std::string lock_path = proto::SocketLockPath(Where().memory_socket);
  EXPECT_TRUE(Eventually([&] { return !proto::LockFile::HolderOf(lock_path); })) << lock_path;
  const auto kept = Open(there);
  ASSERT_TRUE(kept);
  EXPECT_EQ(Trouble(*kept), "");
}

TEST_F(ProcessTest, WaitsForAHolderThatEnds) {
  const auto endpoint = Where();
  std::filesystem::create_directories(endpoint.home);
  std::filesystem::permissions(endpoint.store_dir, std::filesystem::perms::owner_all);
  std::filesystem::permissions(endpoint.home, std::filesystem::perms::owner_all);
  auto lock = proto::LockFile::Take(endpoint.lock_path());
  ASSERT_TRUE(lock && *lock);
  OpensOf opens(endpoint.lock_path());
  std::thread ends([&] {
    // More often than a client asks: a daemon that has started asks again and again.
    EXPECT_TRUE(opens.WaitFor(50));
    lock->reset();
  });
  const auto connection = Open();
  ends.join();
  ASSERT_TRUE(connection);
  EXPECT_EQ(Trouble(*connection), "");
}

TEST_F(ProcessTest, SaysThatAHolderDoesNotServe) {
  client::ConnectionOptions options = Options();
  options.start_ms_max = options.hello_ms_max = 3000;
  ASSERT_TRUE(Open(options));
  Stop(options);
  WaitUntilGone();
  auto lock = proto::LockFile::Take(Where().lock_path());
  ASSERT_TRUE(lock && *lock);
  for (const bool start : {true, false}) {
    options.start = start;
    const auto refused = client::Connection::Open(options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnavailable);
    EXPECT_THAT(refused.error().message(), testing::HasSubstr(fmt::format("process {}", getpid())));
  }
}

TEST_F(ProcessTest, LeavesDaemonsOfOtherBuildsAlone) {
  const auto ours = Open();
  ASSERT_TRUE(ours);
  ASSERT_TRUE(ours->Compile(MakeCompile("f", "graph f 4")));
  client::ConnectionOptions other = Options();
  other.build = "another";
  other.start = false;
  const auto none = client::Connection::Open(other);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(),
              testing::HasSubstr(fmt::format("process {} of build {}", ours->daemon_pid(), proto::BuildId())));
  other.start = true;
  other.daemon = dir_.path() + "/another";
  std::filesystem::create_symlink(INGOT_FAKE_DAEMON, other.daemon);
  for (int i = 0; i < 3; ++i) {
    const auto theirs = Open(other);
    ASSERT_TRUE(theirs);
    EXPECT_NE(theirs->daemon_pid(), ours->daemon_pid());
    EXPECT_EQ(Trouble(*theirs), "");
    ASSERT_TRUE(theirs->Compile(MakeCompile("f", "graph f 4")));
    EXPECT_EQ(json::parse(*theirs->Query("stats"))["compiles"], 1);
    const auto again = Open();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->daemon_pid(), ours->daemon_pid());
    EXPECT_TRUE(again->Lookup(*MakeKey("f"))->reply.found);
  }
  Stop(other);
}

TEST_F(ProcessTest, EndsOnceItsStoreIsGoneAndTheNextHasOne) {
  client::ConnectionOptions options = Options();
  const std::string log = dir_.path() + "/log";
  options.daemon_arguments.insert(options.daemon_arguments.end(), {"--log-file", log});
  const auto connection = Open(options);
  ASSERT_TRUE(connection);
  const auto first = static_cast<pid_t>(connection->daemon_pid());
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  std::filesystem::remove_all(Where().store_dir);
  const auto next = Open();
  ASSERT_TRUE(next);
  EXPECT_NE(next->daemon_pid(), static_cast<uint32_t>(first));
  EXPECT_EQ(Trouble(*next), "");
  ASSERT_TRUE(next->Compile(MakeCompile("f", "graph f 4")));
  EXPECT_TRUE(Eventually([&] { return kill(first, 0) != 0; }));
  std::stringstream said;
  said << std::ifstream(log).rdbuf();
  EXPECT_THAT(said.str(), testing::HasSubstr("somebody removed its store"));
  // The old one took nothing of the new one with it.
  const auto last = Open();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->daemon_pid(), next->daemon_pid());
}

TEST_F(ProcessTest, ClosesWhatWasOpenInItsStarterInTheForegroundToo) {
  const std::string held = dir_.path() + "/held";
  const int fd = open(held.c_str(), O_RDWR | O_CREAT, 0600);  // Inherited on purpose.
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  const pid_t child = fork();
  if (child == 0) {
    execl(INGOT_FAKE_DAEMON, "fake-ingotd", "--store-dir", Options().store_dir.c_str(), "--log-level", "off", nullptr);
    _exit(1);
  }
  close(fd);
  client::ConnectionOptions options = Options();
  options.start = false;
  std::unique_ptr<client::Connection> connection;
  ASSERT_TRUE(Eventually([&] {
    auto found = client::Connection::Open(options);
    if (found) connection = std::move(found).value();
    return connection != nullptr;
  }));
  EXPECT_EQ(connection->daemon_pid(), static_cast<uint32_t>(child));
  const UniqueFd again(open(held.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(again.get(), LOCK_EX | LOCK_NB), 0);
  Ignore(connection->Query("stop"), "it may end before it answers");
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ProcessTest, TakesNothingOfItsStarterAlong) {
  const std::string held = dir_.path() + "/held";
  const int fd = open(held.c_str(), O_RDWR | O_CREAT, 0600);  // Inherited on purpose.
  ASSERT_GE(fd, 0);
  // Far from the numbers that a start happens to overwrite.
  const int high = fcntl(fd, F_DUPFD, 200);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  cpu_set_t processors;
  ASSERT_EQ(sched_getaffinity(0, sizeof processors, &processors), 0);
  std::signal(SIGCHLD, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::unique_ptr<client::Connection> connection;
  std::thread starter([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &processors)) CPU_SET(i, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    connection = Open();
  });
  starter.join();
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  ASSERT_TRUE(connection);
  close(fd);
  close(high);
  const std::string proc = fmt::format("/proc/{}", connection->daemon_pid());
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    std::error_code gone;
    EXPECT_NE(std::filesystem::read_symlink(entry.path(), gone).string(), held) << entry.path();
  }
  const UniqueFd again(open(held.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(again.get(), LOCK_EX | LOCK_NB), 0);
  cpu_set_t theirs;
  ASSERT_EQ(sched_getaffinity(static_cast<pid_t>(connection->daemon_pid()), sizeof theirs, &theirs), 0);
  EXPECT_EQ(CPU_COUNT(&theirs), CPU_COUNT(&processors));
  std::ifstream status(proc + "/status");
  for (std::string line; std::getline(status, line);) {
    const auto bits = [&line] { return std::stoull(line.substr(line.find(':') + 1), nullptr, 16); };
    if (line.starts_with("SigBlk:")) {
      EXPECT_EQ(bits(), 0u);
    } else if (line.starts_with("SigIgn:")) {
      // 32 and 33 are the C library's own.
      EXPECT_EQ(bits() & ~(uint64_t{3} << 31), uint64_t{1} << (SIGPIPE - 1));
    }
  }
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
  EXPECT_FALSE(std::filesystem::exists(Where().socket));
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
  std::string Log() {
    std::ifstream file(Where().home + "/ingotd.log");
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
  EXPECT_TRUE(Eventually([&] { return !client::Channel::Connect(Where().socket); }));
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
    auto channel = client::Channel::Connect(Where().socket);
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

TEST_F(ProcessTest, SaysThatADaemonStandsStill) {
  const auto connection = Open();
  const auto pid = static_cast<pid_t>(connection->daemon_pid());
  kill(pid, SIGSTOP);
  client::ConnectionOptions options = Options();
  options.hello_ms_max = 100;
  for (const bool start : {false, true}) {
    options.start = start;
    const auto other = client::Connection::Open(options);
    EXPECT_FALSE(other);
    if (other) continue;
    EXPECT_EQ(other.error().code(), Code::kTimeout);
    EXPECT_THAT(other.error().message(), testing::HasSubstr(fmt::format("kill -CONT {}", pid)));
  }
  kill(pid, SIGCONT);
  EXPECT_TRUE(connection->Query("status"));
}

TEST(ChannelTest, WaitsForNobodyWhoTakesNoConnection) {
  const TestDir dir;
  const std::string path = dir.path() + "/s";
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  ASSERT_TRUE(client::Channel::Connect(path, 50));
  const auto other = client::Channel::Connect(path, 50);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kTimeout) << other.error().ToText();
}

TEST_F(ProcessTest, ExitsWhenNobodyIsConnected) {
  client::ConnectionOptions options = Options();
  options.daemon_arguments.insert(options.daemon_arguments.end(), {"--idle-exit-s", "1"});
  {
    ASSERT_TRUE(client::Connection::Open(options));
  }
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(Where().socket));
}

}  // namespace
}  // namespace ingot::daemon
