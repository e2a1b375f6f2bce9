// SPDX-License-Identifier: Apache-2.0
#include "kernels/arena_offsets.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace ingot::kernels {
namespace {

void ExpectSound(const std::vector<Lifetime>& lifetimes, const ArenaLayout& layout) {
  ASSERT_EQ(layout.offsets.size(), lifetimes.size());
  EXPECT_GE(layout.bytes, layout.bytes_min);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % 64, 0);
    EXPECT_GE(layout.offsets[i], 0);
    EXPECT_LE(layout.offsets[i] + lifetimes[i].bytes, layout.bytes);
    for (size_t k = 0; k < i; ++k) {
      const bool together = lifetimes[i].first <= lifetimes[k].last && lifetimes[k].first <= lifetimes[i].last;
      const bool overlap = layout.offsets[i] < layout.offsets[k] + lifetimes[k].bytes &&
                           layout.offsets[k] < layout.offsets[i] + lifetimes[i].bytes;
      EXPECT_FALSE(together && overlap && lifetimes[i].bytes > 0 && lifetimes[k].bytes > 0)
          << "buffers " << k << " and " << i;
    }
  }
}

TEST(SolveArena, GivesNothingToNobody) {
  const ArenaLayout layout = SolveArena({});
  EXPECT_EQ(layout.bytes, 0);
  EXPECT_EQ(layout.bytes_min, 0);
}

TEST(SolveArena, ReusesMemoryOfABufferThatDied) {
  const std::vector<Lifetime> lifetimes = {{1024, 0, 1}, {1024, 2, 3}};
  const ArenaLayout layout = SolveArena(lifetimes);
  ExpectSound(lifetimes, layout);
  EXPECT_EQ(layout.bytes, 1024);
}

TEST(SolveArena, SeparatesBuffersThatMeetAtOneStep) {
  const std::vector<Lifetime> lifetimes = {{100, 0, 1}, {100, 1, 2}};
  const ArenaLayout layout = SolveArena(lifetimes);
  ExpectSound(lifetimes, layout);
  EXPECT_EQ(layout.bytes, 256);
  EXPECT_EQ(layout.bytes_min, 256);
}

TEST(SolveArena, TakesTheTighterOfTwoGaps) {
  // Three pillars live throughout leave gaps when the two buffers between them have died.
  const std::vector<Lifetime> lifetimes = {{640, 0, 9}, {512, 0, 4}, {576, 0, 9},
                                           {128, 0, 4}, {128, 5, 9}, {512, 5, 9}};
  const ArenaLayout layout = SolveArena(lifetimes);
  ExpectSound(lifetimes, layout);
  EXPECT_EQ(layout.bytes, layout.bytes_min);
}

TEST(SolveArena, IgnoresEmptyBuffers) {
  const std::vector<Lifetime> lifetimes = {{0, 0, 5}, {-8, 0, 5}, {64, 0, 5}};
  const ArenaLayout layout = SolveArena(lifetimes);
  EXPECT_EQ(layout.bytes, 64);
  EXPECT_EQ(layout.bytes_min, 64);
}

TEST(SolveArena, IsSoundAndRepeatableOnRandomLifetimes) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Lifetime> lifetimes(random() % 60);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = random() % 5000;
      lifetime.first = random() % 40;
      lifetime.last = lifetime.first + random() % 10;
    }
    const ArenaLayout layout = SolveArena(lifetimes);
    ExpectSound(lifetimes, layout);
    EXPECT_EQ(layout.offsets, SolveArena(lifetimes).offsets);
    EXPECT_LE(layout.bytes, 2 * layout.bytes_min);
  }
}

TEST(SolveArena, WastesNothingOnALineOfTransformerBlocks) {
  // Residuals that overlap in pairs, and a wide buffer amid each block: no greedy order finds the least layout.
  const std::vector<Lifetime> block = {{384, 0, 4}, {384, 0, 1}, {1152, 1, 2}, {384, 2, 3}, {384, 3, 4},
                                       {384, 4, 7}, {384, 4, 5}, {1536, 5, 6}, {384, 6, 7}};
  std::vector<Lifetime> lifetimes;
  for (uint32_t layer = 0; layer < 48; ++layer) {
    for (const Lifetime& buffer : block) {
      lifetimes.push_back({buffer.bytes, 7 * layer + buffer.first, 7 * layer + buffer.last});
    }
  }
  const ArenaLayout layout = SolveArena(lifetimes);
  ExpectSound(lifetimes, layout);
  EXPECT_EQ(layout.bytes, layout.bytes_min);
}

TEST(SolveArena, TakesALastBeforeItsFirstForTheFirst) {
  const std::vector<Lifetime> lifetimes = {{64, 5, 3}, {64, 5, 5}, {64, 3, 4}};
  const ArenaLayout layout = SolveArena(lifetimes);
  EXPECT_NE(layout.offsets[0], layout.offsets[1]);
  EXPECT_EQ(layout.bytes, 128);
}

TEST(SolveArena, AlignsAsAsked) {
  const std::vector<Lifetime> lifetimes = {{3, 0, 1}, {5, 0, 1}};
  EXPECT_EQ(SolveArena(lifetimes, 1).bytes, 8);
  EXPECT_EQ(SolveArena(lifetimes, 4).bytes, 12);
  EXPECT_EQ(SolveArena(lifetimes).bytes, 128);
}

TEST(SolveArena, DoesNotPlaceMoreThanAnyMachineHolds) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  for (const std::vector<Lifetime>& lifetimes :
       {std::vector<Lifetime>{{huge, 0, 1}}, {{huge, 0, 1}, {huge, 0, 1}, {64, 0, 1}}, {{kArenaBytesMax, 0, 0}}}) {
    const ArenaLayout layout = SolveArena(lifetimes);
    EXPECT_EQ(layout.bytes, kArenaBytesMax);
    EXPECT_EQ(layout.bytes_min, kArenaBytesMax);
    EXPECT_EQ(layout.offsets, std::vector<int64_t>(lifetimes.size(), 0));
  }
  const std::vector<Lifetime> large = {{kArenaBytesMax / 4, 0, 1}, {kArenaBytesMax / 4, 1, 2}, {64, 0, 9}};
  ExpectSound(large, SolveArena(large));
  EXPECT_EQ(SolveArena(large).bytes, kArenaBytesMax / 2 + 64);
}

TEST(SolveArena, KnowsStepsUpToTheLast) {
  const uint32_t end = std::numeric_limits<uint32_t>::max();
  const std::vector<Lifetime> lifetimes = {{64, 0, end}, {64, end, end}, {64, 0, end - 1}};
  const ArenaLayout layout = SolveArena(lifetimes);
  ExpectSound(lifetimes, layout);
  EXPECT_EQ(layout.bytes, 128);
}

std::vector<uint64_t> OffsetsOf(const ArenaLayout& layout) { return {layout.offsets.begin(), layout.offsets.end()}; }

TEST(IsArenaLayout, TakesWhatIsSolvedAndNothingThatOverlaps) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  size_t refused = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 12; ++i) {
      const auto first = static_cast<uint32_t>(draw(0, 9));
      lifetimes.push_back({draw(-1, 500), first, first + static_cast<uint32_t>(draw(0, 4))});
    }
    const ArenaLayout layout = SolveArena(lifetimes);
    EXPECT_EQ(LiveBytesMax(lifetimes), layout.bytes_min);
    std::vector<uint64_t> offsets = OffsetsOf(layout);
    const auto bytes = static_cast<uint64_t>(layout.bytes);
    EXPECT_TRUE(IsArenaLayout(lifetimes, offsets, bytes));
    // Somewhere else: as all pairs of buffers say.
    const auto moved = static_cast<size_t>(draw(0, 11));
    offsets[moved] = static_cast<uint64_t>(draw(0, 12)) * 64;
    bool is_sound = true;
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      if (lifetimes[i].bytes <= 0) continue;
      is_sound &= offsets[i] + static_cast<uint64_t>(lifetimes[i].bytes) <= bytes;
      for (size_t k = 0; k < i; ++k) {
        if (lifetimes[k].bytes <= 0) continue;
        const bool meet = lifetimes[i].first <= lifetimes[k].last && lifetimes[k].first <= lifetimes[i].last;
        is_sound &= !meet || offsets[i] >= offsets[k] + static_cast<uint64_t>(lifetimes[k].bytes) ||
                    offsets[k] >= offsets[i] + static_cast<uint64_t>(lifetimes[i].bytes);
      }
    }
    EXPECT_EQ(IsArenaLayout(lifetimes, offsets, bytes), is_sound);
    refused += !is_sound;
  }
  EXPECT_GT(refused, 50u);
  EXPECT_LT(refused, 190u);
}

TEST(IsArenaLayout, RefusesWhatLeavesTheArena) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 0, 1}};
  const auto is_layout = [&](std::vector<uint64_t> offsets, uint64_t bytes) {
    return IsArenaLayout(lifetimes, offsets, bytes);
  };
  EXPECT_TRUE(is_layout({0, 64}, 128));
  EXPECT_TRUE(is_layout({64, 0}, 128));
  EXPECT_FALSE(is_layout({0, 64}, 127));
  EXPECT_FALSE(is_layout({0, 96}, 256)) << "not aligned";
  EXPECT_FALSE(is_layout({0}, 128));
  EXPECT_FALSE(is_layout({0, 64, 128}, 256));
  EXPECT_FALSE(is_layout({0, uint64_t{0} - 64}, 128));
  EXPECT_FALSE(is_layout({0, uint64_t{0} - 64}, uint64_t{0} - 1)) << "no machine has so much";
  EXPECT_FALSE(is_layout({0, 64}, 0));
}

}  // namespace
}  // namespace ingot::kernels
