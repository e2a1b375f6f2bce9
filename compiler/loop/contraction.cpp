// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/contraction.h"

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

/// Adds the loads behind `id`; false where it is made of something else than loads, constants and arithmetic.
bool Collect(const Kernel& kernel, Id id, std::vector<Id>& loads) {
  const Inst& inst = kernel.insts[id];
  switch (TraitsOf(inst.op).cls) {
    case OpClass::kConst: return true;
    case OpClass::kLoad:
      if (inst.predicate != kNone || !inst.index.gathered.empty()) return false;
      if (std::ranges::find(loads, id) == loads.end()) loads.push_back(id);
      return true;
    case OpClass::kCast:
      if (inst.check != IndexCheck::kNone) return false;
      break;
    case OpClass::kArith:
    case OpClass::kFloatArith:
    case OpClass::kIntArith:
    case OpClass::kLogic: break;
    default: return false;
  }
  return std::ranges::all_of(inst.args, [&](Id arg) { return Collect(kernel, arg, loads); });
}

const Dim& Coef(const Kernel& kernel, Id load, size_t variable) { return kernel.insts[load].index.coefs[variable]; }

}  // namespace

std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block) {
  if (!block.is_contraction()) return std::nullopt;
  const Inst& dot = kernel.insts[block.insts.back()];
  if (dot.dtype != DType::kF32 && dot.dtype != DType::kF64) return std::nullopt;
  Contraction found{{dot.args[0], {}}, {dot.args[1], {}}, dot.dtype};
  for (Operand* operand : {&found.left, &found.right}) {
    if (!Collect(kernel, operand->root, operand->loads) || operand->loads.empty()) return std::nullopt;
  }
  const size_t rows = kernel.rows.size();
  const auto is_of_columns = [&](Id load) { return !Coef(kernel, load, rows).is_zero(); };
  const auto is_of_row = [&](Id load) {
    return kernel.insts[load].buffer >= kernel.params.size() || (rows > 0 && !Coef(kernel, load, rows - 1).is_zero());
  };
  if (std::ranges::any_of(found.left.loads, is_of_columns)) return std::nullopt;
  if (std::ranges::any_of(found.right.loads, is_of_row)) return std::nullopt;
  return found;
}

bool RunsAlongDepth(const Kernel& kernel, const Contraction& contraction) {
  const size_t k = kernel.rows.size() + 1;
  for (const Operand* operand : {&contraction.left, &contraction.right}) {
    bool depends = false;
    for (const Id load : operand->loads) {
      const Dim& coef = Coef(kernel, load, k);
      if (!coef.is_zero() && !coef.is_one()) return false;
      depends |= coef.is_one();
    }
    if (!depends) return false;
  }
  return true;
}

bool RunsAlongColumns(const Kernel& kernel, const Contraction& contraction) {
  const auto fits = [&](Id load) {
    const Dim& coef = Coef(kernel, load, kernel.rows.size());
    return coef.is_zero() || coef.is_one();
  };
  return std::ranges::all_of(contraction.right.loads, fits);
}

Id PlainLoad(const Kernel& kernel, const Operand& operand) {
  const Inst& root = kernel.insts[operand.root];
  if (root.op == ScalarOp::kLoad) return operand.root;
  return root.op == ScalarOp::kCast && kernel.insts[root.args[0]].op == ScalarOp::kLoad ? root.args[0] : kNone;
}

}  // namespace ingot::compiler::loop
