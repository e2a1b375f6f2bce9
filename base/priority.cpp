// SPDX-License-Identifier: Apache-2.0
#include "base/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace ingot {
namespace {

/// The least that the kernel takes.
constexpr uint64_t kSliceNs = 100'000;

/// As sched_setattr(2) has it; glibc does not yet.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

void LeaveFirstProcessor() {
  cpu_set_t allowed;
  // More of them than a set holds: there is room enough.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  CPU_CLR(first, &allowed);
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

void GiveWay(int nice) {
  // On Linux a priority is a thread's own.
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, std::min(19, getpriority(PRIO_PROCESS, self) + nice));
  LeaveFirstProcessor();
}

void AnswerSoon() {
  SchedulingAttributes attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  attributes.runtime = kSliceNs;
  // Whoever may not set it answers as soon as the kernel thinks fit.
  [[maybe_unused]] const long ignored = syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace ingot
