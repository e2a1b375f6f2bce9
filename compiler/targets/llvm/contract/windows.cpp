// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/contract/windows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "compiler/targets/llvm/contract/gathered_rows.h"

namespace ingot::compiler::x86 {
namespace {

// Steps of all k together that are packed at a time, of windows: their panel stays in the second cache.
constexpr int64_t kWindowDepth = 576;
// Steps that rows read side by side under one condition: fewer are gathered first.
constexpr int64_t kGatheredStepsMax = 8;
// What a thread keeps packed from task to task: as much as leaves room in the second cache.
constexpr int64_t kKeptBytes = 640 << 10;

bool IsInCondition(const loop::Kernel& kernel, const loop::Contraction& form, size_t depth) {
  const size_t variable = kernel.rows.size() + 1 + depth;
  return std::ranges::any_of(form.left.indices,
                             [&](loop::Id id) { return !kernel.insts[id].index.coefs[variable].is_zero(); });
}

/// Rows and vectors of a register tile that leave little of `rows` and `vectors` over, which are 0 where nobody knows
/// them. Sums, vectors of columns and one element of a row are in registers at once.
std::pair<unsigned, unsigned> WindowRegisters(int64_t rows, int64_t vectors, bool is_wide) {
  constexpr int64_t kMany = 1 << 20, kRowsMax = 12;
  const int64_t most = is_wide ? 24 : 12, columns_max = is_wide ? 4 : 2;
  if (rows == 0) rows = kMany;
  if (vectors == 0) vectors = kMany;
  const auto padded = [](int64_t count, int64_t by) { return (count + by - 1) / by * by; };
  std::pair<unsigned, unsigned> best;
  double least = 0;
  for (int64_t v = std::min(columns_max, vectors); v >= 1; --v) {
    for (int64_t r = std::min(most / v, kRowsMax); r >= 1; --r) {
      // What is computed in vain, and what is read for each product; a few sums wait for each other.
      const double waste = double(padded(rows, r)) * double(padded(vectors, v)) / (double(rows) * double(vectors));
      const double reads = double(r + v) / double(r * v), waits = r * v < 8 ? 8.0 / double(r * v) : 1.0;
      const double cost = waste * (1 + 0.05 * reads) * std::max({1.0, reads, waits});
      if (least != 0 && cost >= least) continue;
      least = cost;
      best = {static_cast<unsigned>(r), static_cast<unsigned>(v)};
    }
  }
  return best;
}

}  // namespace

/// Pieces are cut from the k along which rows read neighbours under one condition: their registers stay full for long.
loop::ContractionSchedule WindowTileOf(const loop::Kernel& kernel, const loop::Block& block,
                                       const loop::Contraction& form, int64_t rows, const VectorUnit& unit) {
  loop::ContractionSchedule tile;
  tile.lanes = loop::ContractionSchedule::Lanes::kColumns;
  constexpr int64_t kTypicalDepth = 64;
  const auto extent_of = [&](size_t k) {
    return block.depths[k].is_const() ? std::max<int64_t>(1, block.depths[k].const_value()) : kTypicalDepth;
  };
  std::tuple<bool, bool, int64_t> best;
  int64_t steps = 1;
  for (size_t k = 0; k < block.depths.size(); ++k) {
    const guards::Dim& coef = kernel.insts[form.left.root].index.coefs[kernel.rows.size() + 1 + k];
    const std::tuple here(!IsInCondition(kernel, form, k), coef.is_one(), extent_of(k));
    if (k == 0 || here > best) {
      best = here;
      tile.lane_depth = static_cast<unsigned>(k);
    }
    steps *= extent_of(k);
  }
  const int64_t extent = extent_of(tile.lane_depth);
  const int64_t depth = std::max<int64_t>(4, kWindowDepth / (steps / extent) / 4 * 4);
  tile.packing.from = 1;
  tile.packing.depth = block.depths[tile.lane_depth].is_const() && extent <= depth ? 0 : depth;
  const int64_t lanes = unit.bytes / int64_t{sizeof(float)};
  const int64_t vectors =
      block.extent.is_const() ? std::max<int64_t>(1, (block.extent.const_value() + lanes - 1) / lanes) : 0;
  std::tie(tile.packing.rows, tile.packing.columns) = WindowRegisters(rows, vectors, unit.bytes == 64);
  loop::ContractionSchedule whole = tile;
  whole.packing.depth = 0;
  if (extent <= kGatheredStepsMax && GatheredRowsOf(kernel, form, WindowPanelOf(kernel, form, whole, {}, unit))) {
    tile = whole;
    tile.packing.gathers = true;
  }
  return tile;
}

bool GoesByWindows(const loop::Kernel& kernel, const loop::Contraction& contraction) {
  if (!loop::IsWindow(kernel, contraction)) return false;
  const auto lanes = loop::DepthOfLanes(kernel, contraction);
  if (contraction.left.is_guarded || (!lanes && !loop::RunsAlongColumns(kernel, contraction))) return true;
  // Lanes along so few steps would be empty mostly.
  if (!lanes || contraction.depths.size() == 1) return false;
  const guards::Dim& steps = contraction.depths[*lanes];
  return steps.is_const() && steps.const_value() <= kGatheredStepsMax;
}

WindowPanel WindowPanelOf(const loop::Kernel& kernel, const loop::Contraction& contraction,
                          const loop::ContractionSchedule& tile, const loop::Schedule& schedule,
                          const VectorUnit& unit) {
  WindowPanel panel;
  const size_t count = contraction.depths.size();
  panel.steps.resize(count);
  std::vector<bool> is_in_run(count);
  const auto is_cut = [&](size_t k) { return k == tile.lane_depth && tile.packing.depth != 0; };
  const auto extent_of = [&](size_t k) { return is_cut(k) ? guards::Dim(tile.packing.depth) : contraction.depths[k]; };
  panel.run_steps = guards::Dim(1);
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t k = 0; k < count && !grows; ++k) {
      const guards::Dim& coef = kernel.insts[contraction.right.root].index.coefs[kernel.rows.size() + 1 + k];
      if (is_in_run[k] || !(coef == panel.run_steps)) continue;
      panel.run.push_back(k);
      panel.steps[k] = coef;
      is_in_run[k] = grows = true;
      panel.run_steps = panel.run_steps * extent_of(k);
    }
    // What lies behind a piece is not its neighbour.
    if (grows && is_cut(panel.run.back())) break;
  }
  panel.rows = panel.run_steps;
  for (size_t k = count; k-- > 0;) {
    if (is_in_run[k]) continue;
    panel.outer.insert(panel.outer.begin(), k);
    panel.steps[k] = panel.rows;
    panel.rows = panel.rows * extent_of(k);
  }
  // One register tile of columns in each task, and all rows share it.
  const int64_t width = int64_t{tile.packing.columns} * unit.bytes / int64_t{sizeof(float)};
  const guards::Dim& extent = contraction.depths[tile.lane_depth];
  if (schedule.column_tile != width || schedule.row_dims != std::max<size_t>(1, kernel.rows.size())) return panel;
  if (!panel.rows.is_const() || !extent.is_const()) return panel;
  const int64_t depth = tile.packing.depth != 0 ? tile.packing.depth : std::max<int64_t>(1, extent.const_value());
  const int64_t pieces = std::max<int64_t>(1, (extent.const_value() + depth - 1) / depth);
  if (pieces * panel.rows.const_value() * width * int64_t{sizeof(float)} > kKeptBytes) return panel;
  panel.is_kept = true;
  panel.pieces = pieces;
  return panel;
}

}  // namespace ingot::compiler::x86
