// SPDX-License-Identifier: Apache-2.0
//
// Ways of many rows. The columns of a register tile are decoded, packed where they lie along k, and read from a
// dense panel by all rows of a task.
#include "compiler/targets/llvm/contract/packing.h"

#include <algorithm>

#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/x86/tile_form.h"

namespace ingot::compiler::x86 {
namespace {

// Of columns that are packed: 64 of them are half the second cache at most.
constexpr int64_t kPackedDepth = 256;
constexpr int64_t kPackedStepsMax = 4 * kPackedDepth;
constexpr int64_t kPackedRowsMin = 16;
// Of tile registers: a panel of 32 columns fits the first cache.
constexpr int64_t kTilePanelBytes = 32 << 10;
// A panel of one register tile stays in the first cache. Of short vectors decoding is most of the work.
constexpr int64_t kPanelDepth = 128;
// As kPlainPackedRowsMin, of rows that are decoded first.
constexpr int64_t kDecodedPackedRowsMin = 24;

/// Steps of all k but the first, for one of that.
guards::Dim StepsBehindFirst(const loop::Block& block) {
  guards::Dim steps(1);
  for (size_t k = 1; k < block.depths.size(); ++k) steps = steps * block.depths[k];
  return steps;
}

/// The way of many rows by tile registers, for tasks that have rows enough to fill one.
loop::ContractionSchedule::Packing PackingByTiles(const loop::Block& block, int64_t rows, const TileForm& form) {
  loop::ContractionSchedule::Packing packing;
  if (rows != 0 && rows < kTileRowsMin) return packing;
  constexpr unsigned kRowsOfTile = 16;
  const bool is_one = rows == kRowsOfTile;
  packing.rows = is_one ? kRowsOfTile : 2 * kRowsOfTile;
  packing.columns = is_one ? 4 : 2;
  const int64_t steps_max = kTilePanelBytes / (packing.columns * 64) * form.together();
  const guards::Dim depth = block.Depth();
  if (block.depths.size() > 1) {
    // Of several k the first goes in pieces, and all of the others is packed for each step of it.
    int64_t inner = PaddedLanes(block, form);
    for (size_t n = 1; n < block.depths.size(); ++n) {
      if (n != form.lane_depth) inner *= block.depths[n].const_value();
    }
    packing.depth = std::max<int64_t>(1, steps_max / std::max<int64_t>(1, inner));
    const guards::Dim& first = block.depths[0];
    if (first.is_const() && first.const_value() <= packing.depth) packing.depth = 0;
  } else {
    packing.depth = depth.is_const() && depth.const_value() <= steps_max ? 0 : steps_max;
  }
  packing.from = rows != 0 ? 1 : kTileRowsMin;
  packing.by_tiles = true;
  return packing;
}

/// Whether rows are decoded before they are multiplied: an element that is no f32 takes a few steps to become a vector
/// of them, for each register tile of columns.
bool DecodesRows(const loop::Kernel& kernel, const loop::Block& block, const loop::Contraction& form, size_t lanes) {
  const loop::Id plain = loop::PlainLoad(kernel, form.left);
  if (plain != loop::kNone && kernel.insts[plain].dtype == guards::DType::kF32) return false;
  const auto lies_along = [&](loop::Id load) {
    const guards::Dim& coef = kernel.insts[load].index.coefs[kernel.rows.size() + 1 + lanes];
    return coef.is_one() || coef.is_zero();
  };
  return !block.has_active_range() && form.left.indices.empty() && std::ranges::all_of(form.left.loads, lies_along);
}

int64_t PlainRowsMin(const loop::ContractionSchedule::Packing& packing) {
  return packing.packs_a ? kDecodedPackedRowsMin : kPlainPackedRowsMin;
}

/// The ways of many rows by vectors of 32 bytes: twelve sums, two vectors of columns and one factor are in registers at
/// once. Columns that lie side by side are copied: with powers of two between the steps of k they push each other out
/// of the first cache.
loop::ContractionSchedule::Packing PackingByShortVectors(const loop::Kernel& kernel, const loop::Block& block,
                                                         int64_t rows, const loop::Contraction& form) {
  loop::ContractionSchedule::Packing packing;
  const bool lies_along_depth = loop::DepthOfLanes(kernel, form).has_value();
  const bool is_copied = !lies_along_depth && block.depths.size() == 1 && loop::RunsAlongColumns(kernel, form);
  if (form.sum != guards::DType::kF32 || (!lies_along_depth && !is_copied)) return packing;
  const guards::Dim depth = block.Depth(), inner = StepsBehindFirst(block);
  const bool is_shallow = depth.is_const() && depth.const_value() <= kPackedDepth;
  const bool decodes = loop::PlainLoad(kernel, form.right) == loop::kNone, folds_few = lies_along_depth && is_shallow;
  packing.packs_a = DecodesRows(kernel, block, form, loop::DepthOfLanes(kernel, form).value_or(0));
  const int64_t rows_min = decodes || folds_few ? kPackedRowsMin : PlainRowsMin(packing);
  if (rows != 0 && rows < rows_min) return {};
  packing.from = folds_few || rows != 0 ? 1 : rows_min;
  packing.rows = 6;
  packing.columns = 2;
  const int64_t at_a_time = decodes ? kPackedDepth : kPanelDepth;
  packing.depth = is_shallow ? 0 : std::max<int64_t>(1, at_a_time / std::max<int64_t>(1, inner.const_value()));
  return packing;
}

}  // namespace

guards::Dim PackedSteps(const loop::Block& block, const loop::ContractionSchedule& tile) {
  const int64_t depth = tile.packing.depth;
  return depth != 0 ? guards::Dim(depth) * StepsBehindFirst(block) : block.Depth();
}

bool PacksPlain(const loop::Kernel& kernel, const loop::Contraction& form, const VectorUnit& unit) {
  return unit.bytes == 64 && form.depths.size() == 1 && loop::PlainLoad(kernel, form.right) != loop::kNone &&
         (!unit.dots_bf16_fast || PairsOf(kernel, form, unit) == Pairs::kNone) && loop::MayTileColumns(kernel);
}

loop::ContractionSchedule::Packing PackingOf(const loop::Kernel& kernel, const loop::Block& block, int64_t rows,
                                             const loop::Contraction& form, const VectorUnit& unit) {
  loop::ContractionSchedule::Packing packing;
  const auto lanes = loop::DepthOfLanes(kernel, form);
  // Of several k the first goes in pieces, and all of the others is packed for each step of it.
  const guards::Dim inner = StepsBehindFirst(block);
  if (block.depths.size() > 1 && (lanes == 0 || !inner.is_const() || inner.const_value() > kPackedStepsMax))
    return packing;
  if (const auto tiles = TileFormOf(kernel, block, form, unit)) return PackingByTiles(block, rows, *tiles);
  if (unit.bytes == 32) return PackingByShortVectors(kernel, block, rows, form);
  if (form.sum != guards::DType::kF32) return packing;
  const guards::Dim depth = block.Depth();
  const bool is_shallow = depth.is_const() && depth.const_value() <= kPackedDepth;
  const bool decodes = loop::PlainLoad(kernel, form.right) == loop::kNone;
  const bool is_plain = !is_shallow && PacksPlain(kernel, form, unit);
  const bool is_copied = is_plain && loop::RunsAlongColumns(kernel, form);
  if (!lanes && !is_copied) return packing;
  const bool is_paired = PackedPairsOf(kernel, form, unit) != Pairs::kNone;
  packing.packs_a = !is_paired && DecodesRows(kernel, block, form, lanes.value_or(0));
  const int64_t rows_min = is_plain ? PlainRowsMin(packing) : kPackedRowsMin;
  if (rows != 0 && rows < rows_min) return {};
  if (!is_shallow && !decodes && !is_plain && !is_paired) return {};
  // Known rows, and shallow sums of any, need no second way beside this one.
  packing.from = is_shallow || rows != 0 ? 1 : rows_min;
  // Where nothing is decoded, more sums than hide their latency are no faster, and leave more rows over.
  packing.rows = is_plain ? 4 : 6;
  packing.columns = 4;
  // A pair has the bytes of one element.
  const int64_t at_a_time = is_paired ? 2 * kPanelDepth : kPanelDepth;
  packing.depth = is_shallow ? 0 : std::max<int64_t>(1, at_a_time / std::max<int64_t>(1, inner.const_value()));
  return packing;
}

}  // namespace ingot::compiler::x86
