// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/widths.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "compiler/loop/ops.h"
#include "compiler/loop/varying.h"
#include "compiler/targets/llvm/index_split.h"

namespace ingot::compiler::x86 {

using guards::DType;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

/// Whether f32 is computed in f32; the other functions take two registers for each of theirs.
bool StaysIn32(const Inst& inst) {
  switch (inst.op) {
    case ScalarOp::kExp:
    case ScalarOp::kExpm1:
    case ScalarOp::kSigmoid:
    case ScalarOp::kTanh:
    case ScalarOp::kErf: return true;
    default: return false;
  }
}

// Fewer rows than this fill a vector worse than j does, unless j is short as well.
constexpr int64_t kRowsMin = 4;
constexpr int64_t kFoldedMin = 16;

/// +1 where neighbouring rows are neighbours in memory and neighbouring j are not, -1 the reverse. `shared`: positions
/// that j decides and rows do not.
int Preference(const loop::Index& index, const std::vector<bool>& shared) {
  const guards::Dim& j = index.coefs.back();
  const guards::Dim& row = index.coefs[index.coefs.size() - 2];
  const bool is_gathered = std::ranges::any_of(index.gathered, [&](const auto& g) { return shared[g.value]; });
  if (row.is_one() && j.is_zero() && is_gathered) return 1;
  if (row.is_one() && !j.is_one() && !j.is_zero()) return 1;
  return j.is_one() && !row.is_one() && !row.is_zero() ? -1 : 0;
}

}  // namespace

bool IsHeavy(const Inst& inst) {
  return (inst.op >= ScalarOp::kExp && inst.op <= ScalarOp::kSigmoid) || inst.op == ScalarOp::kPow ||
         inst.op == ScalarOp::kAtan2 || inst.op == ScalarOp::kFloorDiv || inst.op == ScalarOp::kRem;
}

std::vector<bool> SharedPositions(const loop::Kernel& kernel) {
  std::vector<bool> is_same(kernel.insts.size()), found(kernel.insts.size());
  if (kernel.rows.empty()) return found;
  const auto holds = [&](Id id) { return bool(is_same[id]); };
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_loop) continue;
    for (const Id id : block.insts) {
      const Inst& inst = kernel.insts[id];
      const bool is_read = inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kIndex;
      if (inst.op == ScalarOp::kStore || loop::JoinsColumns(inst.op) || inst.predicate != loop::kNone) continue;
      if (is_read && !inst.index.coefs[kernel.rows.size() - 1].is_zero()) continue;
      if (inst.op == ScalarOp::kLoad && inst.buffer >= kernel.params.size()) continue;
      is_same[id] = std::ranges::all_of(inst.args, holds) &&
                    std::ranges::all_of(inst.index.gathered, [&](const auto& g) { return holds(g.value); });
    }
  }
  const std::function<void(Id)> take = [&](Id id) {
    if (found[id]) return;
    found[id] = true;
    std::ranges::for_each(kernel.insts[id].args, take);
    for (const loop::Index::Gathered& g : kernel.insts[id].index.gathered) take(g.value);
  };
  for (const Inst& inst : kernel.insts) {
    for (const loop::Index::Gathered& g : inst.index.gathered) {
      if (is_same[g.value]) take(g.value);
    }
  }
  return found;
}

bool ReducesColumns(const loop::Kernel& kernel) {
  if (kernel.rows.empty() || std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) return false;
  const guards::Dim& rows = kernel.rows.back();
  if (rows.is_const() && rows.const_value() < 2) return false;
  const bool is_narrow = rows.is_const() && rows.const_value() < kRowsMin;
  const std::vector<bool> shared = SharedPositions(kernel);
  bool folds = false;
  int preference = 0;
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_loop) continue;
    if (block.has_active_range()) return false;  // Another one for each row.
    if (is_narrow && !(block.extent.is_const() && block.extent.const_value() < kFoldedMin)) return false;
    for (const Id id : block.insts) {
      const Inst& inst = kernel.insts[id];
      folds |= loop::JoinsColumns(inst.op);
      const bool is_access = inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore;
      if (is_access && inst.buffer < kernel.params.size()) preference += Preference(inst.index, shared);
    }
  }
  return folds && preference > 0;
}

unsigned RowLanes(const loop::Kernel& kernel, const VectorUnit& unit) {
  size_t widest = 4;
  bool is_heavy = false;
  const std::vector<bool> shared = SharedPositions(kernel);
  for (const Inst& inst : kernel.insts) {
    const bool is_index = inst.op == ScalarOp::kSize || inst.op == ScalarOp::kIndex ||
                          shared[static_cast<size_t>(&inst - kernel.insts.data())];
    if (!is_index) widest = std::max(widest, guards::SizeOf(inst.dtype));
    is_heavy |= IsHeavy(inst);
  }
  // Four registers side by side hide the latency of a sum and use whole cache lines.
  auto lanes = static_cast<unsigned>(unit.bytes / widest * (is_heavy ? 2 : 4));
  const guards::Dim& rows = kernel.rows.back();
  if (rows.is_const() && rows.const_value() < int64_t{lanes}) {
    lanes = std::bit_ceil(static_cast<unsigned>(rows.const_value()));
  }
  return lanes;
}

loop::LoopSchedule WidthsOf(const loop::Kernel& kernel, const loop::Block& block, const VectorUnit& unit) {
  const std::vector<bool> varying = loop::VaryingOverJ(kernel, block);
  const std::optional<IndexSplit> split = IndexSplitOf(kernel, block);
  size_t widest = 1;
  bool is_heavy = false;
  bool is_wide = false;
  bool reduces = false;
  bool scans = false;
  bool converts = false;
  for (const Id id : block.insts) {
    if (!varying[id] || (split && split->Settles(id))) continue;
    const Inst& inst = kernel.insts[id];
    widest = std::max(widest, guards::SizeOf(inst.dtype));
    for (const Id arg : inst.args) widest = std::max(widest, guards::SizeOf(kernel.insts[arg].dtype));
    is_heavy |= IsHeavy(inst);
    is_wide |= IsHeavy(inst) && !StaysIn32(inst);
    reduces |= loop::IsReduce(inst.op);
    scans |= loop::IsScan(inst.op);
    const bool is_cast = inst.op == ScalarOp::kCast;
    converts |= is_cast && (inst.dtype == DType::kBF16 || kernel.insts[inst.args[0]].dtype == DType::kBF16);
  }
  // 8-byte elements take two registers: most such loops mix them with 4-byte ones.
  loop::LoopSchedule widths;
  widths.lanes = unit.bytes / static_cast<unsigned>(std::min<size_t>(widest, 4));
  widths.unroll = is_heavy ? 1 : (reduces ? 4 : 2);
  if (widest == 8 && widths.unroll > 1) widths.unroll /= 2;
  // Long chains of dependent operations want company: a vector of two registers becomes two
  // chains side by side, instruction by instruction, where copies would come one after the other.
  const bool is_short = block.extent.is_const() && block.extent.const_value() < 2 * widths.lanes;
  if (is_heavy && !is_wide && widest == 4 && !is_short) widths.lanes *= 2;
  if (scans && !is_heavy && !is_short) {
    widths.lanes *= 2;
    widths.unroll = 1;
  }
  // Two registers make one of bf16, see lane_order.h.
  if (converts && !scans && !is_heavy && widest == 4 && !is_short) {
    widths.lanes *= 2;
    widths.unroll = std::max(1U, widths.unroll / 2);
  }
  if (!block.extent.is_const()) return widths;
  while (widths.unroll > 1 && block.extent.const_value() < int64_t{widths.lanes} * widths.unroll) widths.unroll /= 2;
  return widths;
}

}  // namespace ingot::compiler::x86
