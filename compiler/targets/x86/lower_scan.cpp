// SPDX-License-Identifier: Apache-2.0
//
// Scans: the running sum, product or extreme of what came before. Where lanes are rows it is the fold as it goes. Along
// j a vector first folds each lane into those above it, in as many steps as a lane number has bits, and then takes in
// what the vectors before it made; only that last step waits for them.
#include "compiler/loop/ops.h"
#include "compiler/targets/x86/kernel_lowering.h"

namespace ingot::compiler::x86 {

using llvm::Value;

/// The values of the scan at j, from what `accumulator` says of the places before. Lanes behind the end of the row take
/// no part in those below, so that no mask is needed.
Value* KernelLowering::UpdateScan(Accumulator& accumulator, unsigned copy) {
  const loop::Inst& inst = At(accumulator.id);
  Value* value = VectorArg(inst.args[0], copy);
  Value*& before = accumulator.parts[0];
  if (column_ != nullptr) return before = CombineParts(inst, {before}, {value})[0];
  // -0.0 leaves every number as it is, and a vector of it is shifted in by one instruction, where LLVM takes zeros for
  // an expansion under a mask, which costs three times as much.
  const bool sums_floats = inst.op == loop::ScalarOp::kScanSum && guards::IsFloat(inst.dtype);
  Value* identity = sums_floats ? llvm::ConstantFP::getNegativeZero(code_.TypeOf(inst.dtype)) : ReductionIdentity(inst);
  Value* nothing = code_.Splat(identity, lanes_);
  for (unsigned distance = 1; distance < lanes_; distance *= 2) {
    std::vector<int> lanes;
    for (unsigned i = 0; i < lanes_; ++i) lanes.push_back(static_cast<int>(i < distance ? lanes_ + i : i - distance));
    Value* below = code_.CreateShuffleVector(value, nothing, lanes);
    value = CombineParts(inst, {below}, {value})[0];
  }
  Value* result = CombineParts(inst, {before}, {value})[0];
  if (lanes_ > 1) value = code_.CreateShuffleVector(value, std::vector<int>(lanes_, static_cast<int>(lanes_ - 1)));
  before = CombineParts(inst, {before}, {value})[0];
  return result;
}

}  // namespace ingot::compiler::x86
