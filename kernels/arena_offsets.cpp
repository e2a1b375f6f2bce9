// SPDX-License-Identifier: Apache-2.0
#include "kernels/arena_offsets.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "kernels/arena_search.h"

namespace ingot::kernels {
namespace {

// Buffers, times the steps that they live together: what the first steps of a search cost, here about 3 ms.
constexpr double kQuickSearchWorkMax = 2e6;

// A buffer that has bytes; `bytes` are aligned.
struct Block {
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t lifetime = 0;
};

struct PlacedBlock {
  int64_t offset = 0;
  int64_t end = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

// Offset for `block` in the smallest gap left by the blocks alive with it; `placed` is sorted by
// offset. Behind the last of them when no gap is large enough.
int64_t BestFit(const std::vector<PlacedBlock>& placed, const Block& block) {
  int64_t best = -1;
  int64_t best_gap = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const PlacedBlock& other : placed) {
    if (other.first > block.last || other.last < block.first) continue;
    const int64_t gap = other.offset - end;
    if (gap >= block.bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, other.end);
  }
  return best >= 0 ? best : end;
}

// Replaces `layout` where placing in `order` gives a smaller one; gives up once it cannot.
void Place(const std::vector<Block>& blocks, const std::vector<uint32_t>& order, ArenaLayout& layout) {
  std::vector<PlacedBlock> placed;
  placed.reserve(order.size());
  std::vector<int64_t> offsets(layout.offsets.size(), 0);
  int64_t bytes = 0;
  for (const uint32_t at : order) {
    const Block& block = blocks[at];
    const int64_t offset = BestFit(placed, block);
    bytes = std::max(bytes, offset + block.bytes);
    if (bytes >= layout.bytes) return;
    offsets[block.lifetime] = offset;
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [](int64_t value, const PlacedBlock& other) { return value < other.offset; });
    placed.insert(behind, {offset, offset + block.bytes, block.first, block.last});
  }
  layout.offsets = std::move(offsets);
  layout.bytes = bytes;
}

// Live bytes from each step at which they change until the next.
std::vector<std::pair<uint64_t, int64_t>> LiveBytes(const std::vector<Block>& blocks) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  changes.reserve(2 * blocks.size());
  for (const Block& block : blocks) {
    changes.emplace_back(block.first, block.bytes);
    changes.emplace_back(uint64_t{block.last} + 1, -block.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<std::pair<uint64_t, int64_t>> live;
  int64_t bytes = 0;
  for (const auto& [step, change] : changes) {
    bytes += change;
    if (live.empty() || live.back().first != step) live.emplace_back(step, bytes);
    live.back().second = bytes;
  }
  return live;
}

// For each block the most bytes that are alive at one of its steps.
std::vector<int64_t> PeakOfEach(const std::vector<Block>& blocks,
                                const std::vector<std::pair<uint64_t, int64_t>>& live) {
  std::vector<int64_t> peaks;
  peaks.reserve(blocks.size());
  for (const Block& block : blocks) {
    int64_t peak = 0;
    auto at = std::lower_bound(live.begin(), live.end(), std::pair<uint64_t, int64_t>{block.first, 0},
                               [](const auto& a, const auto& b) { return a.first < b.first; });
    for (; at != live.end() && at->first <= block.last; ++at) peak = std::max(peak, at->second);
    peaks.push_back(peak);
  }
  return peaks;
}

struct Blocks {
  std::vector<Block> blocks;
  int64_t total = 0;  // bytes of all; kArenaBytesMax where they are more
};

Blocks BlocksOf(std::span<const Lifetime> lifetimes, int64_t alignment) {
  Blocks out;
  out.blocks.reserve(lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    if (lifetime.bytes <= 0) continue;
    const int64_t bytes = (std::min(lifetime.bytes, kArenaBytesMax) + alignment - 1) / alignment * alignment;
    out.total = bytes > kArenaBytesMax - out.total ? kArenaBytesMax : out.total + bytes;
    out.blocks.push_back({bytes, lifetime.first, std::max(lifetime.first, lifetime.last), i});
  }
  return out;
}

int64_t PeakOf(const std::vector<std::pair<uint64_t, int64_t>>& live) {
  int64_t peak = 0;
  for (const auto& [step, bytes] : live) peak = std::max(peak, bytes);
  return peak;
}

ArenaLayout PlaceGreedily(std::span<const Lifetime> lifetimes, int64_t alignment) {
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  const Blocks all = BlocksOf(lifetimes, alignment);
  const std::vector<Block>& blocks = all.blocks;
  layout.bytes = all.total;
  layout.bytes_min = all.total;
  if (all.total == 0 || all.total == kArenaBytesMax) return layout;

  const auto live = LiveBytes(blocks);
  layout.bytes_min = PeakOf(live);
  // Side by side: sound, and what every order is compared with.
  int64_t end = 0;
  for (const Block& block : blocks) layout.offsets[block.lifetime] = std::exchange(end, end + block.bytes);

  std::vector<uint32_t> order(blocks.size());
  const auto try_order = [&](auto before) {
    if (layout.bytes == layout.bytes_min) return;
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), before);
    Place(blocks, order, layout);
  };
  const auto steps = [&](uint32_t i) { return static_cast<double>(blocks[i].last - blocks[i].first) + 1; };
  const auto area = [&](uint32_t i) { return static_cast<double>(blocks[i].bytes) * steps(i); };
  try_order([&](uint32_t a, uint32_t b) { return blocks[a].bytes > blocks[b].bytes; });
  try_order([&](uint32_t a, uint32_t b) {
    if (blocks[a].first != blocks[b].first) return blocks[a].first < blocks[b].first;
    return blocks[a].bytes > blocks[b].bytes;
  });
  try_order([&](uint32_t a, uint32_t b) { return area(a) > area(b); });
  try_order([&](uint32_t a, uint32_t b) { return steps(a) > steps(b); });
  if (layout.bytes == layout.bytes_min) return layout;
  const std::vector<int64_t> peaks = PeakOfEach(blocks, live);
  try_order([&](uint32_t a, uint32_t b) {
    if (peaks[a] != peaks[b]) return peaks[a] > peaks[b];
    return blocks[a].bytes > blocks[b].bytes;
  });
  try_order([&](uint32_t a, uint32_t b) {
    if (peaks[a] != peaks[b]) return peaks[a] > peaks[b];
    return steps(a) > steps(b);
  });
  return layout;
}

}  // namespace

ArenaLayout SolveArena(std::span<const Lifetime> lifetimes, int64_t alignment) {
  ArenaLayout layout = PlaceGreedily(lifetimes, alignment);
  if (layout.bytes == layout.bytes_min) return layout;
  double lived = 0;
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.last >= lifetime.first) lived += static_cast<double>(lifetime.last - lifetime.first) + 1;
  }
  if (static_cast<double>(lifetimes.size()) * lived > kQuickSearchWorkMax) return layout;
  return ImproveArena(lifetimes, std::move(layout), lifetimes.size() + lifetimes.size() / 4, alignment).layout;
}

int64_t LiveBytesMax(std::span<const Lifetime> lifetimes, int64_t alignment) {
  const Blocks all = BlocksOf(lifetimes, alignment);
  return all.total == kArenaBytesMax ? all.total : PeakOf(LiveBytes(all.blocks));
}

bool IsArenaLayout(std::span<const Lifetime> lifetimes, std::span<const uint64_t> offsets, uint64_t bytes,
                   int64_t alignment) {
  if (offsets.size() != lifetimes.size() || bytes > static_cast<uint64_t>(kArenaBytesMax)) return false;
  struct Event {
    uint64_t step = 0;
    bool is_first = false;  // ends come before beginnings of one step: those two buffers do not meet
    uint32_t lifetime = 0;
  };
  std::vector<Event> events;
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    if (lifetime.bytes <= 0) continue;
    const auto size = static_cast<uint64_t>(lifetime.bytes);
    if (offsets[i] % static_cast<uint64_t>(alignment) != 0 || size > bytes || offsets[i] > bytes - size) return false;
    events.push_back({lifetime.first, true, i});
    events.push_back({uint64_t{std::max(lifetime.first, lifetime.last)} + 1, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.step, a.is_first, a.lifetime) < std::tie(b.step, b.is_first, b.lifetime);
  });
  std::map<uint64_t, uint64_t> taken;  // the end of each buffer that is alive, by where it begins
  for (const Event& event : events) {
    const uint64_t offset = offsets[event.lifetime];
    if (!event.is_first) {
      taken.erase(offset);
      continue;
    }
    const uint64_t end = offset + static_cast<uint64_t>(lifetimes[event.lifetime].bytes);
    const auto next = taken.lower_bound(offset);
    if (next != taken.end() && next->first < end) return false;
    if (next != taken.begin() && std::prev(next)->second > offset) return false;
    taken.emplace(offset, end);
  }
  return true;
}

}  // namespace ingot::kernels
