// SPDX-License-Identifier: Apache-2.0
//
// Scans: the running sum, product or extreme of what came before. Where lanes are rows it is the fold as it goes. Along
// j a register first folds its lanes in as many steps as a lane number has bits, and then takes in what the registers
// before it made; only one step of each vector waits for the vector before.
#include <algorithm>
#include <numeric>

#include "compiler/loop/ops.h"
#include "compiler/targets/x86/kernel_lowering.h"

namespace ingot::compiler::x86 {

using llvm::Value;

/// Lanes of a register, or of the whole vector where that is less.
unsigned KernelLowering::ScanLanes(const loop::Inst& inst) const {
  if (column_ != nullptr) return lanes_;
  return std::min(lanes_, unit_.bytes / static_cast<unsigned>(guards::SizeOf(inst.dtype)));
}

/// The values of the scan at j, from what `accumulator` says of the places before. Lanes behind the end of the row take
/// no part in those below, so that no mask is needed.
Value* KernelLowering::UpdateScan(Accumulator& accumulator, unsigned copy) {
  const loop::Inst& inst = At(accumulator.id);
  Value* value = VectorArg(inst.args[0], copy);
  Value*& before = accumulator.parts[0];
  const auto join = [&](Value* a, Value* b) { return CombineParts(inst, {a}, {b})[0]; };
  if (column_ != nullptr) return before = join(before, value);
  // -0.0 leaves every number as it is, zero included.
  const bool sums_floats = inst.op == loop::ScalarOp::kScanSum && guards::IsFloat(inst.dtype);
  Value* identity = sums_floats ? llvm::ConstantFP::getNegativeZero(code_.TypeOf(inst.dtype)) : ReductionIdentity(inst);
  const unsigned width = ScanLanes(inst);
  Value* nothing = code_.Splat(identity, width);
  std::vector<Value*> parts;
  std::vector<int> lanes(width);
  for (unsigned first = 0; first < lanes_; first += width) {
    std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
    parts.push_back(width == lanes_ ? value : code_.CreateShuffleVector(value, lanes));
  }
  // Step by step for all registers: each step waits for the one before.
  for (unsigned distance = 1; distance < width; distance *= 2) {
    // As x86 cuts a register out of two that lie one behind the other.
    for (unsigned i = 0; i < width; ++i) lanes[i] = static_cast<int>(width - distance + i);
    for (Value*& part : parts) part = join(code_.CreateShuffleVector(nothing, part, lanes), part);
  }
  std::ranges::fill(lanes, static_cast<int>(width - 1));
  Value* of_parts = nullptr;  // What all registers of this vector so far make.
  for (Value*& part : parts) {
    Value* total = width == 1 ? part : code_.CreateShuffleVector(part, lanes);
    part = join(of_parts == nullptr ? before : join(before, of_parts), part);
    of_parts = of_parts == nullptr ? total : join(of_parts, total);
  }
  before = join(before, of_parts);
  return code_.Join(std::move(parts));
}

}  // namespace ingot::compiler::x86
