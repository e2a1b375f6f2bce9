// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/transpose.h"

#include <algorithm>
#include <bit>

#include "compiler/loop/ops.h"

namespace ingot::compiler::x86 {
namespace {

// Rows and columns of a task: whole lines on both sides, and all of it stays in the first cache.
constexpr int64_t kTile = 64;
// Shorter sides are as fast element by element.
constexpr int64_t kSideMin = 4;
// More lanes need more registers than there are.
constexpr unsigned kSideMax = 32;

/// The extent where it is known to be less than a tile, else the tile.
int64_t TileOf(const guards::Dim& extent) {
  return extent.is_const() ? std::clamp<int64_t>(extent.const_value(), 1, kTile) : kTile;
}

}  // namespace

std::vector<loop::Id> TransposedIn(const loop::Kernel& kernel) {
  std::vector<loop::Id> found;
  if (kernel.rows.empty() || !loop::MayTileColumns(kernel)) return found;
  if (std::min(TileOf(kernel.rows.back()), TileOf(loop::ColumnsOf(kernel))) < kSideMin) return found;
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_loop || block.is_contraction()) continue;
    for (const loop::Id id : block.insts) {
      if (loop::MayTranspose(kernel, id)) found.push_back(id);
    }
  }
  return found;
}

void AddTransposes(const loop::Kernel& kernel, const VectorUnit& unit, loop::Schedule& schedule) {
  if (!kernel.row_buffers.empty()) return;
  schedule.transposed = TransposedIn(kernel);
  if (schedule.transposed.empty()) return;
  const int64_t rows = TileOf(kernel.rows.back()), columns = TileOf(loop::ColumnsOf(kernel));
  schedule.row_tile = rows;
  const auto step = static_cast<int64_t>(unit.bytes);
  schedule.column_tile = std::min(kTile, (columns + step - 1) / step * step);
}

unsigned TransposeBlockSide(const loop::Kernel& kernel, const loop::Schedule& schedule, loop::Id access,
                            const VectorUnit& unit) {
  const auto lanes = unit.bytes / static_cast<unsigned>(guards::SizeOf(kernel.insts[access].dtype));
  const auto tile = static_cast<unsigned>(std::min(schedule.row_tile, schedule.column_tile));
  return std::min({lanes, kSideMax, std::bit_floor(tile)});
}

int64_t TransposeBytes(const loop::Kernel& kernel, const loop::Schedule& schedule, loop::Id access) {
  constexpr int64_t kLine = 64;
  const auto size = static_cast<int64_t>(guards::SizeOf(kernel.insts[access].dtype));
  return (schedule.rows_per_batch() * schedule.column_tile * size + kLine - 1) / kLine * kLine;
}

}  // namespace ingot::compiler::x86
