// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// How one loop over j runs: elements in a vector, vectors side by side.
struct LoopSchedule {
  unsigned lanes = 1;
  unsigned unroll = 1;
  bool operator==(const LoopSchedule&) const = default;
};

/// How one contraction is computed: what registers hold, and how much of it at a time.
struct ContractionSchedule {
  /// Which variable runs along the lanes of a vector.
  enum class Lanes : uint8_t {
    kDepth,    ///< a k: both operands are vectors, and each element of the result is folded at the end
    kColumns,  ///< j: one element of the left operand goes with a vector of the right one
  };
  Lanes lanes = Lanes::kDepth;
  unsigned rows = 1;      ///< of the result, kept in registers together
  unsigned columns = 1;   ///< the same, in elements (kDepth) or in vectors (kColumns)
  int64_t depth = 0;      ///< steps of k before the next columns have their turn; 0 = all
  unsigned lane_depth = 0;  ///< kDepth: the number of the k along the lanes
  /// One bit for each k whose few steps are taken side by side, on what was read once. The others are loops, the one
  /// along the lanes innermost.
  unsigned unrolled = 0;
  unsigned streamed_columns =
      0;     ///< kDepth: so many columns are read to their end before the next are; 0: the tile's are
  bool unrolls(size_t depth) const { return (unrolled >> depth & 1U) != 0; }

  /// The way of many rows: columns of the right operand are decoded into a dense panel, those of a register tile at a
  /// time, packed where they lie along k, and vectors run along j.
  struct Packing {
    int64_t from = 0;  ///< TiledRows of a kernel that goes this way, at least; 0 = none does
    unsigned rows = 1, columns = 1;  ///< of a register tile, in elements and in vectors
    bool by_tiles = false;  ///< those are in registers that hold a tile each, and are multiplied as such
    int64_t depth = 0;  ///< steps of the k along the lanes that are packed at a time; 0 = all
    bool gathers = false;  ///< windows: what a register tile of rows reads is laid side by side first
    bool packs_a = false;  ///< so are all rows of a task, for each piece of k: their elements take steps to decode
    bool operator==(const Packing&) const = default;
  };
  Packing packing;
  bool operator==(const ContractionSchedule&) const = default;
};

/// How the loops of a kernel are walked: in which order and in which pieces, never what they compute.
struct Schedule {
  unsigned row_lanes = 0;  ///< vectors run along the last row dim, with so many lanes; 0: along j
  std::vector<LoopSchedule> loops;  ///< one for each loop that is no contraction, in the order of the blocks
  int64_t row_tile = 1;  ///< neighbouring points of the last row dims that one task computes
  size_t row_dims = 1;  ///< how many of the last row dims those points are counted over
  /// So many tasks at most that are neighbours along the rows are computed at once, by a thread that has them all: what
  /// they share is made for all of them, and each thread still has as many tasks as there are.
  int64_t tasks_per_batch = 1;
  int64_t column_tile = 0;  ///< values of j that one task computes; 0 = all
  std::vector<ContractionSchedule> contractions;  ///< one for each, in the order of the blocks
  std::vector<Id> transposed;  ///< accesses that MayTranspose; a task moves their elements by squares

  /// Rows, at most, that are computed at once.
  int64_t rows_per_batch() const { return row_tile * tasks_per_batch; }
  /// Whether tasks are tiles of rows and columns, as in kernels with contractions; otherwise they are rows.
  bool is_tiled() const { return !contractions.empty() || !transposed.empty(); }
  bool operator==(const Schedule&) const = default;
};

/// "tile i 64, j 48; contract 0: lanes k, registers 4x6, depth 1024; loop 0: lanes j 16, unroll 4".
std::string Print(const Schedule& schedule);

/// kInternal names what the schedule says that this kernel cannot be walked by.
Status Check(const Kernel& kernel, const Schedule& schedule);

/// Whether the columns of a kernel may be computed by different tasks: nothing is folded over j, and all
/// loops count the same columns.
bool MayTileColumns(const Kernel& kernel);

/// Whether what a load or store names lies side by side along the last row dim and apart along j, so that it can be
/// moved by squares of rows and columns: a plain access of a parameter that the kernel reads or writes alone.
bool MayTranspose(const Kernel& kernel, Id access);

/// The extent of the kernel's first loop: its columns.
Dim ColumnsOf(const Kernel& kernel);

/// What one task computes. Rows are counted over all row dims, as in Interpret.
struct Window {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  Columns columns = kAllColumns;
};

/// The rows that tiles are cut from: points of the last row dims.
Dim TiledRows(const Kernel& kernel, const Schedule& schedule);

/// One of the directions in which tasks are counted.
struct TaskAxis {
  enum class Of : uint8_t { kRows, kColumns, kOuter };
  Of of = Of::kOuter;
  Dim extent;  ///< TiledRows, ColumnsOf, or the product of the row dims that no tile is cut from
  int64_t tile = 1;  ///< so much of the extent is one task's; the axis has ceil(extent / tile) numbers
};
/// The order of tasks, the axis that is counted fastest first: tiles of the last row dims, so that what a tile of
/// columns reads of the right operand stays in the cache while all rows pass by; then tiles of columns; then the other
/// row dims, always the last axis and counted row-major. Without tiles those are all of them, and a task is a row.
std::vector<TaskAxis> TaskAxes(const Kernel& kernel, const Schedule& schedule);

/// What the task of this number computes.
Window WindowOf(const Kernel& kernel, const Schedule& schedule, std::span<const int64_t> symbols, int64_t task);

}  // namespace ingot::compiler::loop
