// SPDX-License-Identifier: Apache-2.0
//
// What stands for tile registers in the tests of the code that uses them.
#include "tests/support/compiler/tile_emulator.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>

namespace ingot::compiler::x86 {
namespace {

using testing::ElementsAre;

/// What the emulator does with one row and column of factors.
TEST(TileEmulator, TakesDenormalsForZeroAndRoundsEachProduct) {
  const TileFunctions& tiles = TileEmulator::Functions();
  std::array<uint8_t, 64> configuration = {1};
  for (size_t tile = 0; tile < 3; ++tile) {
    configuration[16 + 2 * tile] = 4;
    configuration[48 + tile] = 1;
  }
  const auto bits = [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); };
  const auto product = [&](std::array<float, 2> a, std::array<float, 2> b, float before) {
    const std::array<uint16_t, 2> left = {bits(a[0]), bits(a[1])}, right = {bits(b[0]), bits(b[1])};
    tiles.configure(configuration.data());
    tiles.load(0, &before, 4);
    tiles.load(1, left.data(), 4);
    tiles.load(2, right.data(), 4);
    tiles.multiply(static_cast<int32_t>(TileProduct::kBF16), 0, 1, 2);
    tiles.store(0, &before, 4);
    tiles.release();
    return before;
  };
  EXPECT_EQ(product({2, 3}, {5, 7}, 1), 32);
  EXPECT_EQ(product({0x1p-130F, 1}, {1, 2}, 0), 2) << "a denormal factor";
  EXPECT_EQ(product({0x1p-100F, 0}, {0x1p-40F, 0}, 0), 0) << "a denormal product";
  EXPECT_EQ(product({1, 0}, {1, 0}, 0x1p-130F), 1) << "a denormal sum";
  EXPECT_EQ(product({1, 0}, {1, 0}, 0x1p24F), 0x1p24F) << "a tie, to even";
  EXPECT_THAT(TileEmulator::TakeMisuse(), testing::IsEmpty());
}

TEST(TileEmulator, NotesWhatFaults) {
  const TileFunctions& tiles = TileEmulator::Functions();
  std::array<uint8_t, 64> memory = {}, configuration = {1};
  const auto set = [&](size_t tile, uint8_t rows, uint8_t bytes) {
    configuration[16 + 2 * tile] = bytes;
    configuration[48 + tile] = rows;
  };
  tiles.zero(0);
  EXPECT_THAT(TileEmulator::TakeMisuse(), ElementsAre("no configuration"));
  set(0, 17, 64);
  tiles.configure(configuration.data());
  EXPECT_THAT(TileEmulator::TakeMisuse(), ElementsAre("a register of another shape than there is"));
  set(0, 16, 64);
  set(1, 16, 64);
  set(2, 15, 64);
  configuration[5] = 1;
  tiles.configure(configuration.data());
  EXPECT_THAT(TileEmulator::TakeMisuse(), ElementsAre("a configuration that faults"));
  configuration[5] = 0;
  tiles.configure(configuration.data());
  tiles.load(8, memory.data(), 64);
  tiles.zero(3);
  tiles.multiply(0, 0, 1, 2);
  tiles.multiply(0, 0, 1, 1);
  EXPECT_THAT(TileEmulator::TakeMisuse(), ElementsAre("no such register", "a register that was not configured",
                                                      "registers whose shapes do not fit", "one register twice"));
  tiles.release();
  tiles.store(0, memory.data(), 64);
  EXPECT_THAT(TileEmulator::TakeMisuse(), ElementsAre("no configuration"));
}

}  // namespace
}  // namespace ingot::compiler::x86
