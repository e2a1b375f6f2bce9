// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// Lets the calling thread, and what it starts from then on, run on every processor that the machine and its cgroup
/// give: whoever started the process may have pinned it to a few. Thread-safe.
void UseAllProcessors();

/// Processors that work of this machine may keep busy, whatever the caller is pinned to: those of UseAllProcessors(),
/// and no more than the quota of CPU time of the cgroup and those around it, rounded up. At least 1. `root` stands
/// before the paths of /proc and of what is mounted, for tests. Thread-safe.
size_t ProcessorCount(const std::string& root = "");

/// Of each processor of the machine, by its number, whether thread `id` may run there; 0: the caller. Empty where the
/// kernel does not say.
std::vector<bool> ProcessorsOf(pid_t id);

/// The calling thread may run where thread `id` may.
void UseProcessorsOf(pid_t id);

/// What a cgroup may use of processors, and has used.
struct ProcessorQuota {
  double processors = HUGE_VAL;  ///< infinite: there is no quota
  std::string folder;            ///< of the cgroup that has it
  bool is_unified = false;

  /// Nanoseconds that all of the cgroup's processes have run; none: it does not say.
  std::optional<uint64_t> UsedNs() const;
};
/// The least quota of this process's cgroup and of those around it. `root` as in ProcessorCount.
ProcessorQuota LeastQuota(const std::string& root = "");

}  // namespace ingot
