// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/backoff.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"

namespace ingot::daemon {
namespace {

TEST(Backoff, GrowsToItsLimitAndEndsWithASuccess) {
  FakeClock clock;
  Backoff backoff(clock, 1000);
  EXPECT_EQ(backoff.wait_ms(), 0u);
  for (const uint64_t expected : {0, 100, 200, 400, 800, 1000, 1000}) {
    backoff.Failed();
    EXPECT_EQ(backoff.wait_ms(), expected);
    clock.AdvanceNs(static_cast<int64_t>(expected) * 1'000'000);
    EXPECT_EQ(backoff.wait_ms(), 0u);
  }
  EXPECT_EQ(backoff.failures(), 7u);
  backoff.Failed();
  backoff.Succeeded();
  EXPECT_EQ(backoff.wait_ms(), 0u);
  EXPECT_EQ(backoff.failures(), 0u);
  for (int i = 0; i < 1000; ++i) backoff.Failed();
  EXPECT_EQ(backoff.wait_ms(), 1000u);
}

}  // namespace
}  // namespace ingot::daemon
