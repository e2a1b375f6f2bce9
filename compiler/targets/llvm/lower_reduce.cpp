// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/kernel_lowering.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

bool IsBool(ScalarOp op) { return op == ScalarOp::kReduceAny || op == ScalarOp::kReduceAll; }
bool IsArg(ScalarOp op) { return op == ScalarOp::kReduceArgMax || op == ScalarOp::kReduceArgMin; }
bool IsMax(ScalarOp op) {
  return op == ScalarOp::kReduceMax || op == ScalarOp::kReduceMaxNumber || op == ScalarOp::kReduceArgMax;
}

/// Whether `a` beats `b` outright: NaN before numbers, else strictly larger (or smaller).
Value* Beats(Builder& code, bool is_max, Typed a, Typed b) {
  if (!guards::IsFloat(a.dtype)) {
    if (a.dtype == DType::kU8) {
      return is_max ? code.CreateICmpUGT(a.value, b.value) : code.CreateICmpULT(a.value, b.value);
    }
    return is_max ? code.CreateICmpSGT(a.value, b.value) : code.CreateICmpSLT(a.value, b.value);
  }
  Value* unordered_or_beats = is_max ? code.CreateFCmpUGT(a.value, b.value) : code.CreateFCmpULT(a.value, b.value);
  return code.CreateAnd(unordered_or_beats, code.CreateNot(code.IsNan(b.value)));
}

}  // namespace

Value* KernelLowering::ReductionIdentity(const Inst& inst) {
  const DType dtype = At(inst.args[0]).dtype;
  llvm::Type* type = code_.TypeOf(dtype);
  const ScalarOp op = loop::ReductionOf(inst.op);
  switch (op) {
    case ScalarOp::kReduceAny: return code_.getFalse();
    case ScalarOp::kReduceAll: return code_.getTrue();
    case ScalarOp::kReduceSum: return llvm::Constant::getNullValue(type);
    case ScalarOp::kReduceProd:
      return guards::IsFloat(dtype) ? static_cast<Value*>(llvm::ConstantFP::get(type, 1))
                                    : llvm::ConstantInt::get(type, 1);
    default: break;
  }
  const bool is_max = IsMax(op);
  if (guards::IsFloat(dtype)) return llvm::ConstantFP::getInfinity(type, is_max);
  const unsigned bits = type->getIntegerBitWidth();
  const bool is_unsigned = dtype == DType::kU8;
  const llvm::APInt extreme =
      is_max ? (is_unsigned ? llvm::APInt::getMinValue(bits) : llvm::APInt::getSignedMinValue(bits))
             : (is_unsigned ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  return llvm::ConstantInt::get(type, extreme);
}

KernelLowering::Accumulators KernelLowering::StartReductions(const loop::Block& block) {
  Accumulators result;
  for (const Id id : block.insts) {
    const Inst& inst = At(id);
    if (!loop::JoinsColumns(inst.op)) continue;
    Accumulator accumulator{id, {}};
    // A scan goes through its copies one by one.
    const unsigned copies = loop::IsScan(inst.op) ? 1 : unroll_;
    for (unsigned copy = 0; copy < copies; ++copy) {
      Value* identity = ReductionIdentity(inst);
      const bool is_one = IsBool(inst.op) && column_ == nullptr;
      const unsigned lanes = loop::IsScan(inst.op) ? ScanLanes(inst) : lanes_;
      accumulator.parts.push_back(is_one ? identity : code_.Splat(identity, lanes));
      // Position 0 is right even where nothing beats the identity.
      if (IsArg(inst.op)) accumulator.parts.push_back(code_.Splat(code_.I64(0), lanes_));
    }
    result.push_back(std::move(accumulator));
  }
  return result;
}

void KernelLowering::UpdateReduction(Accumulator& accumulator, unsigned copy) {
  const Inst& inst = At(accumulator.id);
  const DType dtype = At(inst.args[0]).dtype;
  Value* value = VectorArg(inst.args[0], copy);
  Value* mask = lane_mask_;
  if (IsBool(inst.op) && column_ == nullptr) {
    Value*& part = accumulator.parts[copy];
    if (inst.op == ScalarOp::kReduceAny) {
      part = code_.CreateOr(part, code_.AnyOf(mask ? code_.CreateAnd(value, mask) : value));
    } else {
      Value* holds = mask ? code_.CreateOr(value, code_.CreateNot(mask)) : value;
      part = code_.CreateAnd(part, code_.AllOf(holds));
    }
    return;
  }
  if (IsArg(inst.op)) {
    Value*& best = accumulator.parts[2 * copy];
    Value*& at = accumulator.parts[2 * copy + 1];
    Value* beats = Beats(code_, IsMax(inst.op), {value, dtype}, {best, dtype});
    if (mask != nullptr && column_ == nullptr) beats = code_.CreateAnd(beats, mask);
    Value* j = code_.CreateAdd(j_, code_.I64(int64_t{copy} * lanes_));
    Value* position = column_ != nullptr ? code_.Splat(column_, lanes_)
                                         : code_.CreateAdd(code_.Splat(j, lanes_), LaneNumbers(code_.getInt64Ty()));
    best = code_.CreateSelect(beats, value, best);
    at = code_.CreateSelect(beats, position, at);
    return;
  }
  if (mask != nullptr && column_ == nullptr) {
    value = code_.CreateSelect(mask, value, code_.Splat(ReductionIdentity(inst), lanes_));
  }
  Value*& part = accumulator.parts[copy];
  part = CombineParts(inst, {part}, {value})[0];
}

/// One step of a reduction between two running values of equal lanes.
std::vector<Value*> KernelLowering::CombineParts(const Inst& inst, std::vector<Value*> a, std::vector<Value*> b) {
  const DType dtype = At(inst.args[0]).dtype;
  const bool is_float = guards::IsFloat(dtype);
  const ScalarOp op = loop::ReductionOf(inst.op);
  switch (op) {
    case ScalarOp::kReduceSum: return {is_float ? code_.CreateFAdd(a[0], b[0]) : code_.CreateAdd(a[0], b[0])};
    case ScalarOp::kReduceProd: return {is_float ? code_.CreateFMul(a[0], b[0]) : code_.CreateMul(a[0], b[0])};
    case ScalarOp::kReduceAny: return {code_.CreateOr(a[0], b[0])};
    case ScalarOp::kReduceAll: return {code_.CreateAnd(a[0], b[0])};
    case ScalarOp::kReduceMax:
    case ScalarOp::kReduceMin: return {EmitExtreme(code_, IsMax(op), {a[0], dtype}, {b[0], dtype})};
    case ScalarOp::kReduceMaxNumber:
      if (!is_float) return {EmitExtreme(code_, true, {a[0], dtype}, {b[0], dtype})};
      // One instruction: a NaN in b loses, and a, the running value, is none.
      return {code_.CreateSelect(code_.CreateFCmpOGT(b[0], a[0]), b[0], a[0])};
    default: break;
  }
  // Of equal values (or two NaN) the one at the lower position stays.
  const bool is_max = IsMax(inst.op);
  Value* b_wins = Beats(code_, is_max, {b[0], dtype}, {a[0], dtype});
  Value* a_wins = Beats(code_, is_max, {a[0], dtype}, {b[0], dtype});
  Value* b_first = code_.CreateICmpSLT(b[1], a[1]);
  Value* take_b = code_.CreateOr(b_wins, code_.CreateAnd(code_.CreateNot(a_wins), b_first));
  return {code_.CreateSelect(take_b, b[0], a[0]), code_.CreateSelect(take_b, b[1], a[1])};
}

/// Leaves one copy of each accumulator.
void KernelLowering::MergeCopies(Accumulators& accumulators) {
  for (Accumulator& accumulator : accumulators) {
    if (accumulator.is_total) continue;
    const Inst& inst = At(accumulator.id);
    const size_t width = IsArg(inst.op) ? 2 : 1;
    std::vector<Value*>& parts = accumulator.parts;
    const auto copy_at = [&](size_t i) {
      return std::vector<Value*>(parts.begin() + i * width, parts.begin() + (i + 1) * width);
    };
    // Pairs first: a balanced tree of sums loses least.
    for (size_t count = parts.size() / width; count > 1; count /= 2) {
      for (size_t i = 0; i < count / 2; ++i) {
        const std::vector<Value*> merged = CombineParts(inst, copy_at(i), copy_at(i + count / 2));
        std::ranges::copy(merged, parts.begin() + i * width);
      }
    }
    parts.resize(width);
  }
}

/// Folds the lanes in halves, down to one.
void KernelLowering::ReduceLanes(Accumulator& accumulator) {
  const Inst& inst = At(accumulator.id);
  std::vector<Value*>& parts = accumulator.parts;
  while (Builder::LanesOf(parts[0]) > 1) {
    std::vector<Value*> a, b;
    for (Value* part : parts) {
      const auto [low, high] = code_.Halves(part);
      a.push_back(low);
      b.push_back(high);
    }
    if (!accumulator.is_total) {
      parts = CombineParts(inst, std::move(a), std::move(b));
      continue;
    }
    for (size_t p = 0; p < parts.size(); ++p) parts[p] = code_.CreateFAdd(a[p], b[p]);
  }
}

/// The result is the row scalar.
void KernelLowering::FinishReduction(Accumulator accumulator) {
  if (loop::IsScan(At(accumulator.id).op)) return;
  if (!IsBool(At(accumulator.id).op)) ReduceLanes(accumulator);
  scalars_[accumulator.id] = accumulator.is_total ? RoundTotal(accumulator) : accumulator.parts.back();
}

}  // namespace ingot::compiler::x86
