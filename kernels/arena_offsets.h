// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

/// A buffer that must hold `bytes` during steps [first, last], both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< one for each lifetime, 64-byte aligned
  int64_t bytes = 0;             ///< size of the arena
  int64_t bytes_min = 0;         ///< peak of live bytes: no layout can be smaller
};

/// Places buffers so that two alive at one step never overlap. Greedy by size with best-fit gaps
/// and greedy in order of time; the smaller layout wins. O(n^2); deterministic.
/// The client solves it for each size of a template, the compiler for its report.
ArenaLayout SolveArena(std::span<const Lifetime> lifetimes);

}  // namespace ingot::kernels
