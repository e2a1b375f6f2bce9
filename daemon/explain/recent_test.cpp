// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/recent.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"
#include "base/metrics.h"

namespace ingot::daemon {
namespace {

TEST(Recent, KeepsTheLastSamples) {
  GlobalMetrics().Reset();
  Config config;
  config.web_samples_max = 2;
  FakeClock clock;
  Recent recent(config, clock);
  for (uint64_t i = 1; i <= 3; ++i) {
    GlobalMetrics().Add(Counter::entry_hits, 10);
    GlobalMetrics().Add(Counter::entry_misses);
    recent.Take(i);
    clock.AdvanceSeconds(5);
  }
  const auto samples = recent.samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].hits, 20u);
  EXPECT_EQ(samples[1].hits, 30u);
  EXPECT_EQ(samples[1].misses, 3u);
  EXPECT_EQ(samples[1].flights, 3u);
  EXPECT_EQ(samples[1].when - samples[0].when, 5);
}

TEST(Recent, KeepsTheNewestMissesAndCutsTheirTexts) {
  Config config;
  config.web_misses_max = 2;
  Recent recent(config, SystemClock());
  for (const char* function : {"a", "b", "c"}) {
    recent.Missed({1, {1, 2}, function, "never_stored", std::string(100'000, 'w')});
  }
  const auto misses = recent.misses();
  ASSERT_EQ(misses.size(), 2u);
  EXPECT_EQ(misses[0].function, "c");
  EXPECT_EQ(misses[1].function, "b");
  EXPECT_LT(misses[0].why.size(), 1000u);
}

}  // namespace
}  // namespace ingot::daemon
