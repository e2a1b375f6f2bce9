// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/schedules.h"

#include "compiler/targets/x86/lane_order.h"

#include <algorithm>

namespace ingot::compiler::x86 {

loop::Schedule ScheduleOf(const loop::Kernel& kernel, const VectorUnit& unit) {
  loop::Schedule schedule;
  if (FoldsColumns(kernel)) {
    schedule.row_lanes = RowLanes(kernel, unit);
    return schedule;
  }
  for (const loop::Block& block : kernel.blocks) {
    if (block.is_loop && !block.is_contraction()) schedule.loops.push_back(WidthsOf(kernel, block, unit));
  }
  if (std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) {
    AddTiles(kernel, unit, schedule);
  } else {
    AddSquares(kernel, unit, schedule);
  }
  return schedule;
}

guards::Dims LaneExtents(const loop::Kernel& kernel) {
  if (FoldsColumns(kernel)) return {kernel.rows.back()};
  guards::Dims extents;
  if (std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) {
    if (!kernel.rows.empty()) extents.push_back(kernel.rows.back());
    return extents;
  }
  for (const loop::Block& block : kernel.blocks) {
    if (block.is_loop) extents.push_back(block.extent);
  }
  return extents;
}

guards::Dim RowBufferBytes(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                           const VectorUnit& unit) {
  const auto size = static_cast<int64_t>(SizeOf(kernel.row_buffers[row_buffer].dtype));
  if (schedule.is_tiled()) {
    const TileBuffer tile = TileBufferOf(kernel, schedule, row_buffer, unit);
    return tile.columns * guards::Dim(tile.rows * size);
  }
  const int64_t rows = std::max(1U, schedule.row_lanes);
  const guards::Dim padding(RowBufferPadding(kernel, schedule, row_buffer, unit));
  return (kernel.row_buffers[row_buffer].extent + padding) * guards::Dim(rows * size);
}

}  // namespace ingot::compiler::x86
