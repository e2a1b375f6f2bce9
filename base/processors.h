// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace ingot {

/// Lets the calling thread, and what it starts from then on, run on every processor that the machine and its cgroup
/// give: whoever started the process may have pinned it to a few. Thread-safe.
void UseAllProcessors();

/// Processors that work of this machine may keep busy, whatever the caller is pinned to: those of UseAllProcessors(),
/// and no more than the quota of CPU time of the cgroup and those around it, rounded up. At least 1. `root` stands
/// before the paths of /proc and of what is mounted, for tests. Thread-safe.
size_t ProcessorCount(const std::string& root = "");

}  // namespace ingot
