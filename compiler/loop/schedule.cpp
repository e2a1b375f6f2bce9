// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {

std::string Print(const Schedule& schedule) {
  if (schedule.contractions.empty()) return {};
  std::string text = fmt::format("tile i {}, j {}", schedule.row_tile,
                                 schedule.column_tile == 0 ? "all" : std::to_string(schedule.column_tile));
  for (size_t i = 0; i < schedule.contractions.size(); ++i) {
    const ContractionSchedule& one = schedule.contractions[i];
    text += fmt::format("; contract {}: lanes {}, registers {}x{}, depth {}", i,
                        one.lanes == ContractionSchedule::Lanes::kDepth ? 'k' : 'j', one.rows, one.columns,
                        one.depth == 0 ? "all" : std::to_string(one.depth));
  }
  return text;
}

bool MayTileColumns(const Kernel& kernel) {
  const Dim* extent = nullptr;
  for (const Block& block : kernel.blocks) {
    if (!block.is_loop) continue;
    if (extent != nullptr && !(*extent == block.extent)) return false;
    extent = &block.extent;
    const auto folds = [&](Id id) { return IsReduce(kernel.insts[id].op); };
    if (!block.is_contraction() && std::ranges::any_of(block.insts, folds)) return false;
  }
  return extent != nullptr;
}

}  // namespace ingot::compiler::loop
