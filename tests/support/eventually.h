// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/until.h"

namespace ingot::support {

/// Whether `condition` comes true before anything else that a machine may be busy with could be to blame. For what is
/// done behind the test's back and gives no word of it: `EXPECT_TRUE(Eventually(...))` prints the condition that never
/// came. It is asked by this thread, and at least once. No other loop of a test sleeps (tools/tidy.py).
template <typename Condition>
bool Eventually(Condition condition) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPauseMax(16);
  const Until patience = Until::In(std::chrono::minutes(2));
  for (milliseconds pause(1); !condition(); pause = std::min(pause * 2, kPauseMax)) {
    if (!patience.Check()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace ingot::support
