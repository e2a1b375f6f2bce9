// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/codegen/lower_kernel.h"
#include "compiler/loop/schedule.h"

namespace ingot::compiler::codegen {

/// Register tiles, cache blocks and tasks of a kernel with contractions; nothing for other kernels.
/// Depends on the kernel and the unit alone.
loop::Schedule ScheduleOf(const loop::Kernel& kernel, const VectorUnit& unit);

/// Memory of a row buffer under a schedule that tiles rows and columns.
struct TileBuffer {
  guards::Dim columns;    ///< elements from row to row; registers that reach beyond the last column included
  int64_t rows = 1;
};
TileBuffer TileBufferOf(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                        const VectorUnit& unit);

/// The same in bytes, not rounded.
guards::Dim TileBytes(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                      const VectorUnit& unit);

}  // namespace ingot::compiler::codegen
