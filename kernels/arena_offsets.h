// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

/// Bytes to whose multiples buffers of an arena are placed: a cache line and the widest vector.
inline constexpr int64_t kArenaAlignment = 64;

/// Bytes that all buffers together may have; no machine holds as many.
inline constexpr int64_t kArenaBytesMax = int64_t{1} << 61;

/// A buffer that must hold `bytes` during steps [first, last], both inclusive. A `last` before `first` counts as
/// `first`; a buffer without bytes (0 or less) is no buffer and gets offset 0.
struct Lifetime {
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< bytes; one for each lifetime, aligned
  int64_t bytes = 0;             ///< size of the arena
  int64_t bytes_min = 0;         ///< peak of live bytes: no layout can be smaller
};

/// Places buffers so that two alive at one step never overlap. Greedy with best-fit gaps, in several orders (size,
/// time, size x lifetime, lifetime, busiest steps first); the smallest layout wins. Where none has only `bytes_min`,
/// such a one is sought in few steps (kernels/arena_search.h), unless the buffers are many and live long.
/// Deterministic; `alignment` is a power of two. O(n^2) and n times the lifetimes: 10 to 100 us for the plan of a
/// transformer, below 1 ms for 450 buffers without a search, about 3 ms more at worst with one.
///
/// Sizes that together exceed kArenaBytesMax are not placed: `bytes` and `bytes_min` are kArenaBytesMax then.
/// The client solves it for each size of a template, the compiler for its report.
ArenaLayout SolveArena(std::span<const Lifetime> lifetimes, int64_t alignment = kArenaAlignment);

/// The peak of live bytes, each buffer rounded up to the alignment: ArenaLayout::bytes_min.
int64_t LiveBytesMax(std::span<const Lifetime> lifetimes, int64_t alignment = kArenaAlignment);

/// Whether places that somebody else has chosen are a layout of these buffers: one for each, aligned, all within
/// `bytes`, and no two on the same memory at one step. O(n log n).
bool IsArenaLayout(std::span<const Lifetime> lifetimes, std::span<const uint64_t> offsets, uint64_t bytes,
                   int64_t alignment = kArenaAlignment);

}  // namespace ingot::kernels
