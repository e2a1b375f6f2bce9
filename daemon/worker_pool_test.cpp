// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_pool.h"

#include <gtest/gtest.h>

#include <future>

#include "base/metrics.h"

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
  EXPECT_TRUE(pool.Start({graph, "test"}, [&](Result<CompiledArtifact> result) {
    promise.set_value(std::move(result));
  }));
  return promise.get_future().get();
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
    EXPECT_TRUE(proto::CheckSealed(artifact->file.get()));
  }
  EXPECT_EQ(GlobalMetrics().Get(Counter::worker_starts), 1u);
  EXPECT_EQ(pool.alive(), 1u);
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
  ASSERT_TRUE(pool->Start({"graph hang 4", ""}, [&](Result<CompiledArtifact> result) {
    running.set_value(std::move(result));
  }));
  ASSERT_TRUE(pool->Start({"graph f 4", ""}, [&](Result<CompiledArtifact> result) {
    waiting.set_value(std::move(result));
  }));
  pool.reset();
  EXPECT_EQ(running.get_future().get().error().code(), Code::kCancelled);
  EXPECT_EQ(waiting.get_future().get().error().code(), Code::kCancelled);
}

TEST(WorkerPool, SaysWhyNoWorkerStarts) {
  const Config config = SmallConfig();
  WorkerPool missing(config, "/no/such/worker");
  EXPECT_EQ(missing.Facts().error().code(), Code::kUnavailable);
  EXPECT_EQ(RunJob(missing, "graph f 4").error().code(), Code::kUnavailable);
  WorkerPool wrong(config, "/bin/true");
  EXPECT_EQ(wrong.Facts().error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace ingot::daemon
