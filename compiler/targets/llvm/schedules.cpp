// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/schedules.h"

#include "compiler/targets/llvm/lane_order.h"

#include <algorithm>

namespace ingot::compiler::x86 {

loop::Schedule ScheduleOf(const loop::Kernel& kernel, const VectorUnit& unit) {
  loop::Schedule schedule;
  if (ReducesColumns(kernel)) {
    schedule.row_lanes = RowLanes(kernel, unit);
    return schedule;
  }
  for (const loop::Block& block : kernel.blocks) {
    if (block.is_loop && !block.is_contraction()) schedule.loops.push_back(WidthsOf(kernel, block, unit));
  }
  if (std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) {
    AddTiles(kernel, unit, schedule);
  } else {
    AddTransposes(kernel, unit, schedule);
  }
  return schedule;
}

guards::Dims LaneExtents(const loop::Kernel& kernel) {
  if (ReducesColumns(kernel)) return {kernel.rows.back()};
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

}  // namespace ingot::compiler::x86
