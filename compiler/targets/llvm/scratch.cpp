// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/scratch.h"

#include <algorithm>

#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/llvm/in_output.h"
#include "compiler/targets/llvm/lane_order.h"
#include "compiler/targets/llvm/transpose.h"

namespace ingot::compiler::x86 {
namespace {

using guards::Dim;

Dim RowBufferBytes(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                   const VectorUnit& unit) {
  const auto size = static_cast<int64_t>(SizeOf(kernel.row_buffers[row_buffer].dtype));
  if (schedule.is_tiled()) {
    const TileBuffer tile = TileBufferOf(kernel, schedule, row_buffer, unit);
    return tile.columns * Dim(tile.rows * size);
  }
  const int64_t rows = std::max(1U, schedule.row_lanes);
  const Dim padding(RowBufferPadding(kernel, schedule, row_buffer, unit));
  return (kernel.row_buffers[row_buffer].extent + padding) * Dim(rows * size);
}

/// Rounding up is no polynomial: a symbolic extent counts with the most it can add.
Dim InLines(const Dim& bytes) {
  return bytes.is_const() ? Dim((bytes.const_value() + 63) & ~int64_t{63}) : bytes + Dim(63);
}

}  // namespace

Dim Scratch::Bytes() const {
  Dim sum;
  for (const Dim& bytes : row_buffers) sum = sum + InLines(bytes);
  for (const Dim& bytes : panels) sum = sum + InLines(bytes);
  for (const int64_t bytes : squares) sum = sum + Dim(bytes);
  return sum;
}

Scratch ScratchOf(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit) {
  Scratch scratch;
  const std::vector<loop::Id> in_outputs = RowBuffersInOutputs(kernel, schedule);
  for (uint32_t b = 0; b < kernel.row_buffers.size(); ++b) {
    scratch.row_buffers.push_back(in_outputs[b] == loop::kNone ? RowBufferBytes(kernel, schedule, b, unit) : Dim(0));
  }
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_contraction()) continue;
    const loop::ContractionSchedule& tile = schedule.contractions[scratch.panels.size()];
    scratch.panels.push_back(PanelBytes(kernel, block, tile, schedule, unit));
  }
  for (const loop::Id access : schedule.transposed) {
    scratch.squares.push_back(TransposeBytes(kernel, schedule, access));
  }
  return scratch;
}

}  // namespace ingot::compiler::x86
