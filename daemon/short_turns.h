// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ingot::daemon {

/// As <linux/sched/types.h>, which cannot be included beside <sched.h>.
struct SchedulingFacts {
  uint32_t size = sizeof(SchedulingFacts);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingFacts) == 48);

/// Nanoseconds of a short turn: the least that Linux takes.
inline constexpr uint64_t kShortTurnNs = 100'000;
/// Threads and processes that it starts have ordinary turns.
inline constexpr uint64_t kResetOnFork = 1;

/// The calling thread's share of the processors stays the same, but it takes it in short turns: it runs soon after it
/// is woken, also where others compute (Linux from 6.12 on; elsewhere nothing happens). For a thread that does little
/// for many.
inline void WorkInShortTurns() {
  SchedulingFacts facts;
  if (syscall(SYS_sched_getattr, 0, &facts, sizeof facts, 0) != 0) return;
  // Only of ordinary threads: who was given real time has more than this already.
  if (facts.policy != 0) return;
  facts.runtime_ns = kShortTurnNs;
  facts.flags |= kResetOnFork;
  syscall(SYS_sched_setattr, 0, &facts, 0);
}

}  // namespace ingot::daemon
