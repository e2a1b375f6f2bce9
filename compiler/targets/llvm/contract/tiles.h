// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Products that are added up in pairs, along k: of bf16 by one instruction, and of i16, to which narrower integers are
/// widened. Sums of integers are exact.
enum class Pairs : uint8_t { kNone, kBF16, kI16 };
Pairs PairsOf(const loop::Kernel& kernel, const loop::Contraction& contraction, const VectorUnit& unit);

/// Rows that tile registers are worth their while for.
constexpr int64_t kTileRowsMin = 16;

/// Adds register tiles, cache blocks and tasks to the schedule of a kernel with contractions.
void AddTiles(const loop::Kernel& kernel, const VectorUnit& unit, loop::Schedule& schedule);

/// Other tiles for the schedule that AddTiles has made, which may be faster on some machine: how many rows and columns
/// registers and tasks have. The order of additions stays.
std::vector<loop::Schedule> OtherTiles(const loop::Kernel& kernel, const VectorUnit& unit, const loop::Schedule& first);

/// As PairsOf, of columns that are packed: a pair is one element then, so the depth must be known and even.
Pairs PackedPairsOf(const loop::Kernel& kernel, const loop::Contraction& contraction, const VectorUnit& unit);

/// Bytes of the columns that are packed together, or of a row that columns in turn read; 0 where there are
/// neither.
guards::Dim PanelBytes(const loop::Kernel& kernel, const loop::Block& block, const loop::ContractionSchedule& tile,
                       const loop::Schedule& schedule, const VectorUnit& unit);

/// Elements from row to row of those that are decoded first; they lie behind the panel of columns.
guards::Dim DecodedSteps(const loop::Block& block, const loop::ContractionSchedule& tile, const VectorUnit& unit);

/// Memory of a row buffer under a schedule that tiles rows and columns.
struct TileBuffer {
  guards::Dim columns;  ///< elements from row to row; registers that reach beyond the last column included
  int64_t rows = 1;
};
TileBuffer TileBufferOf(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                        const VectorUnit& unit);

}  // namespace ingot::compiler::x86
