// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/lane_order.h"

#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/loop/varying.h"
#include "compiler/targets/llvm/index_split.h"

namespace ingot::compiler::x86 {
namespace {

using guards::DType;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

/// Whether all lanes of `block` are treated alike, but by scans, which know the order, and memory holds nothing of 32
/// bits but row buffers. What is bool changes places by itself: bytes do so in one or two instructions.
bool TreatsLanesAlike(const loop::Kernel& kernel, const loop::Block& block) {
  if (!block.is_loop || block.is_contraction() || block.has_active_range()) return false;
  const std::vector<bool> varying = loop::VaryingOverJ(kernel, block);
  const std::optional<IndexSplit> split = IndexSplitOf(kernel, block);
  return std::ranges::all_of(block.insts, [&](Id id) {
    const Inst& inst = kernel.insts[id];
    if (!varying[id] || (split && split->Settles(id))) return true;
    if (inst.op == ScalarOp::kIndex) return false;
    if (inst.op == ScalarOp::kReduceArgMax || inst.op == ScalarOp::kReduceArgMin) return false;
    if (inst.dtype != DType::kF32 && inst.dtype != DType::kBF16 && inst.dtype != DType::kBool) return false;
    if (IsAccess(inst)) {
      const bool is_row_buffer = inst.buffer >= kernel.params.size();
      if (inst.predicate != loop::kNone && !(split && split->Settles(inst.predicate))) return false;
      const bool is_of_type = is_row_buffer ? inst.dtype == DType::kF32 && !split
                                            : inst.dtype == DType::kBF16 || inst.dtype == DType::kBool;
      return is_of_type && inst.index.coefs.back().is_one() && inst.index.gathered.empty();
    }
    // In bf16 a vector is as memory has it, of which nothing but a conversion knows.
    const auto is_narrow = [&](Id arg) { return varying[arg] && kernel.insts[arg].dtype == DType::kBF16; };
    return inst.op == ScalarOp::kCast || (inst.dtype != DType::kBF16 && std::ranges::none_of(inst.args, is_narrow));
  });
}

}  // namespace

bool IsAccess(const Inst& inst) { return inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore; }

bool IsAtJ(const loop::Kernel& kernel, const Inst& inst) {
  const auto rows = std::span(inst.index.coefs).first(kernel.rows.size());
  return inst.predicate == loop::kNone && inst.index.offset.is_zero() &&
         std::ranges::all_of(rows, [](const guards::Dim& coef) { return coef.is_zero(); });
}

std::vector<bool> EvenLanesFirst(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit) {
  std::vector<bool> result(kernel.blocks.size());
  if (schedule.is_tiled() || schedule.row_lanes != 0) return result;
  const auto reads_bf16 = [](const Inst& inst) { return IsAccess(inst) && inst.dtype == DType::kBF16; };
  if (std::ranges::none_of(kernel.insts, reads_bf16)) return result;
  // Two registers of f32: one of bf16.
  const unsigned lanes = unit.bytes / 2;
  size_t number = 0;
  for (size_t b = 0; b < kernel.blocks.size(); ++b) {
    const loop::Block& block = kernel.blocks[b];
    if (!block.is_loop) continue;
    result[b] = schedule.loops[number++].lanes == lanes && TreatsLanesAlike(kernel, block);
  }
  // A row buffer is in one order, or in the other.
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<bool> mixed(kernel.row_buffers.size());
    const auto for_each_access = [&](auto&& visit) {
      for (size_t b = 0; b < kernel.blocks.size(); ++b) {
        for (const Id id : kernel.blocks[b].insts) {
          const Inst& inst = kernel.insts[id];
          if (IsAccess(inst) && inst.buffer >= kernel.params.size()) {
            visit(b, inst, inst.buffer - kernel.params.size());
          }
        }
      }
    };
    for_each_access([&](size_t b, const Inst& inst, size_t buffer) {
      if (!result[b] || !IsAtJ(kernel, inst)) mixed[buffer] = true;
    });
    for_each_access([&](size_t b, const Inst&, size_t buffer) {
      if (!mixed[buffer] || !result[b]) return;
      result[b] = false;
      changed = true;
    });
  }
  return result;
}

int64_t RowBufferPadding(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                         const VectorUnit& unit) {
  const std::vector<bool> even_first = EvenLanesFirst(kernel, schedule, unit);
  for (size_t b = 0; b < kernel.blocks.size(); ++b) {
    const auto accesses = [&](Id id) {
      return IsAccess(kernel.insts[id]) && kernel.insts[id].buffer == kernel.params.size() + row_buffer;
    };
    if (even_first[b] && std::ranges::any_of(kernel.blocks[b].insts, accesses)) return int64_t{unit.bytes} / 2 - 1;
  }
  return 0;
}

}  // namespace ingot::compiler::x86
