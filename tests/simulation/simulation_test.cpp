// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "daemon/state/config.h"

namespace ingot::simulation {
namespace {

class SimulationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { Ignore(StartLog({.level = LogLevel::kOff}), "machines fail on purpose"); }
  static Report Run(const char* scenario, Scale scale = Small()) {
    const Scenario* const found = FindScenario(scenario);
    EXPECT_NE(found, nullptr) << scenario;
    Result<Report> report = Simulate(*found, scale);
    EXPECT_TRUE(report) << report.error().ToText();
    return std::move(*report);
  }
  static Scale Small() { return {.nodes = 200, .keys = 300, .keys_per_node = 8, .seed = 5}; }

  /// What holds whatever happens.
  static void ExpectSound(const Report& report) {
    EXPECT_GT(report.keys, 0u);
    EXPECT_EQ(report.keys_unfinished, 0u);
    EXPECT_EQ(report.failed, 0u);
    // A look-up gives up when it said it would.
    const double limit_s = static_cast<double>(daemon::Config().cluster_lookup_ms_max) / 1e3;
    EXPECT_LE(Percentile(report.added_s, 1), limit_s + 1e-6);
  }
};

TEST_F(SimulationTest, EqualSeedsGiveEqualRuns) {
  const Scale scale{.nodes = 60, .keys = 100, .keys_per_node = 6, .seed = 3};
  const Report a = Run("all", scale);
  const Report b = Run("all", scale);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.index_calls_by_s, b.index_calls_by_s);
  EXPECT_EQ(a.added_s, b.added_s);
  EXPECT_EQ(a.ready_s, b.ready_s);
  EXPECT_EQ(a.compiles, b.compiles);
  Scale other = scale;
  other.seed = 4;
  EXPECT_NE(Run("all", other).events, a.events);
}

TEST_F(SimulationTest, WithoutFaultsEachKeyIsCompiledOnce) {
  for (const char* name : {"calm", "herd", "rolling"}) {
    SCOPED_TRACE(name);
    const Report report = Run(name);
    ExpectSound(report);
    EXPECT_EQ(report.compiles, report.keys);
    EXPECT_EQ(report.compiles_max, 1u);
    EXPECT_EQ(report.takeovers, 0u);
  }
}

TEST_F(SimulationTest, WhileTheIndexIsLostEachCompilesForHimself) {
  for (const char* name : {"rolling-lost", "rolling-back"}) {
    SCOPED_TRACE(name);
    const Report report = Run(name);
    ExpectSound(report);
    EXPECT_GT(report.compiles, report.keys);
    EXPECT_EQ(report.compiles, report.keys + report.again.at("index_lost"));
    EXPECT_LE(report.compiles, report.first_calls);
    // Machines that have found it so leave it alone.
    EXPECT_GT(report.refused, 0u);
  }
}

TEST_F(SimulationTest, AKilledCompileIsDoneOnceMore) {
  const Report report = Run("killed");
  ExpectSound(report);
  EXPECT_GT(report.killed, 0u);
  EXPECT_LE(report.compiles, report.keys + report.killed + report.keys / 50);
}

TEST_F(SimulationTest, EveryFaultIsBounded) {
  for (const char* name : {"slow", "partition", "skew", "all"}) {
    SCOPED_TRACE(name);
    const Report report = Run(name);
    ExpectSound(report);
    EXPECT_LE(report.compiles_a_key(), 2);
  }
}

TEST_F(SimulationTest, WhileBlobsAreAwayEachCompilesForHimselfAndNotLonger) {
  const Report report = Run("blobs-lost");
  ExpectSound(report);
  EXPECT_GT(report.compiles, report.keys);
  EXPECT_EQ(report.compiles, report.keys + report.again.at("blobs_away"));
  EXPECT_LE(report.compiles, report.first_calls);
}

TEST_F(SimulationTest, WhatIsTooLargeForTheIndexIsWaitedForOnce) {
  const Report report = Run("no-blobs");
  ExpectSound(report);
  EXPECT_GT(report.again.at("too_large"), 0u);
  EXPECT_EQ(report.compiles, report.keys + report.again.at("too_large"));
  EXPECT_GT(report.blob_writes, 0u) << "what is small enough is shared";
  // Nobody waits for several, one after the other: the longest compile takes 290 s.
  EXPECT_LE(Percentile(report.ready_s, 1), 290.0);
}

}  // namespace
}  // namespace ingot::simulation
