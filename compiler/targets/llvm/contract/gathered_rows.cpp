// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/contract/gathered_rows.h"

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::x86 {
namespace {

// Steps of all depths: rows of a register tile stay in the first cache.
constexpr int64_t kGatheredSteps = 512;
// How far apart neighbours may lie where vectors read them.
constexpr int64_t kGatheredStride = 4;

/// Whether what `id` says along each depth turns once at most, and in the same place for all steps of the others.
bool HoldsInBetween(const loop::Kernel& kernel, const loop::Contraction& contraction, loop::Id id) {
  using loop::ScalarOp;
  const loop::Inst& inst = kernel.insts[id];
  const auto depths_of = [&](loop::Id value) {
    size_t count = 0;
    for (size_t k = 0; k < contraction.depths.size(); ++k) {
      count += loop::DependsOn(kernel, value, kernel.rows.size() + 1 + k) ? 1 : 0;
    }
    return count;
  };
  if (depths_of(id) == 0) return true;
  switch (inst.op) {
    case ScalarOp::kAnd:
      return std::ranges::all_of(inst.args, [&](loop::Id arg) { return HoldsInBetween(kernel, contraction, arg); });
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe: {
      // Positions grow or fall along a depth.
      const loop::Id left = inst.args[0], right = inst.args[1];
      return kernel.insts[left].op == ScalarOp::kIndex && depths_of(left) == 1 && depths_of(right) == 0;
    }
    default: return false;
  }
}

}  // namespace

std::optional<GatheredRows> GatheredRowsOf(const loop::Kernel& kernel, const loop::Contraction& contraction,
                                           const WindowPanel& panel) {
  const size_t count = contraction.depths.size();
  if (count < 2 || panel.run.empty()) return std::nullopt;
  const auto of_row = [&](size_t k) -> const guards::Dim& {
    return kernel.insts[contraction.left.root].index.coefs[kernel.rows.size() + 1 + k];
  };
  GatheredRows rows;
  for (const guards::Dim& depth : contraction.depths) {
    if (!depth.is_const() || depth.const_value() < 1 || depth.const_value() > kGatheredSteps) return std::nullopt;
    rows.steps *= depth.const_value();
    if (rows.steps > kGatheredSteps) return std::nullopt;
  }
  const guards::Dim& stride = of_row(panel.run[0]);
  if (!stride.is_const() || stride.const_value() < 1 || stride.const_value() > kGatheredStride) return std::nullopt;
  rows.stride = stride.const_value();
  for (const size_t k : panel.run) {
    if (!rows.run.empty() && (rows.stride != 1 || !(of_row(k) == guards::Dim(rows.run_steps)))) break;
    rows.run.push_back(k);
    rows.run_steps *= contraction.depths[k].const_value();
  }
  const auto is_asked = [&](size_t k) {
    return std::ranges::any_of(contraction.left.indices, [&](loop::Id id) {
      return !kernel.insts[id].index.coefs[kernel.rows.size() + 1 + k].is_zero();
    });
  };
  for (size_t k = 0; k < count; ++k) {
    if (std::ranges::find(rows.run, k) == rows.run.end()) rows.outer.push_back(k);
  }
  std::ranges::stable_partition(rows.outer, is_asked);
  const loop::Id condition = kernel.insts[contraction.left.root].predicate;
  rows.holds_in_between = condition != loop::kNone && HoldsInBetween(kernel, contraction, condition);
  return rows;
}

int64_t BytesOf(const GatheredRows& gathered, int64_t rows, const VectorUnit& unit) {
  const int64_t lanes = unit.bytes / int64_t{sizeof(float)};
  // A last vector reaches beyond the last step.
  return (gathered.steps + 2 * lanes - 2) / lanes * unit.bytes * rows;
}

}  // namespace ingot::compiler::x86
