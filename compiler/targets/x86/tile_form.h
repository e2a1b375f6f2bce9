// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"
#include "compiler/targets/x86/tile_functions.h"

namespace ingot::compiler::x86 {

/// A contraction as tile registers compute it: sums of products of narrow elements, which are scaled as a whole.
struct TileForm {
  TileProduct product = TileProduct::kBF16;
  size_t lane_depth = 0;  ///< the number of the k along a row of a tile
  bool right_lies_along_depth = true;  ///< what is multiplied of the right operand lies side by side along that k
  /// What is multiplied, with the narrow type it is held in: bf16, or f32 that bf16 holds exactly; i8 or u8.
  loop::Id left = loop::kNone, right = loop::kNone;
  /// Factors of the operands that are the same along that k.
  std::vector<loop::Id> left_scales, right_scales;
  /// One bit for each k that a scale depends on.
  unsigned scale_depths = 0;

  /// Elements along k that share 32 bits.
  unsigned together() const { return product == TileProduct::kBF16 ? 2 : 4; }
  /// Elements along k of a row of a tile.
  int64_t steps() const { return int64_t{16} * together(); }
  bool has_scales() const { return !left_scales.empty() || !right_scales.empty(); }
};

/// nullopt: the unit has no tile registers for such operands, or they hold more than narrow types do, whose rounding
/// nobody asked for.
std::optional<TileForm> TileFormOf(const loop::Kernel& kernel, const loop::Block& block,
                                   const loop::Contraction& contraction, const VectorUnit& unit);

/// Steps of the k along a tile's rows, of several k: each value of the others begins with a tile of its own.
int64_t PaddedLanes(const loop::Block& block, const TileForm& form);

/// Memory of the columns that are packed together.
struct TilePanel {
  int64_t lines = 0;       ///< 32 bits for each column
  int64_t scales = 0;      ///< f32 for each column
  int64_t line_bytes = 0;  ///< of either
  int64_t scales_at() const { return lines * line_bytes; }
  int64_t bytes() const { return (lines + scales) * line_bytes; }
};
TilePanel TilePanelOf(const loop::Block& block, const TileForm& form, const loop::ContractionSchedule& tile);

/// Whether bf16 holds every value that an instruction of f32, or of a narrower float, can have.
bool FitsBF16(const loop::Kernel& kernel, loop::Id id);

}  // namespace ingot::compiler::x86
