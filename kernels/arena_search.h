// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/arena_offsets.h"

namespace ingot::kernels {

/// Buffers above which nothing is searched: the search recurses once for each.
inline constexpr size_t kArenaSearchBuffersMax = 4096;

struct ArenaSearch {
  ArenaLayout layout;
  uint64_t steps = 0;     ///< that were taken, at most those allowed
  bool is_least = false;  ///< no smaller layout exists
};

/// Searches for a smaller layout than `layout`, which is one of SolveArena for the same lifetimes and alignment, down
/// to the peak of live bytes: for work that need not be done at run time. It ends where nothing smaller exists or after
/// `steps_max` steps. A step is one try to place one buffer; it costs time linear in the lifetimes of the buffers that
/// are left beside it: 1 to 20 us for 150 to 450 buffers. Memory: 8 bytes for each step, at most 8 MiB.
/// Deterministic: equal arguments give equal layouts on every machine.
ArenaSearch ImproveArena(std::span<const Lifetime> lifetimes, ArenaLayout layout, uint64_t steps_max,
                         int64_t alignment = kArenaAlignment);

}  // namespace ingot::kernels
