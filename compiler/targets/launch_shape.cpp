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
  std::span<const Dim> rows = kernel.rows;
  const bool tiles_rows = schedule.is_tiled() && !rows.empty();
  int64_t height = schedule.row_tile;
  if (tiles_rows) {
    const Dim tiled = loop::TiledRows(kernel, schedule);
    shape.tiled.push_back({tiled, schedule.row_tile});
    if (tiled.is_const()) height = std::min(height, tiled.const_value());
    rows = rows.first(rows.size() - schedule.row_dims);
  }
  shape.tasks = guards::Product(rows);
  const bool tiles_columns = schedule.column_tile != 0;
  if (tiles_columns) shape.tiled.push_back({loop::ColumnsOf(kernel), schedule.column_tile});
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
