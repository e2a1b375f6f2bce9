// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/loop/contraction.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {

std::string Print(const Schedule& schedule) {
  std::string text;
  const auto add = [&](std::string part) { text += (text.empty() ? "" : "; ") + std::move(part); };
  const auto all_or = [](int64_t count) { return count == 0 ? std::string("all") : std::to_string(count); };
  if (schedule.is_tiled()) {
    const std::string over = schedule.row_dims == 1 ? "" : fmt::format(" over {} dims", schedule.row_dims);
    const std::string at_once =
        schedule.tasks_per_batch == 1 ? "" : fmt::format(", {} at once", schedule.tasks_per_batch);
    add(fmt::format("tile i {}{}, j {}{}", schedule.row_tile, over, all_or(schedule.column_tile), at_once));
  }
  for (size_t i = 0; i < schedule.contractions.size(); ++i) {
    const ContractionSchedule& one = schedule.contractions[i];
    std::string lanes = one.lanes == ContractionSchedule::Lanes::kDepth ? "k" : "j";
    if (one.lane_depth != 0 && one.packing.from != 1) lanes += std::to_string(one.lane_depth);
    for (unsigned k = 0; one.unrolled >> k != 0; ++k) {
      if (one.unrolls(k)) lanes += fmt::format(", k{} unrolled", k);
    }
    add(fmt::format("contract {}: lanes {}, registers {}x{}, depth {}", i, lanes, one.rows, one.columns,
                    all_or(one.depth)));
    if (one.streamed_columns != 0)
      text +=
          fmt::format(", {}columns in turn", one.streamed_columns == 1 ? "" : fmt::format("{} ", one.streamed_columns));
    const ContractionSchedule::Packing& packing = one.packing;
    if (packing.from == 0) continue;
    text += fmt::format(", from {} rows turned over with {}registers {}x{}, depth {}", packing.from,
                        packing.by_tiles ? "tile " : "", packing.rows, packing.columns, all_or(packing.depth));
    if (packing.gathers) text += ", rows gathered";
    if (one.lane_depth != 0 && !packing.gathers) text += fmt::format(" of k{}", one.lane_depth);
    if (packing.packs_a) text += ", rows decoded first";
  }
  if (!schedule.transposed.empty()) add(fmt::format("transposed %{}", fmt::join(schedule.transposed, ", %")));
  if (schedule.row_lanes != 0) add(fmt::format("lanes i {}", schedule.row_lanes));
  for (size_t i = 0; i < schedule.loops.size(); ++i) {
    const LoopSchedule& one = schedule.loops[i];
    add(fmt::format("loop {}: lanes j {}, unroll {}", i, one.lanes, one.unroll));
  }
  return text;
}

Status Check(const Kernel& kernel, const Schedule& schedule) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kInternal, fmt::format("kernel {}: schedule \"{}\": {}", kernel.name, Print(schedule), why));
  };
  const auto contractions = std::ranges::count_if(kernel.blocks, &Block::is_contraction);
  const auto loops = std::ranges::count_if(kernel.blocks, &Block::is_loop) - contractions;
  if (static_cast<size_t>(contractions) != schedule.contractions.size())
    return refuse("another number of contractions");
  if (schedule.row_lanes == 0 && static_cast<size_t>(loops) != schedule.loops.size()) {
    return refuse("another number of loops");
  }
  if (schedule.row_lanes != 0 && (schedule.is_tiled() || kernel.rows.empty())) return refuse("no rows side by side");
  if (schedule.row_tile < 1 || schedule.column_tile < 0) return refuse("tiles of nothing");
  if (schedule.tasks_per_batch < 1) return refuse("no task at once");
  if (schedule.tasks_per_batch != 1 && (contractions == 0 || kernel.rows.empty()))
    return refuse("nothing that tasks share");
  if (!schedule.is_tiled() && (schedule.row_tile != 1 || schedule.column_tile != 0)) return refuse("tasks are rows");
  if (schedule.row_dims != 1) {
    const bool has_dims = schedule.row_dims >= 1 && schedule.row_dims <= kernel.rows.size();
    if (!has_dims || contractions == 0) return refuse("tiles over dims that are not there");
  }
  if (schedule.column_tile != 0 && !MayTileColumns(kernel)) return refuse("columns belong together");
  if (!schedule.transposed.empty() && schedule.column_tile == 0) return refuse("squares of whole rows");
  for (const Id access : schedule.transposed) {
    if (!MayTranspose(kernel, access)) return refuse("neighbouring rows lie apart in memory");
  }
  size_t number = 0;
  for (const Block& block : kernel.blocks) {
    if (!block.is_contraction()) continue;
    const ContractionSchedule& one = schedule.contractions[number++];
    if (one.lane_depth >= block.depths.size()) return refuse("lanes along a k that is not there");
    if (one.depth != 0 && block.depths.size() > 1) return refuse("pieces of a k that is several");
    for (size_t k = 0; k < 32; ++k) {
      if (!one.unrolls(k)) continue;
      if (k >= block.depths.size() || !block.depths[k].is_const()) return refuse("unrolls a k of unknown extent");
      if (one.lanes == ContractionSchedule::Lanes::kDepth && k == one.lane_depth) return refuse("unrolls its lanes");
    }
    if (one.rows == 0 || one.columns == 0 || one.depth < 0) return refuse("registers of nothing");
    if (one.streamed_columns != 0 &&
        (one.lanes != ContractionSchedule::Lanes::kDepth || one.columns % one.streamed_columns != 0)) {
      return refuse("columns that have no turn");
    }
    if (one.packing.rows == 0 || one.packing.columns == 0 || one.packing.depth < 0) return refuse("squares of nothing");
    const auto form = ContractionOf(kernel, block);
    const bool is_guarded = form && form->left.is_guarded;
    if (is_guarded && one.packing.from != 1) return refuse("reads under a condition by a way that knows none");
    for (size_t k = 2; form && k <= schedule.row_dims; ++k) {
      if (RightDependsOnRow(kernel, *form, kernel.rows.size() - k)) return refuse("rows of a tile share no columns");
    }
  }
  for (const LoopSchedule& one : schedule.loops) {
    if (one.lanes == 0 || one.unroll == 0) return refuse("vectors of nothing");
  }
  return {};
}

bool MayTileColumns(const Kernel& kernel) {
  const Dim* extent = nullptr;
  for (const Block& block : kernel.blocks) {
    if (!block.is_loop) continue;
    if (block.has_active_range()) return false;
    if (extent != nullptr && !(*extent == block.extent)) return false;
    extent = &block.extent;
    const auto folds = [&](Id id) { return JoinsColumns(kernel.insts[id].op); };
    if (!block.is_contraction() && std::ranges::any_of(block.insts, folds)) return false;
    // What a contraction reads of a row buffer, it reads all along k.
    const auto reads_row_buffer = [&](Id id) {
      return kernel.insts[id].op == ScalarOp::kLoad && kernel.insts[id].buffer >= kernel.params.size();
    };
    if (block.is_contraction() && std::ranges::any_of(block.insts, reads_row_buffer)) return false;
  }
  return extent != nullptr;
}

bool MayTranspose(const Kernel& kernel, Id access) {
  if (access >= kernel.insts.size() || kernel.rows.empty()) return false;
  const Inst& inst = kernel.insts[access];
  if (inst.op != ScalarOp::kLoad && inst.op != ScalarOp::kStore) return false;
  if (inst.buffer >= kernel.params.size() || inst.predicate != kNone || !inst.index.gathered.empty()) return false;
  const ParamMode mode = inst.op == ScalarOp::kLoad ? ParamMode::kIn : ParamMode::kOut;
  if (kernel.params[inst.buffer].mode != mode) return false;
  const Dim& j = inst.index.coefs[kernel.rows.size()];
  return inst.index.coefs[kernel.rows.size() - 1].is_one() && !j.is_zero() && !j.is_one();
}

Dim ColumnsOf(const Kernel& kernel) {
  const auto first = std::ranges::find_if(kernel.blocks, &Block::is_loop);
  return first == kernel.blocks.end() ? Dim(1) : first->extent;
}

Dim TiledRows(const Kernel& kernel, const Schedule& schedule) {
  const size_t dims = std::min(schedule.row_dims, kernel.rows.size());
  return guards::Product(std::span(kernel.rows).last(dims));
}

std::vector<TaskAxis> TaskAxes(const Kernel& kernel, const Schedule& schedule) {
  std::vector<TaskAxis> axes;
  size_t outer = kernel.rows.size();
  if (schedule.is_tiled() && !kernel.rows.empty()) {
    axes.push_back({TaskAxis::Of::kRows, TiledRows(kernel, schedule), schedule.row_tile});
    outer -= std::min(schedule.row_dims, outer);
  }
  if (schedule.column_tile != 0) axes.push_back({TaskAxis::Of::kColumns, ColumnsOf(kernel), schedule.column_tile});
  axes.push_back({TaskAxis::Of::kOuter, guards::Product(std::span(kernel.rows).first(outer))});
  return axes;
}

Window WindowOf(const Kernel& kernel, const Schedule& schedule, std::span<const int64_t> symbols, int64_t task) {
  Columns rows = {0, 1}, columns = kAllColumns;
  int64_t height = 1;
  for (const TaskAxis& axis : TaskAxes(kernel, schedule)) {
    // What is left counts the last axis.
    if (axis.of == TaskAxis::Of::kOuter) break;
    const int64_t extent = axis.extent.Eval(symbols);
    const int64_t pieces = (extent + axis.tile - 1) / axis.tile;
    const int64_t first = task % pieces * axis.tile, last = std::min(first + axis.tile, extent);
    task /= pieces;
    const bool is_rows = axis.of == TaskAxis::Of::kRows;
    (is_rows ? rows : columns) = {first, last};
    if (is_rows) height = extent;
  }
  return {task * height + rows.first, task * height + rows.second, columns};
}

}  // namespace ingot::compiler::loop
