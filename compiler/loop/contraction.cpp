// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/contraction.h"

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

/// Adds the loads and positions behind `id`; false where it is made of something else than those, constants and
/// arithmetic.
bool Collect(const Kernel& kernel, Id id, Operand& operand) {
  const Inst& inst = kernel.insts[id];
  const auto add = [&](std::vector<Id>& ids) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    return true;
  };
  switch (TraitsOf(inst.op).cls) {
    case OpClass::kConst:
    case OpClass::kSize: return true;
    case OpClass::kLoad:
      if (!inst.index.gathered.empty()) return false;
      if (inst.predicate != kNone) {
        operand.is_guarded = true;
        if (!Collect(kernel, inst.predicate, operand)) return false;
      }
      return add(operand.loads);
    case OpClass::kIndex: return inst.index.gathered.empty() && add(operand.indices);
    case OpClass::kCast:
      if (inst.check != IndexCheck::kNone) return false;
      break;
    case OpClass::kArith:
    case OpClass::kFloatArith:
    case OpClass::kIntArith:
    case OpClass::kLogic:
    case OpClass::kCompare:
    case OpClass::kSelect: break;
    default: return false;
  }
  return std::ranges::all_of(inst.args, [&](Id arg) { return Collect(kernel, arg, operand); });
}

const Dim& Coef(const Kernel& kernel, Id access, size_t variable) { return kernel.insts[access].index.coefs[variable]; }

/// How far apart lanes may lie in what rows read.
constexpr int64_t kStrideMax = 4;

/// Steps of k that lanes along `variable` find, for comparison; 0 where they cannot run along it.
int64_t LanesAlong(const Kernel& kernel, const Contraction& contraction, size_t variable, const Dim& extent) {
  constexpr int64_t kTypicalDepth = 1 << 20;
  int64_t stride = 1;
  for (const Operand* operand : {&contraction.left, &contraction.right}) {
    bool depends = false;
    for (const Id load : operand->loads) {
      const Dim& coef = Coef(kernel, load, variable);
      if (coef.is_zero()) continue;
      depends = true;
      const int64_t most = operand == &contraction.left ? kStrideMax : 1;
      if (!coef.is_const() || coef.const_value() < 1 || coef.const_value() > most) return 0;
      stride = std::max(stride, coef.const_value());
    }
    if (!depends) return 0;
  }
  const int64_t steps = extent.is_const() ? std::max<int64_t>(1, extent.const_value()) : kTypicalDepth;
  return std::max<int64_t>(1, steps / stride);
}

}  // namespace

std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block) {
  if (!block.is_contraction()) return std::nullopt;
  const Inst& dot = kernel.insts[block.insts.back()];
  if (dot.dtype != DType::kF32 && dot.dtype != DType::kF64 && dot.dtype != DType::kI32) return std::nullopt;
  Contraction found{{dot.args[0], {}, {}}, {dot.args[1], {}, {}}, dot.dtype, block.depths};
  for (Operand* operand : {&found.left, &found.right}) {
    if (!Collect(kernel, operand->root, *operand)) return std::nullopt;
  }
  if (found.right.is_guarded) return std::nullopt;
  const size_t rows = kernel.rows.size();
  const auto is_of_columns = [&](Id access) { return !Coef(kernel, access, rows).is_zero(); };
  const auto is_of_row = [&](Id access) {
    const Inst& inst = kernel.insts[access];
    return (inst.op == ScalarOp::kLoad && inst.buffer >= kernel.params.size()) ||
           (rows > 0 && !Coef(kernel, access, rows - 1).is_zero());
  };
  for (const std::vector<Id>* accesses : {&found.left.loads, &found.left.indices}) {
    if (std::ranges::any_of(*accesses, is_of_columns)) return std::nullopt;
  }
  for (const std::vector<Id>* accesses : {&found.right.loads, &found.right.indices}) {
    if (std::ranges::any_of(*accesses, is_of_row)) return std::nullopt;
  }
  return found;
}

std::optional<size_t> DepthOfLanes(const Kernel& kernel, const Contraction& contraction) {
  std::optional<size_t> best;
  int64_t most = 0;
  for (size_t n = 0; n < contraction.depths.size(); ++n) {
    const int64_t steps = LanesAlong(kernel, contraction, kernel.rows.size() + 1 + n, contraction.depths[n]);
    if (steps == 0 || steps < most) continue;
    best = n;
    most = steps;
  }
  return best;
}

bool DependsOn(const Kernel& kernel, Id id, size_t variable) {
  const Inst& inst = kernel.insts[id];
  const bool has_index = inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kIndex;
  if (has_index && !inst.index.coefs[variable].is_zero()) return true;
  return std::ranges::any_of(inst.args, [&](Id arg) { return DependsOn(kernel, arg, variable); });
}

bool RightDependsOnRow(const Kernel& kernel, const Contraction& contraction, size_t dim) {
  return DependsOn(kernel, contraction.right.root, dim);
}

bool RunsAlongColumns(const Kernel& kernel, const Contraction& contraction) {
  const auto fits = [&](Id load) {
    const Dim& coef = Coef(kernel, load, kernel.rows.size());
    return coef.is_zero() || coef.is_one();
  };
  return std::ranges::all_of(contraction.right.loads, fits);
}

bool IsWindow(const Kernel& kernel, const Contraction& contraction) {
  const auto is_load = [&](const Operand& operand) {
    const Inst& root = kernel.insts[operand.root];
    return root.op == ScalarOp::kLoad && root.dtype == DType::kF32 && root.buffer < kernel.params.size();
  };
  if (!is_load(contraction.left) || !is_load(contraction.right) || contraction.sum != DType::kF32) return false;
  for (size_t n = 0; n < contraction.depths.size(); ++n) {
    if (Coef(kernel, contraction.right.root, kernel.rows.size() + 1 + n).is_one()) return true;
  }
  return false;
}

Id PlainLoad(const Kernel& kernel, const Operand& operand) {
  const Inst& root = kernel.insts[operand.root];
  if (root.op == ScalarOp::kLoad) return operand.root;
  return root.op == ScalarOp::kCast && kernel.insts[root.args[0]].op == ScalarOp::kLoad ? root.args[0] : kNone;
}

}  // namespace ingot::compiler::loop
