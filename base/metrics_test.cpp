// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/fake_clock.h"

namespace ingot {
namespace {

uint64_t Find(const std::vector<Metric>& snapshot, std::string_view name) {
  for (const Metric& metric : snapshot) {
    if (metric.name == name) return metric.value;
  }
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

TEST(Metrics, SnapshotNamesEveryValueOnce) {
  const std::vector<Metric> snapshot = Metrics().Snapshot();
  std::set<std::string> names;
  for (const Metric& metric : snapshot) names.insert(metric.name);
  EXPECT_EQ(names.size(), snapshot.size());
  EXPECT_EQ(snapshot.size(), kCounters + 2 * kTimers);
}

TEST(Metrics, CountsAndTimesAreSeenUnderTheirNames) {
  Metrics metrics;
  metrics.Add(Counter::compiles);
  metrics.Add(Counter::bytes_served, 4096);
  FakeClock clock;
  {
    TimeScope scope(Timer::compile, metrics, clock);
    clock.AdvanceNs(1500);
  }
  const std::vector<Metric> snapshot = metrics.Snapshot();
  EXPECT_EQ(Find(snapshot, "compiles"), 1u);
  EXPECT_EQ(Find(snapshot, "bytes_served"), 4096u);
  EXPECT_EQ(Find(snapshot, "compile_count"), 1u);
  EXPECT_EQ(Find(snapshot, "compile_ns"), 1500u);
  EXPECT_EQ(metrics.ToText(), "compiles=1 bytes_served=4096");
  metrics.Reset();
  EXPECT_EQ(metrics.ToText(), "");
  EXPECT_EQ(metrics.NsOf(Timer::compile), 0u);
}

TEST(Metrics, CountTimesByTheBoundTheyDoNotPass) {
  Metrics metrics;
  metrics.AddTime(Timer::lookup, 0);
  metrics.AddTime(Timer::lookup, kTimerBounds[0]);
  metrics.AddTime(Timer::lookup, kTimerBounds[0] + 1);
  metrics.AddTime(Timer::lookup, kTimerBounds.back() + 1);
  TimerBuckets expected{};
  expected[0] = 2;
  expected[1] = 1;
  expected.back() = 1;
  EXPECT_EQ(metrics.BucketsOf(Timer::lookup), expected);
  EXPECT_EQ(metrics.CountOf(Timer::lookup), 4u);
  EXPECT_EQ(metrics.CountOf(Timer::load), 0u);
}

TEST(Metrics, LoseNothingBetweenThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) metrics.Add(Counter::requests);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.Get(Counter::requests), 40'000u);
}

}  // namespace
}  // namespace ingot
