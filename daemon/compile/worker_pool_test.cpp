// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/worker_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <thread>

#include "base/fake_clock.h"
#include "base/metrics.h"
#include "base/processors.h"
#include "base/temp_dir.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

/// Sanitizers reserve more address space than any limit allows.
Config SmallConfig() {
  Config config;
  config.workers = 1;
  config.worker_memory_bytes_max = 0;
  return config;
}

Result<CompiledArtifact> RunJob(WorkerPool& pool, const std::string& graph) {
  std::promise<Result<CompiledArtifact>> promise;
  EXPECT_TRUE(
      pool.Start({graph, "test"}, [&](Result<CompiledArtifact> result) { promise.set_value(std::move(result)); }));
  return promise.get_future().get();
}

std::string BytesOf(const CompiledArtifact& artifact) { return std::string(AsText(artifact.file->bytes())); }

/// What the fake worker answers when it tries something.
std::string Try(WorkerPool& pool, const std::string& word) {
  const auto answer = RunJob(pool, "graph try " + word + " 4");
  return answer ? BytesOf(*answer) : answer.error().ToText();
}

/// A program of a few lines of shell in a worker's place. `$NOTES` there is the file that Notes() reads.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::ofstream(path()) << "#!/bin/sh\nNOTES=" << dir_ / "notes" << "\n" << body << "\n";
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  std::string path() const { return dir_ / "worker"; }
  std::string Notes() const {
    std::ifstream file(dir_ / "notes");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  /// Waits for a whole line.
  std::string WaitForNotes() const {
    EXPECT_TRUE(support::Eventually([&] { return Notes().find('\n') != std::string::npos; }));
    return Notes();
  }

 private:
  TempDir dir_;
};

/// Waits until a process has gone. Zombies, which somebody else must ask about, are gone.
void WaitUntilGone(pid_t pid) {
  EXPECT_TRUE(support::Eventually([&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    return !(file >> number >> name >> state) || state == "Z" || state == "X";
  })) << pid;
}

std::optional<CompilersCondition> ConditionOf(const WorkerPool& pool, const std::string& name) {
  for (const CompilersCondition& condition : pool.Conditions()) {
    if (condition.name == name) return condition;
  }
  return std::nullopt;
}

TEST(WorkerPool, CompilesInAProcessThatItKeeps) {
  GlobalMetrics().Reset();
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const auto facts = pool.Facts();
  ASSERT_TRUE(facts) << facts.error().ToText();
  EXPECT_EQ(facts->identity, "fake 1");
  EXPECT_EQ(facts->features, (std::vector<std::string>{"avx2", "fma"}));
  for (int i = 0; i < 3; ++i) {
    const auto artifact = RunJob(pool, "graph f 4");
    ASSERT_TRUE(artifact) << artifact.error().ToText();
    EXPECT_EQ(artifact->digest, DigestOf("artifact of graph f 4"));
    EXPECT_EQ(artifact->seconds, 0.25);
    EXPECT_EQ(artifact->stages.codegen(), 0.25f);
    EXPECT_EQ(artifact->stages.link(), 0.0f);
    EXPECT_TRUE(proto::CheckSealed(artifact->file->fd()));
  }
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_starts), 1u);
  EXPECT_EQ(pool.alive(), 1u);
}

TEST(WorkerPool, GivesAJobTheProcessThatStartsAhead) {
  GlobalMetrics().Reset();
  Config config = SmallConfig();
  config.workers = 2;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  pool.Prestart();
  ASSERT_TRUE(RunJob(pool, "graph f 4"));
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_starts), 1u);
}

TEST(WorkerPool, TellsACompilersErrorFromACrash) {
  GlobalMetrics().Reset();
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const auto bad = RunJob(pool, "graph bad 4");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), Code::kUnsupported);
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_crashes), 0u);
  const auto crash = RunJob(pool, "graph abort 4");
  ASSERT_FALSE(crash);
  EXPECT_EQ(crash.error().code(), Code::kInternal);
  EXPECT_EQ(crash.error().message(), "the compile process died of signal 6 (Aborted)");
  const auto exits = RunJob(pool, "graph exit 4");
  EXPECT_EQ(exits.error().message(), "the compile process ended with status 7");
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_crashes), 2u);
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
}

TEST(WorkerPool, StopsACompileThatTakesTooLong) {
  Config config = SmallConfig();
  config.worker_wall_s_max = 1;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const auto hung = RunJob(pool, "graph hang 4");
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code(), Code::kTimeout);
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
}

TEST(WorkerPool, ReplacesAWorkerAfterItsJobs) {
  GlobalMetrics().Reset();
  Config config = SmallConfig();
  config.worker_jobs_max = 2;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(RunJob(pool, "graph f 4"));
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_starts), 2u);
}

TEST(WorkerPool, StopsWithACompileInProgress) {
  const Config config = SmallConfig();
  auto pool = std::make_unique<WorkerPool>(config, INGOT_FAKE_WORKER);
  std::promise<Result<CompiledArtifact>> running, waiting;
  ASSERT_TRUE(pool->Start({"graph hang 4", ""},
                          [&](Result<CompiledArtifact> result) { running.set_value(std::move(result)); }));
  ASSERT_TRUE(
      pool->Start({"graph f 4", ""}, [&](Result<CompiledArtifact> result) { waiting.set_value(std::move(result)); }));
  pool.reset();
  EXPECT_EQ(running.get_future().get().error().code(), Code::kCancelled);
  EXPECT_EQ(waiting.get_future().get().error().code(), Code::kCancelled);
}

TEST(WorkerPool, AnInterruptEndsWhatRunsAndWhatWaitsAndNothingElse) {
  GlobalMetrics().Reset();
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  ASSERT_TRUE(RunJob(pool, "graph f 4"));
  std::vector<std::promise<Result<CompiledArtifact>>> promises(2);
  for (auto& promise : promises) {
    EXPECT_TRUE(pool.Start({"graph hang 4", "test"},
                           [&promise](Result<CompiledArtifact> result) { promise.set_value(std::move(result)); }));
  }
  std::vector<std::future<Result<CompiledArtifact>>> futures;
  for (auto& promise : promises) futures.push_back(promise.get_future());
  // The first runs, or is about to; either way it ends.
  pool.Interrupt();
  for (auto& future : futures) {
    while (future.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) pool.Interrupt();
    EXPECT_EQ(future.get().error().code(), Code::kCancelled);
  }
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_crashes), 0u);
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
  pool.Interrupt();
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_crashes), 0u);
}

TEST(WorkerPool, ABackgroundProcessRunsWhereNothingElseDoes) {
  const Config config = SmallConfig();
  for (const auto place : {WorkerPool::Place::kForeground, WorkerPool::Place::kBackground}) {
    WorkerPool pool(config, INGOT_FAKE_WORKER, SystemClock(), place);
    const auto pid = static_cast<pid_t>(std::stoi(Try(pool, "pid")));
    EXPECT_EQ(sched_getscheduler(pid), place == WorkerPool::Place::kBackground ? SCHED_IDLE : SCHED_OTHER);
  }
}

TEST(WorkerPool, SaysWhyNoWorkerStarts) {
  const Config config = SmallConfig();
  WorkerPool missing(config, "/no/such/worker");
  EXPECT_EQ(missing.Facts().error().code(), Code::kUnavailable);
  EXPECT_EQ(RunJob(missing, "graph f 4").error().code(), Code::kUnavailable);
  WorkerPool wrong(config, "/bin/true");
  EXPECT_EQ(wrong.Facts().error().code(), Code::kUnavailable);
}

// Descriptors that others opened without a mark for closing stay here.
TEST(WorkerPool, GivesAProcessItsOwnDescriptorsAndNoOther) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, 0), 0);  // NOLINT: a library that forgets O_CLOEXEC
  const UniqueFd reader(pipe[0]), writer(pipe[1]);
  const UniqueFd high(fcntl(reader.get(), F_DUPFD, 700));  // NOLINT: as above
  ASSERT_TRUE(high);
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const std::string folder = "/proc/" + Try(pool, "pid") + "/fd";
  const auto name_of = [](const std::string& link) { return std::filesystem::read_symlink(link).string(); };
  const std::string leaked = name_of("/proc/self/fd/" + std::to_string(reader.get()));
  const std::string error_output = name_of("/proc/self/fd/2");
  size_t sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;  // The worker may still be closing the file of its answer.
    const std::string name = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || name.starts_with("/memfd:")) continue;
    EXPECT_NE(name, leaked) << entry.path();
    if (name.starts_with("socket:")) ++sockets;
    EXPECT_TRUE(name == "/dev/null" || name == error_output || name.starts_with("socket:") || name.ends_with("/statm"))
        << entry.path() << " is " << name;
  }
  EXPECT_EQ(sockets, error_output.starts_with("socket:") ? 2u : 1u);
}

TEST(WorkerPool, GivesAProcessNoneOfTheDaemonsSecrets) {
  setenv("INGOT_TEST_SECRET", "password", 1);
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  EXPECT_EQ(Try(pool, "environment"), "clean");
  unsetenv("INGOT_TEST_SECRET");
}

TEST(WorkerPool, LimitsWhatAProcessTakes) {
  Config config = SmallConfig();
  config.worker_output_bytes_max = 1 << 20;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  EXPECT_EQ(Try(pool, "limits"), "core=0 files=4096 output=1048576 ");
  EXPECT_EQ(Try(pool, "much"), "write to a memory file: File too large");
  EXPECT_EQ(pool.alive(), 1u);
}

// Whoever started the daemon may have been pinned to one processor; compiles are not.
TEST(WorkerPool, RunsOnAllProcessors) {
  std::thread([] {
    UseAllProcessors();
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const Config config = SmallConfig();
    WorkerPool pool(config, INGOT_FAKE_WORKER);
    EXPECT_EQ(Try(pool, "processors"), std::to_string(CPU_COUNT(&all)));
  }).join();
}

TEST(WorkerPool, ShutsProcessesOff) {
  const Config config = SmallConfig();
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  for (const char* refused : {"socket", "exec", "fork", "kill", "ptrace", "remove", "segment"}) {
    EXPECT_EQ(Try(pool, refused), "EPERM") << refused;
  }
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1) {
    for (const char* refused : {"read", "list", "write"}) EXPECT_EQ(Try(pool, refused), "EACCES") << refused;
  }
  // What Linux itself says, where the processor has no tile registers.
  const bool has_tiles = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) == 0;
  EXPECT_EQ(Try(pool, "tiles"), has_tiles ? "ok" : strerrorname_np(errno));
  for (const char* needed : {"memory", "thread", "pages", "facts"}) EXPECT_EQ(Try(pool, needed), "ok") << needed;
  EXPECT_EQ(pool.alive(), 1u);
  const auto condition = ConditionOf(pool, "sandbox");
  ASSERT_TRUE(condition);
  EXPECT_TRUE(condition->good);
  EXPECT_NE(condition->text.find("system calls by a list (seccomp)"), std::string::npos) << condition->text;
}

TEST(WorkerPool, ShutsNothingOffWhereItIsToldTo) {
  Config config = SmallConfig();
  config.worker_sandbox = "off";
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  EXPECT_EQ(Try(pool, "socket"), "ok");
  EXPECT_EQ(Try(pool, "read"), "ok");
  EXPECT_EQ(ConditionOf(pool, "sandbox")->text, "workers are not shut off (worker_sandbox)");
}

TEST(Sandbox, SaysWhatHoldsAndWhatTheKernelRefused) {
  EXPECT_EQ(SandboxText({}),
            "no network (namespace, seccomp), files closed (landlock), system calls by a list (seccomp)");
  EXPECT_EQ(SandboxText({"unshare: Operation not permitted", "", ""}),
            "no network (seccomp), files closed (landlock), system calls by a list (seccomp); not to be had here: "
            "unshare: Operation not permitted");
  EXPECT_EQ(SandboxText({"a", "b", "c"}), "network open, files open, all system calls; not to be had here: a, b, c");
  EXPECT_TRUE(CheckClosed({"a", "", ""}));
  EXPECT_EQ(CheckClosed({"", "b", ""}).error().code(), Code::kUnavailable);
  EXPECT_EQ(CheckClosed({"", "", "c"}).error().code(), Code::kUnavailable);
  EXPECT_TRUE(ParseSandboxMode("auto") && ParseSandboxMode("off") && ParseSandboxMode("required"));
  EXPECT_EQ(ParseSandboxMode("of").error().code(), Code::kInvalid);
}

/// A pool whose worker was stopped while it had nothing to do.
class StoppedWorker : public testing::Test {
 protected:
  StoppedWorker() {
    config_.worker_accept_s_max = 4;
    pool_ = std::make_unique<WorkerPool>(config_, INGOT_FAKE_WORKER);
    pid_ = std::stoi(Try(*pool_, "pid"));
    kill(pid_, SIGSTOP);
  }
  Config config_ = SmallConfig();
  std::unique_ptr<WorkerPool> pool_;
  pid_t pid_;
};

TEST_F(StoppedWorker, IsReplacedAndItsJobGoesToAnother) {
  const auto done = RunJob(*pool_, "graph f 4");
  ASSERT_TRUE(done) << done.error().ToText();
  WaitUntilGone(pid_);
}

// More than the socket takes, so that sending waits.
TEST_F(StoppedWorker, HoldsNoLargeJobUp) {
  const std::string graph = "graph " + std::string(4 << 20, 'f') + " 4";
  const auto done = RunJob(*pool_, graph);
  ASSERT_TRUE(done) << done.error().ToText();
  EXPECT_EQ(done->digest, DigestOf("artifact of " + graph));
}

TEST_F(StoppedWorker, DoesNotKeepTheDaemon) {
  pool_.reset();
  WaitUntilGone(pid_);
}

TEST(WorkerPool, StopsAJobWhoseProcessIsStopped) {
  Config config = SmallConfig();
  config.worker_wall_s_max = 1;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  EXPECT_EQ(RunJob(pool, "graph stop 4").error().code(), Code::kTimeout);
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
}

TEST(WorkerPool, EndsWithAProcessThatNeverSaysHello) {
  Config config = SmallConfig();
  config.worker_start_s_max = 100'000;
  const Script silent("sleep 100000 & echo $! >> $NOTES; wait");
  WorkerPool pool(config, silent.path());
  pool.Prestart();
  const pid_t child = std::stoi(silent.WaitForNotes());
  std::thread asks([&] { EXPECT_EQ(pool.Facts().error().code(), Code::kCancelled); });
  pool.Stop();
  asks.join();
  WaitUntilGone(child);
}

TEST(WorkerPool, EndsAProcessThatNeverSaysHelloWithWhatItStarted) {
  Config config = SmallConfig();
  config.worker_start_s_max = 1;
  const Script silent("sleep 100000 & echo $! >> $NOTES; wait");
  WorkerPool pool(config, silent.path());
  const auto facts = pool.Facts();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code(), Code::kUnavailable);
  EXPECT_NE(facts.error().message().find("worker_start_s_max"), std::string::npos) << facts.error().message();
  WaitUntilGone(std::stoi(silent.WaitForNotes()));
}

TEST(WorkerProcess, EndsWithTheThreadThatStartedIt) {
  std::unique_ptr<WorkerProcess> worker;
  std::thread([&] {
    auto started = WorkerProcess::Spawn(INGOT_FAKE_WORKER, WorkerLimits(SmallConfig()));
    ASSERT_TRUE(started) << started.error().ToText();
    worker = std::move(started).value();
    ASSERT_TRUE(worker->Greet());
    EXPECT_TRUE(worker->IsAlive());
  }).join();
  ASSERT_NE(worker, nullptr);
  WaitUntilGone(worker->pid());
  EXPECT_FALSE(worker->IsAlive());
}

/// Each is something that no worker of ours sends.
class Lies : public testing::TestWithParam<const char*> {};

TEST_P(Lies, AreRefusedAndCostTheProcess) {
  Config config = SmallConfig();
  config.worker_wall_s_max = 4;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const pid_t pid = std::stoi(Try(pool, "pid"));
  const auto answer = RunJob(pool, std::string("graph ") + GetParam() + " 4");
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().code() == Code::kInternal || answer.error().code() == Code::kTimeout)
      << answer.error().ToText();
  WaitUntilGone(pid);
  EXPECT_TRUE(RunJob(pool, "graph f 4"));
}

INSTANTIATE_TEST_SUITE_P(, Lies,
                         testing::Values("garbage", "half", "endless", "scrambled", "hello", "fileless", "many",
                                         "unsealed", "short", "long", "empty", "forged"),
                         [](const auto& info) { return info.param; });

TEST(WorkerProcess, RefusesAnArtifactAboveItsLimitByWhatWasAnnounced) {
  Config config = SmallConfig();
  config.worker_output_bytes_max = 100'000;
  WorkerPool pool(config, INGOT_FAKE_WORKER);
  const auto answer = RunJob(pool, "graph short 4");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message().find("worker_output_bytes_max"), std::string::npos) << answer.error().message();
}

// With a clock that stands still no pause ends.
TEST(WorkerPool, DoesNotStartAProgramAgainAndAgainThatDoesNotWork) {
  const Config config = SmallConfig();
  const Script broken("echo started >> $NOTES; exit 1");
  FakeClock clock;
  WorkerPool pool(config, broken.path(), clock);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(RunJob(pool, "graph f 4").error().code(), Code::kUnavailable);
  EXPECT_EQ(pool.Facts().error().code(), Code::kUnavailable);
  EXPECT_EQ(broken.Notes(), "started\nstarted\n");
  const auto condition = ConditionOf(pool, "respawn");
  ASSERT_TRUE(condition);
  EXPECT_FALSE(condition->good);
  EXPECT_NE(condition->text.find("2 workers lost in a row, the next starts in 100 ms"), std::string::npos)
      << condition->text;
  clock.AdvanceSeconds(1);
  EXPECT_EQ(RunJob(pool, "graph f 4").error().code(), Code::kUnavailable);
  EXPECT_EQ(broken.Notes(), "started\nstarted\nstarted\n");
}

TEST(WorkerPool, WaitsBeforeItReplacesWorkersThatJobsKeepLosing) {
  const Config config = SmallConfig();
  FakeClock clock;
  WorkerPool pool(config, INGOT_FAKE_WORKER, clock);
  EXPECT_FALSE(RunJob(pool, "graph abort 4"));
  EXPECT_FALSE(ConditionOf(pool, "respawn"));
  EXPECT_FALSE(RunJob(pool, "graph abort 4"));
  const auto lost = ConditionOf(pool, "respawn");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->text,
            "2 workers lost in a row, the next starts in 100 ms; the last: the compile process died of "
            "signal 6 (Aborted)");
  // The next job is not to blame: it waits, as long as the clock stands.
  std::promise<Result<CompiledArtifact>> promise;
  ASSERT_TRUE(
      pool.Start({"graph f 4", ""}, [&](Result<CompiledArtifact> result) { promise.set_value(std::move(result)); }));
  EXPECT_TRUE(support::Eventually([&] { return pool.pending() == 1 && pool.alive() == 0; }));
  clock.AdvanceSeconds(1);
  const auto served = promise.get_future().get();
  EXPECT_TRUE(served) << served.error().ToText();
  EXPECT_FALSE(ConditionOf(pool, "respawn"));
}

TEST(WorkerPool, StopsWhileAJobWaitsForAWorker) {
  const Config config = SmallConfig();
  FakeClock clock;
  WorkerPool pool(config, INGOT_FAKE_WORKER, clock);
  for (int i = 0; i < 12; ++i) {
    clock.AdvanceSeconds(20);
    EXPECT_FALSE(RunJob(pool, "graph abort 4"));
  }
  std::promise<Result<CompiledArtifact>> promise;
  ASSERT_TRUE(
      pool.Start({"graph f 4", ""}, [&](Result<CompiledArtifact> result) { promise.set_value(std::move(result)); }));
  pool.Stop();
  EXPECT_EQ(promise.get_future().get().error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ingot::daemon
