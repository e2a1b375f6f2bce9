// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/contraction.h"

namespace ingot::compiler::loop {
namespace {

/// The load behind a value that is nothing but its cast.
Id LoadBehind(const Kernel& kernel, Id id, bool may_be_row_buffer) {
  const Inst* inst = &kernel.insts[id];
  if (inst->op == ScalarOp::kCast && inst->check == IndexCheck::kNone) {
    id = inst->args[0];
    inst = &kernel.insts[id];
  }
  const bool is_plain = inst->op == ScalarOp::kLoad && inst->predicate == kNone && inst->index.gathered.empty() &&
                        guards::IsFloat(inst->dtype) && (may_be_row_buffer || inst->buffer < kernel.params.size());
  return is_plain ? id : kNone;
}

}  // namespace

std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block) {
  if (!block.is_contraction()) return std::nullopt;
  const Inst& dot = kernel.insts[block.insts.back()];
  if (dot.dtype != DType::kF32 && dot.dtype != DType::kF64) return std::nullopt;
  const Contraction found{LoadBehind(kernel, dot.args[0], true), LoadBehind(kernel, dot.args[1], false), dot.dtype};
  if (found.left == kNone || found.right == kNone) return std::nullopt;
  const size_t rows = kernel.rows.size();
  if (!kernel.insts[found.left].index.coefs[rows].is_zero()) return std::nullopt;
  if (rows > 0 && !kernel.insts[found.right].index.coefs[rows - 1].is_zero()) return std::nullopt;
  return found;
}

bool HasLanes(const Kernel& kernel, const Contraction& contraction) {
  const Dims& left = kernel.insts[contraction.left].index.coefs;
  const Dims& right = kernel.insts[contraction.right].index.coefs;
  const size_t j = kernel.rows.size();
  return (left[j + 1].is_one() && right[j + 1].is_one()) || right[j].is_one();
}

}  // namespace ingot::compiler::loop
