// SPDX-License-Identifier: Apache-2.0
#include "kernels/arena_offsets.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ingot::kernels {
namespace {

constexpr int64_t kAlignment = 64;

int64_t Aligned(int64_t bytes) { return (std::max<int64_t>(bytes, 0) + kAlignment - 1) / kAlignment * kAlignment; }

bool Meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Offset for `buffer` in the smallest gap left by the buffers alive with it; `placed` is sorted by
// offset. Behind the last of them when no gap is large enough.
int64_t BestFit(std::span<const Lifetime> lifetimes, const std::vector<int64_t>& offsets,
                const std::vector<uint32_t>& placed, uint32_t buffer) {
  const int64_t need = Aligned(lifetimes[buffer].bytes);
  int64_t best = -1;
  int64_t best_gap = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const uint32_t other : placed) {
    if (!Meet(lifetimes[buffer], lifetimes[other])) continue;
    const int64_t gap = offsets[other] - end;
    if (gap >= need && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, offsets[other] + Aligned(lifetimes[other].bytes));
  }
  return best >= 0 ? best : end;
}

ArenaLayout Place(std::span<const Lifetime> lifetimes, const std::vector<uint32_t>& order) {
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  std::vector<uint32_t> placed;
  placed.reserve(order.size());
  for (const uint32_t buffer : order) {
    if (lifetimes[buffer].bytes <= 0) continue;
    const int64_t offset = BestFit(lifetimes, layout.offsets, placed, buffer);
    layout.offsets[buffer] = offset;
    layout.bytes = std::max(layout.bytes, offset + Aligned(lifetimes[buffer].bytes));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](int64_t value, uint32_t other) { return value < layout.offsets[other]; });
    placed.insert(at, buffer);
  }
  return layout;
}

int64_t PeakOfLiveBytes(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.bytes <= 0 || lifetime.last < lifetime.first) continue;
    changes.emplace_back(lifetime.first, Aligned(lifetime.bytes));
    changes.emplace_back(uint64_t{lifetime.last} + 1, -Aligned(lifetime.bytes));
  }
  // Ends sort before beginnings of the same step: both bounds of a lifetime are inclusive.
  std::sort(changes.begin(), changes.end());
  int64_t live = 0;
  int64_t peak = 0;
  for (const auto& [step, bytes] : changes) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

ArenaLayout SolveArena(std::span<const Lifetime> lifetimes) {
  std::vector<uint32_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::vector<uint32_t> by_time = by_size;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::stable_sort(by_time.begin(), by_time.end(), [&](uint32_t a, uint32_t b) {
    if (lifetimes[a].first != lifetimes[b].first) return lifetimes[a].first < lifetimes[b].first;
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  ArenaLayout layout = Place(lifetimes, by_size);
  ArenaLayout other = Place(lifetimes, by_time);
  if (other.bytes < layout.bytes) layout = std::move(other);
  layout.bytes_min = PeakOfLiveBytes(lifetimes);
  return layout;
}

}  // namespace ingot::kernels
