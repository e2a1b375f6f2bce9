// SPDX-License-Identifier: Apache-2.0
#include "kernels/arena_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace ingot::kernels {
namespace {

ArenaSearch Search(std::span<const Lifetime> lifetimes, uint64_t steps_max, int64_t alignment = kArenaAlignment) {
  return ImproveArena(lifetimes, SolveArena(lifetimes, alignment), steps_max, alignment);
}

bool Meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

void ExpectLayout(const std::vector<Lifetime>& lifetimes, const ArenaLayout& layout, int64_t alignment) {
  ASSERT_EQ(layout.offsets.size(), lifetimes.size());
  EXPECT_GE(layout.bytes, layout.bytes_min);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % alignment, 0);
    EXPECT_GE(layout.offsets[i], 0);
    EXPECT_LE(layout.offsets[i] + std::max<int64_t>(lifetimes[i].bytes, 0), layout.bytes);
    for (size_t k = 0; k < i; ++k) {
      if (lifetimes[i].bytes <= 0 || lifetimes[k].bytes <= 0 || !Meet(lifetimes[i], lifetimes[k])) continue;
      EXPECT_TRUE(layout.offsets[i] >= layout.offsets[k] + lifetimes[k].bytes ||
                  layout.offsets[k] >= layout.offsets[i] + lifetimes[i].bytes)
          << "buffers " << k << " and " << i;
    }
  }
}

// The least layout's size: some order in which each buffer takes the lowest place gives it.
int64_t LeastBytes(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(lifetimes.size());
    int64_t bytes = 0;
    for (size_t at = 0; at < order.size(); ++at) {
      const Lifetime& buffer = lifetimes[order[at]];
      int64_t offset = 0;
      for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (size_t k = 0; k < at; ++k) {
          const Lifetime& other = lifetimes[order[k]];
          const int64_t end = offsets[order[k]] + other.bytes;
          if (!Meet(buffer, other) || offset >= end || offset + buffer.bytes <= offsets[order[k]]) continue;
          offset = end;
          has_moved = true;
        }
      }
      offsets[order[at]] = offset;
      bytes = std::max(bytes, offset + buffer.bytes);
    }
    least = std::min(least, bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

std::vector<Lifetime> RandomLifetimes(std::mt19937& random, size_t count, uint32_t bytes_max, uint32_t steps,
                                      uint32_t life) {
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& lifetime : lifetimes) {
    lifetime.bytes = 1 + random() % bytes_max;
    lifetime.first = random() % steps;
    lifetime.last = lifetime.first + random() % life;
  }
  return lifetimes;
}

// Up to `count` buffers that leave little of `capacity` bytes free at each step.
std::vector<Lifetime> CrowdedLifetimes(std::mt19937& random, size_t count, uint32_t capacity, uint32_t steps) {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> live(steps);
  for (size_t i = 0; i < 3 * count && lifetimes.size() < count; ++i) {
    const uint32_t first = random() % steps;
    const uint32_t last = std::min<uint32_t>(steps - 1, first + random() % 4);
    const int64_t bytes = 1 + random() % (capacity / 2 + 1);
    if (*std::max_element(live.begin() + first, live.begin() + last + 1) > capacity - bytes) continue;
    for (uint32_t step = first; step <= last; ++step) live[step] += bytes;
    lifetimes.push_back({bytes, first, last});
  }
  return lifetimes;
}

void ExpectLeast(const std::vector<Lifetime>& lifetimes) {
  const ArenaSearch found = Search(lifetimes, 1'000'000, 1);
  ExpectLayout(lifetimes, found.layout, 1);
  EXPECT_TRUE(found.is_least);
  EXPECT_EQ(found.layout.bytes, LeastBytes(lifetimes));
}

TEST(ImproveArena, FindsTheLeastLayout) {
  std::mt19937 random(7);
  for (uint32_t i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    const auto lifetimes = i % 2 == 0 ? RandomLifetimes(random, 5 + i % 3, 1 + i % 12, 6, 1 + i % 5)
                                      : CrowdedLifetimes(random, 7, 4 + i % 9, 4 + i % 6);
    ExpectLeast(lifetimes);
  }
}

TEST(ImproveArena, KnowsThatThePeakIsNotEnough) {
  for (const std::vector<Lifetime>& lifetimes :
       {std::vector<Lifetime>{{1, 3, 5}, {2, 0, 2}, {1, 2, 4}, {1, 1, 3}, {2, 4, 6}, {2, 6, 6}, {2, 0, 0}, {1, 3, 3}},
        {{4, 3, 4}, {4, 4, 4}, {2, 1, 3}, {1, 2, 4}, {3, 2, 2}, {2, 1, 2}, {1, 2, 3}, {5, 0, 1}}}) {
    ExpectLeast(lifetimes);
    const ArenaSearch found = Search(lifetimes, 1'000'000, 1);
    EXPECT_EQ(found.layout.bytes, found.layout.bytes_min + 1);
  }
}

TEST(ImproveArena, IsNoWorseThanGreedyAndRepeatable) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const auto lifetimes = RandomLifetimes(random, 20 + i * 3, 10'000, 60, 12);
    const ArenaLayout greedy = SolveArena(lifetimes);
    const ArenaSearch found = Search(lifetimes, 20'000);
    ExpectLayout(lifetimes, found.layout, kArenaAlignment);
    EXPECT_LE(found.layout.bytes, greedy.bytes);
    EXPECT_EQ(found.layout.bytes_min, greedy.bytes_min);
    EXPECT_LE(found.steps, 20'000u);
    const ArenaSearch again = Search(lifetimes, 20'000);
    EXPECT_EQ(again.layout.offsets, found.layout.offsets);
    EXPECT_EQ(again.steps, found.steps);
  }
}

TEST(ImproveArena, EndsAfterTheStepsThatItIsGiven) {
  std::mt19937 random(3);
  const auto lifetimes = RandomLifetimes(random, 150, 1000, 60, 20);
  for (const uint64_t steps_max : {0, 1, 10, 1000, 10'000}) {
    SCOPED_TRACE(steps_max);
    const ArenaSearch found = Search(lifetimes, steps_max, 1);
    ExpectLayout(lifetimes, found.layout, 1);
    EXPECT_LE(found.steps, steps_max);
  }
  EXPECT_EQ(Search(lifetimes, 0).layout.offsets, SolveArena(lifetimes).offsets);
}

TEST(ImproveArena, PlacesWhatGreedyOrdersCannot) {
  // Cut from one rectangle of 12 bytes without waste.
  const std::vector<Lifetime> lifetimes = {{3, 0, 3}, {9, 0, 1}, {2, 2, 5}, {7, 2, 3}, {6, 4, 7},
                                           {4, 4, 5}, {5, 6, 9}, {1, 6, 7}, {4, 8, 9}, {3, 8, 9}};
  const ArenaSearch found = Search(lifetimes, 100'000, 1);
  ExpectLayout(lifetimes, found.layout, 1);
  EXPECT_EQ(found.layout.bytes, 12);
  EXPECT_TRUE(found.is_least);
}

TEST(ImproveArena, TakesNothingOneAndEmptyBuffers) {
  const ArenaSearch nothing = Search({}, 1000);
  EXPECT_EQ(nothing.layout.bytes, 0);
  EXPECT_TRUE(nothing.is_least);
  const std::vector<Lifetime> one = {{100, 3, 4}};
  EXPECT_EQ(Search(one, 1000).layout.bytes, 128);
  const std::vector<Lifetime> empty = {{0, 0, 5}, {-8, 0, 5}, {64, 0, 5}, {0, 2, 1}};
  const ArenaSearch found = Search(empty, 1000);
  EXPECT_EQ(found.layout.bytes, 64);
  EXPECT_EQ(found.layout.offsets, std::vector<int64_t>(4, 0));
}

TEST(ImproveArena, TakesHugeSizes) {
  const std::vector<Lifetime> too_large = {{std::numeric_limits<int64_t>::max(), 0, 1}, {64, 0, 1}};
  const ArenaSearch nowhere = Search(too_large, 1000);
  EXPECT_EQ(nowhere.layout.bytes, kArenaBytesMax);
  EXPECT_FALSE(nowhere.is_least);
  EXPECT_EQ(nowhere.steps, 0u);
  std::mt19937 random(5);
  auto lifetimes = RandomLifetimes(random, 40, 1000, 20, 8);
  for (Lifetime& lifetime : lifetimes) lifetime.bytes *= kArenaBytesMax / 64'000;
  const ArenaSearch found = Search(lifetimes, 20'000);
  ExpectLayout(lifetimes, found.layout, kArenaAlignment);
  EXPECT_LE(found.layout.bytes, SolveArena(lifetimes).bytes);
}

TEST(ImproveArena, LeavesVeryManyBuffersAsTheyAre) {
  std::mt19937 random(9);
  const auto lifetimes = RandomLifetimes(random, kArenaSearchBuffersMax + 1, 1000, 2000, 9);
  const ArenaSearch found = Search(lifetimes, 1000);
  EXPECT_EQ(found.layout.offsets, SolveArena(lifetimes).offsets);
  EXPECT_EQ(found.steps, 0u);
}

TEST(ImproveArena, RecursesOnceForEachBuffer) {
  // One part as long as buffers remain.
  std::vector<Lifetime> lifetimes;
  for (uint32_t i = 0; i < kArenaSearchBuffersMax; ++i) lifetimes.push_back({64 + 64 * (i * 7919 % 13), i, i + 3});
  const ArenaSearch found = Search(lifetimes, 6000);
  ExpectLayout(lifetimes, found.layout, kArenaAlignment);
}

}  // namespace
}  // namespace ingot::kernels
