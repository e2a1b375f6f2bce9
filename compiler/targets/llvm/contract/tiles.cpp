// SPDX-License-Identifier: Apache-2.0
//
// How contractions are cut up. Registers hold a tile of the result; the panel of the right operand
// that goes with it (its columns by `depth`) stays in the first cache while the rows of the task
// pass by, and those stay in the second one.
#include "compiler/targets/llvm/contract/tiles.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "compiler/loop/contraction.h"
#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/contract/gathered_rows.h"
#include "compiler/targets/llvm/contract/packing.h"
#include "compiler/targets/llvm/contract/windows.h"
#include "compiler/targets/llvm/transpose.h"
#include "compiler/targets/x86/tile_form.h"

namespace ingot::compiler::x86 {

using Lanes = loop::ContractionSchedule::Lanes;

namespace {

// Of one row of a panel: eight of them and as many of the other side are half the first cache.
constexpr int64_t kDepthBytes = 4096;
// Of columns in turn, whose sums are four times as many: as many additions for each. What all rows of a register tile
// read meanwhile stays in the first cache.
constexpr int64_t kStreamedDepthBytes = 4 * kDepthBytes;
constexpr int64_t kStreamedRowBytes = 8 * kDepthBytes;
// Rows whose factors are read beside those of a column from memory: with more of them less of what comes late is
// hidden.
constexpr int64_t kStreamedRowsMax = 4;
// Rows of a task where there are many: they fill half the second cache.
constexpr int64_t kRowTile = 64;
// The same where columns are multiplied as they lie: they come from memory once for all of these.
constexpr int64_t kRowTileOfPlain = 128;
// Where each task packs what its rows share.
constexpr int64_t kPackedRowTile = 144;
// Of row buffers that hold all columns of each row of a task.
constexpr int64_t kBufferBytes = 256 << 10;
constexpr int64_t kTypicalColumns = 1024;
constexpr int64_t kColumnTile = 48;
// Few columns are shared out among threads in smaller pieces.
constexpr int64_t kNarrowColumns = 1536;
// The same of vectors along columns.
constexpr int64_t kShortColumns = 256;
// Of few rows: columns that are read once, from memory.
constexpr int64_t kColumnTileOfFewRows = 32;
constexpr int64_t kFewRows = 15;
// Rows of a matrix that are read side by side where a vector runs along them.
constexpr int64_t kStreams = 16;
constexpr int64_t kColumnBytesOfFewRows = 1024;
// Of tile registers: multiplying takes so little that packing must be shared by many rows, but for columns so few that
// threads share rows. By counting instructions, not measured.
constexpr int64_t kTileTaskRows = 512;
constexpr int64_t kTileTaskRowsOfNarrow = 256;
// What rows that are computed at once have for the depth of a panel, in f32: it stays in the second cache while the
// columns of a task pass by.
constexpr int64_t kRowBytesAtOnce = 288 << 10;
// The same of windows: tasks of many rows pack less often, tasks of few are more.
constexpr int64_t kWindowRowTile = 192;
// Columns that threads keep packed need no long tasks: what few rows make stays in the first cache.
constexpr int64_t kGatheredRowTile = 48;
// Steps of a k that are taken side by side, on what was read once: elements in one byte, mostly.
constexpr int64_t kUnrolledMax = 4;

/// Rows of the kernel's last dim; 0 where it is not known.
int64_t KnownRows(const loop::Kernel& kernel) {
  if (kernel.rows.empty()) return 1;
  return kernel.rows.back().is_const() ? std::max<int64_t>(1, kernel.rows.back().const_value()) : 0;
}

/// Rows of a task, at most, whose columns are packed.
int64_t PackedTaskRows(const loop::Block& block, const loop::ContractionSchedule& tile) {
  if (!tile.packing.by_tiles) return kPackedRowTile;
  const bool is_narrow = block.extent.is_const() && block.extent.const_value() <= kNarrowColumns;
  return is_narrow ? kTileTaskRowsOfNarrow : kTileTaskRows;
}

/// Vectors that run along the depth `lane_depth`. As with TileOf, `rows` are 0 where nobody knows them.
void TileAlongDepth(const loop::Kernel& kernel, const loop::Contraction& form, size_t lane_depth, int64_t rows,
                    bool is_wide, loop::ContractionSchedule& tile) {
  tile.lanes = Lanes::kDepth;
  tile.lane_depth = static_cast<unsigned>(lane_depth);
  size_t widest = 1;
  for (const loop::Id load : form.right.loads) widest = std::max(widest, SizeOf(kernel.insts[load].dtype));
  // Where all rows but a few are packed for, those few are read as few rows are.
  const bool leaves_few = tile.packing.from > 1 && tile.packing.from < kPlainPackedRowsMin;
  const bool is_few = rows != 0 && rows <= kFewRows;
  if (is_few || leaves_few) {
    const bool decodes = loop::PlainLoad(kernel, form.right) == loop::kNone;
    const int64_t most = decodes && is_wide && rows != 0 ? 2 * kStreamedRowsMax : kStreamedRowsMax;
    const int64_t groups = (rows + most - 1) / most;
    tile.rows = static_cast<unsigned>(rows == 0 ? most : (rows + groups - 1) / groups);
    tile.columns = 8;
    // Where memory is not what they wait for, two columns share what rows read.
    tile.streamed_columns = rows > kStreamedRowsMax || (decodes && tile.rows > 2) ? 2 : 1;
    tile.depth = std::min(kStreamedDepthBytes, kStreamedRowBytes / int64_t{tile.rows});
  } else {
    // As many sums as there are registers, less one row of factors and one more.
    tile.rows = static_cast<unsigned>(rows == 0 ? 4 : std::min<int64_t>(rows, 4));
    if (!is_wide) tile.rows = std::min(tile.rows, 3U);
    tile.columns = is_wide ? 6 : 4;
    // The columns of a task are whole register tiles of either way.
    if (is_wide && tile.packing.from > 1) std::tie(tile.rows, tile.columns) = std::pair(3U, 8U);
    tile.depth = kDepthBytes;
  }
  // Pieces are whole rounds of every way of reading.
  constexpr int64_t kWholeRounds = 128;
  tile.depth = tile.depth / static_cast<int64_t>(widest) / kWholeRounds * kWholeRounds;
}

/// Vectors that run along columns.
void TileAlongColumns(const loop::Block& block, const loop::Contraction& form, int64_t rows, const VectorUnit& unit,
                      loop::ContractionSchedule& tile) {
  const bool is_wide = unit.bytes == 64;
  tile.lanes = Lanes::kColumns;
  tile.columns = is_wide ? 4 : 2;
  int64_t most = is_wide ? 6 : 4;
  if (block.extent.is_const() && rows != 1) {
    const auto lanes = static_cast<int64_t>(unit.bytes / SizeOf(form.sum));
    const int64_t vectors = (block.extent.const_value() + lanes - 1) / lanes;
    // Wide sums count twice, see below.
    const int64_t all = form.sum == guards::DType::kF64 ? 2 * vectors : vectors;
    tile.columns = static_cast<unsigned>(std::clamp<int64_t>(all, 1, tile.columns));
    // As many sums as hide the time that one takes.
    if (tile.columns == 1 && is_wide) most = 8;
  }
  tile.rows = static_cast<unsigned>(rows == 0 ? most : std::min(rows, most));
  tile.depth = rows == 1 ? kStreams : rows != 0 && rows < 4 ? 0 : 128;
}

/// The depths, as bits, whose steps are taken side by side.
unsigned UnrolledOf(const loop::Kernel& kernel, const loop::Block& block, const loop::Contraction& form,
                    std::optional<size_t> depth_of_lanes) {
  unsigned unrolled = 0;
  for (size_t k = 0; k < block.depths.size(); ++k) {
    if (depth_of_lanes == k || !block.depths[k].is_const()) continue;
    const int64_t extent = block.depths[k].const_value();
    const bool shares = std::ranges::any_of(form.right.loads, [&](loop::Id load) {
      const guards::Dims& coefs = kernel.insts[load].index.coefs;
      const size_t lane = depth_of_lanes ? kernel.rows.size() + 1 + *depth_of_lanes : kernel.rows.size();
      return coefs[kernel.rows.size() + 1 + k].is_zero() && !coefs[lane].is_zero();
    });
    if (shares && extent >= 1 && extent <= kUnrolledMax) unrolled |= 1U << k;
  }
  return unrolled;
}

/// `rows`: of all dims that tasks count as rows; 0 where nobody knows them.
loop::ContractionSchedule TileOf(const loop::Kernel& kernel, const loop::Block& block, int64_t rows,
                                 const VectorUnit& unit) {
  loop::ContractionSchedule tile;
  const auto form = *loop::ContractionOf(kernel, block);
  if (GoesByWindows(kernel, form)) return WindowTileOf(kernel, block, form, rows, unit);
  tile.packing = PackingOf(kernel, block, rows, form, unit);
  const auto depth_of_lanes = loop::DepthOfLanes(kernel, form);
  if (depth_of_lanes) {
    TileAlongDepth(kernel, form, *depth_of_lanes, rows, unit.bytes == 64, tile);
  } else {
    TileAlongColumns(block, form, rows, unit, tile);
  }
  // Wide sums take two registers for the elements of one.
  if (form.sum == guards::DType::kF64 && tile.columns > 2) tile.columns /= 2;
  // Code for any number of rows is the same for all sizes (outline.h).
  const bool is_open = rows == 0 && tile.streamed_columns == 0;
  if (block.depths.size() > 1) {
    // Operands in groups are of few bits: a panel of them is in the first cache as it is.
    tile.depth = 0;
    tile.unrolled = UnrolledOf(kernel, block, form, depth_of_lanes);
  } else if (!is_open && block.depths[0].is_const() && tile.depth >= block.depths[0].const_value()) {
    tile.depth = 0;
  }
  return tile;
}

}  // namespace

Pairs PairsOf(const loop::Kernel& kernel, const loop::Contraction& contraction, const VectorUnit& unit) {
  const auto depth = loop::DepthOfLanes(kernel, contraction);
  if (!depth) return Pairs::kNone;
  if (contraction.sum == guards::DType::kI32) {
    const auto is_narrow = [&](const loop::Operand& operand) {
      const loop::Inst& root = kernel.insts[operand.root];
      if (root.op != loop::ScalarOp::kCast) return false;
      const guards::DType from = kernel.insts[root.args[0]].dtype;
      return from == guards::DType::kI8 || from == guards::DType::kU8;
    };
    return is_narrow(contraction.left) && is_narrow(contraction.right) ? Pairs::kI16 : Pairs::kNone;
  }
  const loop::Id left = loop::PlainLoad(kernel, contraction.left), right = loop::PlainLoad(kernel, contraction.right);
  if (!unit.dots_bf16 || left == loop::kNone || right == loop::kNone || contraction.depths.size() != 1) {
    return Pairs::kNone;
  }
  const auto is_taken = [&](loop::Id id) {
    const loop::Inst& load = kernel.insts[id];
    return load.dtype == guards::DType::kBF16 && load.index.coefs[kernel.rows.size() + 1].is_one();
  };
  return is_taken(left) && is_taken(right) ? Pairs::kBF16 : Pairs::kNone;
}

/// Row dims, from the last on, that tiles count over: short ones are no tile by themselves.
size_t RowDimsOf(const loop::Kernel& kernel) {
  bool has_windows = false;
  const auto shares = [&](size_t dim) {
    return std::ranges::all_of(kernel.blocks, [&](const loop::Block& block) {
      if (!block.is_contraction()) return true;
      const auto form = *loop::ContractionOf(kernel, block);
      return !loop::RightDependsOnRow(kernel, form, dim);
    });
  };
  for (const loop::Block& block : kernel.blocks) {
    if (block.is_contraction()) has_windows |= GoesByWindows(kernel, *loop::ContractionOf(kernel, block));
  }
  const int64_t known = KnownRows(kernel);
  if (!has_windows && known >= kRowTile) return 1;
  size_t dims = std::min<size_t>(1, kernel.rows.size());
  while (dims < kernel.rows.size() && shares(kernel.rows.size() - 1 - dims)) ++dims;
  return std::max<size_t>(1, dims);
}

namespace {

/// What the contractions of a kernel ask of its tasks.
struct TaskNeeds {
  int64_t row_step = 1, column_step = 1;  ///< Whole register tiles of each.
  int64_t rows_max = kRowTile;
  int64_t rows_per_batch = 0;
  bool is_along_columns = false, has_windows = false, has_plain_panels = false;
};

/// Adds what a contraction whose columns are packed needs.
void AddTurned(const loop::Kernel& kernel, const VectorUnit& unit, const loop::Schedule& schedule,
               const loop::Block& block, const loop::ContractionSchedule& tile, TaskNeeds& needs) {
  const auto form = *loop::ContractionOf(kernel, block);
  const bool is_window = GoesByWindows(kernel, form);
  const bool is_plain = !is_window && tile.packing.depth != 0 && PacksPlain(kernel, form, unit);
  needs.is_along_columns = true;
  needs.has_windows |= is_window;
  needs.has_plain_panels |= is_plain;
  const guards::Dim steps = PackedSteps(block, tile);
  // Tasks of few rows, so that there are some for all threads, and as many at once as a thread has.
  const bool shares_panel = !is_window && !tile.packing.by_tiles && steps.is_const() && loop::MayTileColumns(kernel);
  if (shares_panel) {
    const int64_t row_bytes = std::max<int64_t>(1, steps.const_value()) * int64_t{sizeof(float)};
    needs.rows_per_batch = std::max({needs.rows_per_batch, kRowBytesAtOnce / row_bytes, kPackedRowTile});
  }
  const bool shares_all = schedule.row_dims == std::max<size_t>(1, kernel.rows.size());
  const int64_t of_windows = tile.packing.gathers && shares_all ? kGatheredRowTile : kWindowRowTile;
  const int64_t of_packed = shares_panel ? kRowTile : PackedTaskRows(block, tile);
  needs.rows_max = is_window && schedule.contractions.empty()
                       ? of_windows
                       : std::max(needs.rows_max, is_window ? of_windows : of_packed);
}

/// Rows of a task, and tasks that are computed at once, of `rows` (0: nobody knows).
void TileRows(int64_t rows, const TaskNeeds& needs, loop::Schedule& schedule) {
  schedule.row_tile = rows == 0 ? needs.rows_max : std::min(needs.rows_max, rows);
  if (needs.has_windows && rows != 0) {
    // Tiles of about that many rows, alike, and even in number: threads share them.
    int64_t count = std::max<int64_t>(1, (rows + needs.rows_max / 2) / needs.rows_max);
    if (count > 2) count += count % 2;
    schedule.row_tile = (rows + count - 1) / count;
  }
  schedule.row_tile = (schedule.row_tile + needs.row_step - 1) / needs.row_step * needs.row_step;
  // Windows keep their columns from task to task.
  const int64_t at_once = needs.has_windows ? 0 : needs.rows_per_batch;
  const int64_t tasks = rows == 0 ? at_once : (rows + schedule.row_tile - 1) / schedule.row_tile;
  schedule.tasks_per_batch = std::max<int64_t>(1, std::min(tasks, at_once / schedule.row_tile));
}

/// Columns of a task, where they may be tiled.
int64_t ColumnTileOf(const loop::Kernel& kernel, int64_t rows, const TaskNeeds& needs, const loop::Schedule& schedule) {
  const bool is_few = rows != 0 && rows <= kFewRows;
  const guards::Dim& extent = std::ranges::find_if(kernel.blocks, &loop::Block::is_loop)->extent;
  const bool is_narrow = extent.is_const() && extent.const_value() <= kNarrowColumns;
  int64_t columns = is_few ? kColumnTileOfFewRows : is_narrow ? kColumnTile / 2 : kColumnTile;
  const bool is_short = extent.is_const() && extent.const_value() <= kShortColumns;
  if (needs.is_along_columns) columns = is_few ? kColumnBytesOfFewRows / 4 : is_short ? kColumnTile : 2 * kColumnTile;
  if (needs.has_windows || needs.has_plain_panels) columns = needs.column_step;
  // Rows are decoded for each task; few columns are shared out among threads in smaller pieces. Windows keep those of
  // one register tile.
  const auto packs_a = [](const loop::ContractionSchedule& tile) { return tile.packing.packs_a; };
  const bool is_scarce = extent.is_const() && extent.const_value() <= kNarrowColumns / 3;
  const bool may_double = needs.has_plain_panels && !needs.has_windows && !is_scarce;
  if (may_double && std::ranges::any_of(schedule.contractions, packs_a)) columns *= 2;
  return (columns + needs.column_step - 1) / needs.column_step * needs.column_step;
}

/// Rows whose row buffers, which hold all columns, fit in the cache: whole steps of them, and one at least.
int64_t RowsInBuffers(const loop::Kernel& kernel, int64_t row_step) {
  int64_t row_bytes = 0;
  for (const loop::RowBuffer& buffer : kernel.row_buffers) {
    const int64_t extent = buffer.extent.is_const() ? buffer.extent.const_value() : kTypicalColumns;
    row_bytes += extent * static_cast<int64_t>(SizeOf(buffer.dtype));
  }
  const int64_t fitting = std::max<int64_t>(1, kBufferBytes / std::max<int64_t>(1, row_bytes));
  return std::max(row_step, fitting / row_step * row_step);
}

}  // namespace

void AddTiles(const loop::Kernel& kernel, const VectorUnit& unit, loop::Schedule& schedule) {
  TaskNeeds needs;
  schedule.row_dims = RowDimsOf(kernel);
  const guards::Dim tiled = loop::TiledRows(kernel, schedule);
  const int64_t rows = tiled.is_const() ? std::max<int64_t>(1, tiled.const_value()) : 0;
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_contraction()) continue;
    const loop::ContractionSchedule tile = TileOf(kernel, block, rows, unit);
    const auto lanes = static_cast<int64_t>(unit.bytes / SizeOf(kernel.row_buffers[block.into].dtype));
    if (tile.packing.from != 1) {
      needs.row_step = std::lcm(needs.row_step, int64_t{tile.rows});
      const bool along_columns = tile.lanes == Lanes::kColumns;
      needs.column_step = std::lcm(needs.column_step, along_columns ? tile.columns * lanes : tile.columns);
      needs.is_along_columns |= along_columns;
    }
    if (tile.packing.from != 0) {
      needs.row_step = std::lcm(needs.row_step, int64_t{tile.packing.rows});
      needs.column_step = std::lcm(needs.column_step, tile.packing.columns * lanes);
      AddTurned(kernel, unit, schedule, block, tile, needs);
    }
    schedule.contractions.push_back(tile);
  }
  const bool may_tile_columns = loop::MayTileColumns(kernel);
  if (may_tile_columns && !needs.is_along_columns) needs.rows_max = kRowTileOfPlain;
  TileRows(rows, needs, schedule);
  if (may_tile_columns) {
    schedule.column_tile = ColumnTileOf(kernel, rows, needs, schedule);
    schedule.transposed = TransposedIn(kernel);
  } else {
    schedule.row_tile = std::min(schedule.row_tile, RowsInBuffers(kernel, needs.row_step));
  }
}

std::vector<loop::Schedule> OtherTiles(const loop::Kernel& kernel, const VectorUnit& unit,
                                       const loop::Schedule& first) {
  std::vector<loop::Schedule> others;
  const int64_t rows = KnownRows(kernel);
  // Few rows are read from memory as fast as that goes, and columns that belong together are of one task.
  if (first.contractions.empty() || first.column_tile == 0 || (rows != 0 && rows <= kFewRows)) return others;
  const auto is_plain = [](const loop::ContractionSchedule& tile) {
    return tile.lanes == Lanes::kDepth && tile.packing.from == 0 && tile.unrolled == 0;
  };
  // 0 rows: those of the first schedule.
  std::vector<std::pair<unsigned, unsigned>> registers = {{0, 0}};
  const auto is_single = [](const loop::RowBuffer& buffer) { return buffer.dtype == guards::DType::kF32; };
  if (std::ranges::all_of(first.contractions, is_plain) && std::ranges::all_of(kernel.row_buffers, is_single)) {
    if (unit.bytes == 64) registers.insert(registers.end(), {{2, 8}, {2, 12}, {3, 8}});
    if (unit.bytes == 32) registers.insert(registers.end(), {{2, 4}, {2, 6}});
  }
  // A task that has more columns and rows turns to memory less often, and leaves fewer tasks for other threads.
  constexpr std::pair<int64_t, int64_t> kGrowths[] = {{1, 1}, {4, 2}, {8, 1}, {8, 2}};
  const auto lanes = static_cast<int64_t>(unit.bytes / SizeOf(kernel.row_buffers.front().dtype));
  const auto up = [](int64_t size, int64_t step) { return (size + step - 1) / step * step; };
  for (const auto& [tile_rows, tile_columns] : registers) {
    for (const auto& [column_growth, row_growth] : kGrowths) {
      loop::Schedule other = first;
      int64_t row_step = 1, column_step = 1;
      for (loop::ContractionSchedule& tile : other.contractions) {
        if (tile_rows != 0) {
          tile.rows = tile_rows;
          tile.columns = tile_columns;
        }
        if (tile.packing.from != 1) {
          row_step = std::lcm(row_step, int64_t{tile.rows});
          column_step = std::lcm(column_step, tile.lanes == Lanes::kColumns ? tile.columns * lanes : tile.columns);
        }
        if (tile.packing.from != 0) {
          row_step = std::lcm(row_step, int64_t{tile.packing.rows});
          column_step = std::lcm(column_step, tile.packing.columns * lanes);
        }
      }
      const bool is_batched = first.tasks_per_batch > 1;
      if (is_batched) other.tasks_per_batch *= row_growth;
      int64_t task_rows = first.row_tile * (is_batched ? 1 : row_growth);
      if (rows != 0) task_rows = std::min(task_rows, rows);
      other.row_tile = up(task_rows, row_step);
      other.column_tile = up(first.column_tile * column_growth, column_step);
      if (!(other == first) && std::ranges::find(others, other) == others.end()) others.push_back(std::move(other));
    }
  }
  return others;
}

Pairs PackedPairsOf(const loop::Kernel& kernel, const loop::Contraction& contraction, const VectorUnit& unit) {
  const guards::Dim& depth = contraction.depths[0];
  const bool is_even = depth.is_const() && depth.const_value() % 2 == 0;
  if (contraction.sum == guards::DType::kF32 && !unit.dots_bf16_fast) return Pairs::kNone;
  return is_even ? PairsOf(kernel, contraction, unit) : Pairs::kNone;
}

guards::Dim PanelBytes(const loop::Kernel& kernel, const loop::Block& block, const loop::ContractionSchedule& tile,
                       const loop::Schedule& schedule, const VectorUnit& unit) {
  const loop::ContractionSchedule::Packing& packing = tile.packing;
  guards::Dim bytes;
  if (tile.streamed_columns != 0) {
    const auto size = static_cast<int64_t>(SizeOf(kernel.row_buffers[block.into].dtype));
    const int64_t rows = packing.from > 1 ? packing.from - 1 : schedule.rows_per_batch();
    bytes = (block.Depth() * guards::Dim(size) + guards::Dim(unit.bytes)) * guards::Dim(rows);
  }
  if (packing.from == 0) return bytes;
  const auto form = *loop::ContractionOf(kernel, block);
  if (const auto tiles = packing.by_tiles ? TileFormOf(kernel, block, form, unit) : std::nullopt) {
    return bytes + guards::Dim(TilePanelOf(block, *tiles, tile).bytes());
  }
  const int64_t lanes = unit.bytes / int64_t{sizeof(float)};
  guards::Dim depth = PackedSteps(block, tile);
  if (GoesByWindows(kernel, form)) {
    const WindowPanel panel = WindowPanelOf(kernel, form, tile, schedule, unit);
    depth = panel.rows * guards::Dim(panel.pieces);
    if (packing.gathers) bytes = bytes + guards::Dim(BytesOf(*GatheredRowsOf(kernel, form, panel), packing.rows, unit));
  }
  bytes = bytes + (depth + guards::Dim(lanes)) * guards::Dim(int64_t{packing.columns} * unit.bytes);
  if (!packing.packs_a) return bytes;
  const int64_t row_bytes = schedule.rows_per_batch() * int64_t{sizeof(float)};
  return bytes + DecodedSteps(block, tile, unit) * guards::Dim(row_bytes);
}

guards::Dim DecodedSteps(const loop::Block& block, const loop::ContractionSchedule& tile, const VectorUnit& unit) {
  return PackedSteps(block, tile) + guards::Dim(int64_t{unit.bytes} / int64_t{sizeof(float)});
}

TileBuffer TileBufferOf(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                        const VectorUnit& unit) {
  const loop::RowBuffer& buffer = kernel.row_buffers[row_buffer];
  TileBuffer tile{buffer.extent, schedule.rows_per_batch()};
  if (schedule.column_tile != 0) tile.columns = schedule.column_tile;
  // A register more: the last columns are stored whole.
  const auto lanes = static_cast<int64_t>(unit.bytes / SizeOf(buffer.dtype));
  tile.columns = tile.columns + guards::Dim(lanes * 4);
  return tile;
}

}  // namespace ingot::compiler::x86
