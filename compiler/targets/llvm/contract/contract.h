// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/llvm/kernel_lowering.h"
#include "compiler/targets/x86/tile_form.h"

namespace ingot::compiler::x86 {

/// One row of the left operand, or one column of the right one.
struct KernelLowering::Line {
  Value* at = nullptr;            ///< its number
  std::vector<Value*> loads;      ///< of each load, its address where every k is 0
  unsigned ahead = 0;             ///< columns from `at` on to the first lane
  std::vector<Value*> rows = {};  ///< of a row, all row variables
};

/// An operand as a product: `outer` is the same along the lanes and unrolled steps of k, `inner` is the rest.
struct KernelLowering::Factors {
  std::vector<loop::Id> inner, outer;
};

/// One contraction while it is lowered.
struct KernelLowering::Contract {
  const loop::Block& block;
  loop::ContractionSchedule tile;
  loop::Contraction form;
  bool is_packed = false;         ///< vectors run along j, of columns that were packed
  unsigned lanes = 1;             ///< elements of the sum in a register
  unsigned step = 1;              ///< of the k along the lanes, for one round; of tiles, for 32 bits
  Pairs pairs = Pairs::kNone;     ///< how products are added up
  std::vector<Value*> left_at;    ///< of each load, its address at row 0 where every k is 0
  std::vector<Value*> right_at;   ///< the same at column 0
  Value* into = nullptr;          ///< address of the task's first row and column
  Value* into_stride = nullptr;   ///< elements from row to row
  /// Columns that were packed: those of a register tile for one k, then the next. Of columns in turn: the decoded
  /// rows of the task, one after the other, the k along the lanes innermost; null where they lie so in memory.
  Value* panel = nullptr;
  Value* decoded = nullptr;  ///< the rows of the task that were decoded first, for a piece of k
  Value* decoded_stride = nullptr;  ///< elements from row to row of these
  std::optional<TileForm> tiles = {};  ///< the way of tile registers
  Value* scales = nullptr;  ///< behind the panel: of its columns, for each k that is not along the lanes
  Factors left = {}, right = {};
  std::vector<Value*> ks = {};  ///< each k as it is now; null: 0
  // Of a block with an active range: what some row of the task needs of j or k, and what some row of the register tile
  // does.
  std::pair<Value*, Value*> of_task = {}, of_rows = {};
  bool bounds_columns() const { return block.has_active_range() && !block.active_range.of_depth; }
  bool bounds_depth() const { return block.has_active_range() && block.active_range.of_depth; }
  Value* piece = nullptr;  ///< the panel of the piece at hand, by windows
  Value* is_new = nullptr;  ///< whether its columns are packed now; null: always
};

}  // namespace ingot::compiler::x86
