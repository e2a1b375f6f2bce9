// SPDX-License-Identifier: Apache-2.0
//
// Scans: the running sum, product or extreme of what came before. Where lanes are rows it is the fold as it goes. Along
// j a register first folds its lanes in as many steps as a lane number has bits, and then takes in what the registers
// before it made; only one step of each vector waits for the vector before.
#include <algorithm>
#include <numeric>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/kernel_lowering.h"

namespace ingot::compiler::x86 {

using llvm::Value;

namespace {

constexpr unsigned kFours = 4;

}  // namespace

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
  if (ScansInFours(inst)) {
    Value* narrow = VectorArg(At(inst.args[0]).args[0], copy);
    std::vector<Value*> parts;
    for (Value* part : Strided(narrow, kFours)) parts.push_back(code_.CreateFPExt(part, nothing->getType()));
    std::vector<Value*> rounded;
    for (Value* part : ScanStrided(inst, std::move(parts), nothing, before)) {
      rounded.push_back(code_.CreateFPTrunc(part, Builder::Like(part, code_.getFloatTy())));
    }
    return Unstrided(rounded);
  }
  std::vector<Value*> parts;
  std::vector<int> lanes(width);
  for (unsigned first = 0; first < lanes_; first += width) {
    std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
    parts.push_back(width == lanes_ ? value : code_.CreateShuffleVector(value, lanes));
  }
  if (code_.even_first) return code_.Join(ScanStrided(inst, std::move(parts), nothing, before));
  ScanLanesOf(inst, parts, nothing);
  Value* of_parts = nullptr;  // What all registers of this vector so far make.
  for (Value*& part : parts) {
    Value* total = LastLane(part);
    part = join(of_parts == nullptr ? before : join(before, of_parts), part);
    of_parts = of_parts == nullptr ? total : join(of_parts, total);
  }
  before = join(before, of_parts);
  return code_.Join(std::move(parts));
}

/// Each register by itself, step by step for all of them: each step waits for the one before.
void KernelLowering::ScanLanesOf(const loop::Inst& inst, std::span<Value*> parts, Value* nothing) {
  const unsigned width = Builder::LanesOf(nothing);
  std::vector<int> lanes(width);
  for (unsigned distance = 1; distance < width; distance *= 2) {
    // As x86 cuts a register out of two that lie one behind the other.
    std::iota(lanes.begin(), lanes.end(), static_cast<int>(width - distance));
    for (Value*& part : parts) part = CombineParts(inst, {code_.CreateShuffleVector(nothing, part, lanes)}, {part})[0];
  }
}

Value* KernelLowering::LastLane(Value* vector) {
  const unsigned width = Builder::LanesOf(vector);
  return width == 1 ? vector : code_.CreateShuffleVector(vector, std::vector(width, static_cast<int>(width - 1)));
}

/// Registers whose lanes at one place are neighbours: those are folded first, and the lanes of one register are scanned
/// for all.
std::vector<Value*> KernelLowering::ScanStrided(const loop::Inst& inst, std::vector<Value*> parts, Value* nothing,
                                                Value*& before) {
  const auto join = [&](Value* a, Value* b) { return CombineParts(inst, {a}, {b})[0]; };
  for (size_t i = 1; i < parts.size(); ++i) parts[i] = join(parts[i - 1], parts[i]);
  Value*& last = parts.back();
  ScanLanesOf(inst, {&last, 1}, nothing);
  Value* total = LastLane(last);
  last = join(before, last);
  // What comes before a group of neighbours.
  std::vector<int> lanes(Builder::LanesOf(nothing));
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(lanes.size() - 1));
  Value* ahead = code_.CreateShuffleVector(before, last, lanes);
  for (Value*& part : std::span(parts).first(parts.size() - 1)) part = join(ahead, part);
  before = join(before, total);
  return parts;
}

/// Whether a scan in f64 begins and ends in f32, which is cheap to put in another order where one instruction picks
/// from two registers. It then gives f32.
bool KernelLowering::ScansInFours(const loop::Inst& inst) const {
  if (column_ != nullptr || !unit_.masks_any_width || inst.dtype != guards::DType::kF64) return false;
  if (!loop::IsScan(inst.op) || lanes_ != kFours * ScanLanes(inst)) return false;
  const loop::Inst& widened = At(inst.args[0]);
  if (widened.op != loop::ScalarOp::kCast || !varying_[inst.args[0]] || !varying_[widened.args[0]]) return false;
  if (At(widened.args[0]).dtype != guards::DType::kF32) return false;
  const auto id = static_cast<loop::Id>(&inst - kernel_.insts.data());
  return std::ranges::all_of(kernel_.insts, [&](const loop::Inst& user) {
    const bool is_rounded = user.op == loop::ScalarOp::kCast && user.dtype == guards::DType::kF32;
    return is_rounded || (std::ranges::find(user.args, id) == user.args.end() && user.predicate != id);
  });
}

/// A vector as `count` parts: each has every count-th lane, from another one on.
std::vector<Value*> KernelLowering::Strided(Value* vector, unsigned count) {
  std::vector<Value*> parts;
  for (unsigned first = 0; first < count; ++first) {
    std::vector<int> lanes;
    for (unsigned lane = first; lane < Builder::LanesOf(vector); lane += count) lanes.push_back(static_cast<int>(lane));
    parts.push_back(code_.CreateShuffleVector(vector, lanes));
  }
  return parts;
}

Value* KernelLowering::Unstrided(std::span<Value* const> parts) {
  const auto count = static_cast<int>(parts.size()), width = static_cast<int>(Builder::LanesOf(parts[0]));
  std::vector<int> lanes;
  for (int lane = 0; lane < count * width; ++lane) lanes.push_back(lane % count * width + lane / count);
  return code_.CreateShuffleVector(code_.Join({parts.begin(), parts.end()}), lanes);
}

}  // namespace ingot::compiler::x86
