// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/launch_shape.h"

#include <algorithm>

#include "compiler/loop/text.h"

namespace ingot::compiler {

using guards::Dim;

std::string SymbolOf(const loop::Kernel& kernel) {
  constexpr size_t kDigits = 16;
  return "ingot_k_" + loop::KernelDigest(kernel).ToHex().substr(0, kDigits);
}

int64_t LaunchShape::Tasks(std::span<const int64_t> symbols) const {
  int64_t count = tasks.Eval(symbols);
  for (const Tiled& one : tiled) count *= (one.extent.Eval(symbols) + one.tile - 1) / one.tile;
  return count;
}

LaunchShape ShapeOf(const loop::Kernel& kernel, const loop::Schedule& schedule) {
  LaunchShape shape;
  int64_t height = schedule.row_tile;
  for (const loop::TaskAxis& axis : loop::TaskAxes(kernel, schedule)) {
    if (axis.of == loop::TaskAxis::Of::kOuter) {
      shape.tasks = axis.extent;
      continue;
    }
    shape.tiled.push_back({axis.extent, axis.tile});
    const bool is_rows = axis.of == loop::TaskAxis::Of::kRows;
    if (is_rows && axis.extent.is_const()) height = std::min(height, axis.extent.const_value());
  }
  const bool tiles_columns = schedule.column_tile != 0;
  // Products work on what is in the cache once the first rows have been there.
  constexpr int64_t kRowsOfOnePass = 8;
  const int64_t passes = (height + kRowsOfOnePass - 1) / kRowsOfOnePass;
  for (const loop::Block& block : kernel.blocks) {
    const Dim columns = !block.is_loop ? Dim(1) : tiles_columns ? Dim(schedule.column_tile) : block.extent;
    Dim elements = block.is_contraction() ? columns * block.Depth() * Dim(passes) : columns;
    if (schedule.contractions.empty()) elements = elements * Dim(height);
    shape.task_elements = shape.task_elements + elements;
  }
  return shape;
}

}  // namespace ingot::compiler
