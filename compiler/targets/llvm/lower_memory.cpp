// SPDX-License-Identifier: Apache-2.0
//
// Vector accesses. Contiguous ones are plain or masked vectors; what AVX2 has no instruction for
// (gathers worth their name, masks of 8 and 16 bit elements) goes lane by lane over the set bits
// of the mask, through a vector's worth of stack.
#include "compiler/targets/llvm/kernel_lowering.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;

KernelLowering::Pattern KernelLowering::PatternOf(const Inst& inst) const {
  if (column_ != nullptr && IsRowBuffer(inst)) return Pattern::kContiguous;
  if (IsTransposed(static_cast<Id>(&inst - kernel_.insts.data()))) return Pattern::kContiguous;
  for (const loop::Index::Gathered& g : inst.index.gathered) {
    if (varying_[g.value]) return Pattern::kScattered;
  }
  const guards::Dim& coef = LaneCoef(inst.index);
  if (coef.is_zero()) return Pattern::kSame;
  return coef.is_one() ? Pattern::kContiguous : Pattern::kScattered;
}

/// Null where every lane is accessed.
Value* KernelLowering::MaskFor(const Inst& inst, unsigned copy) {
  const bool is_unconditional = inst.predicate == loop::kNone || IsSettled(inst.predicate, true);
  if (is_unconditional) return code_.even_first && !IsRowBuffer(inst) ? memory_mask_ : lane_mask_;
  Value* predicate = VectorArg(inst.predicate, copy);
  return lane_mask_ == nullptr ? predicate : code_.CreateAnd(predicate, lane_mask_);
}

Value* KernelLowering::ContiguousPointer(Id id, unsigned copy, Value* mask) {
  llvm::Type* memory = code_.MemoryTypeOf(At(id).dtype);
  Value* at = code_.CreateGEP(memory, bases_[id], {j_});
  if (copy != 0) at = code_.CreateConstGEP1_64(memory, at, uint64_t{copy} * lanes_);
  return IsTransposed(id) ? at : CheckedVector(At(id), at, mask);
}

/// Element numbers relative to the base, as a vector; null where they are affine in the lane.
Value* KernelLowering::ScatterIndices(Id id, unsigned copy) {
  for (const loop::Index::Gathered& g : At(id).index.gathered) {
    if (varying_[g.value]) return VectorIndex(At(id).index, copy, code_.I64(0));
  }
  return nullptr;
}

/// `indices` is the vector itself for a constant lane, its copy on the stack otherwise.
Value* KernelLowering::LanePointer(Id id, unsigned copy, Value* lane, Value* indices) {
  const Inst& inst = At(id);
  llvm::Type* i64 = code_.getInt64Ty();
  Value* index = nullptr;
  if (indices == nullptr) {
    Value* j = code_.CreateAdd(j_, code_.CreateAdd(lane, code_.I64(int64_t{copy} * lanes_)));
    index = IsTransposed(id) ? j : code_.CreateMul(j, Evaluate(LaneCoef(inst.index)));
  } else if (indices->getType()->isVectorTy()) {
    index = code_.CreateExtractElement(indices, lane);
  } else {
    index = code_.CreateLoad(i64, code_.CreateGEP(i64, indices, {lane}));
  }
  Value* at = code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), bases_[id], {index});
  return IsTransposed(id) ? at : Checked(inst, at);
}

namespace {

/// Whether a mask is the constant that leaves the first lane alone: a tail of one element.
bool IsFirstLane(const Value* mask) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (constant == nullptr) return false;
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const llvm::Constant* bit = constant->getAggregateElement(lane);
    if (bit == nullptr || (lane == 0 ? !bit->isOneValue() : !bit->isNullValue())) return false;
  }
  return true;
}

}  // namespace

template <typename Body>
void KernelLowering::ForEachLane(Value* mask, Body body) {
  Value* all = code_.BitsOf(mask);
  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* loop = code_.NewBlock("lane");
  llvm::BasicBlock* after = code_.NewBlock("lane.after");
  code_.CreateCondBr(code_.CreateICmpNE(all, code_.I(all, 0)), loop, after);
  code_.SetInsertPoint(loop);
  llvm::PHINode* bits = code_.CreatePHI(all->getType(), 2);
  bits->addIncoming(all, before);
  Value* lane = code_.CreateIntrinsic(llvm::Intrinsic::cttz, {all->getType()}, {bits, code_.getTrue()});
  body(code_.CreateZExtOrTrunc(lane, code_.getInt64Ty()));
  Value* rest = code_.CreateAnd(bits, code_.CreateSub(bits, code_.I(bits, 1)));
  bits->addIncoming(rest, code_.GetInsertBlock());
  code_.CreateCondBr(code_.CreateICmpNE(rest, code_.I(rest, 0)), loop, after);
  code_.SetInsertPoint(after);
}

/// Lanes as in memory to lanes as values have them, and back. In bf16 a vector stays as it is in memory until it is
/// converted, and a row buffer holds what this kernel has put there.
Value* KernelLowering::InLaneOrder(const Inst& inst, Value* vector) {
  const bool moves = code_.even_first && inst.dtype == DType::kBool && !IsRowBuffer(inst);
  return moves ? code_.EvenFirst(vector) : vector;
}
Value* KernelLowering::InMemoryOrder(const Inst& inst, Value* vector) {
  const bool moves = code_.even_first && inst.dtype == DType::kBool && !IsRowBuffer(inst);
  return moves ? code_.Interleaved(vector) : vector;
}

Value* KernelLowering::VectorLoad(Id id, unsigned copy) {
  const Inst& inst = At(id);
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  llvm::Type* vector = code_.MemoryTypeOf(inst.dtype, lanes_);
  const llvm::Align align(guards::SizeOf(inst.dtype));
  if (IsSettled(inst.predicate, false)) return FromMemory(llvm::Constant::getNullValue(vector), inst.dtype);
  Value* mask = MaskFor(inst, copy);
  if (mask != nullptr) return FromMemory(InLaneOrder(inst, MaskedLoad(id, copy, mask)), inst.dtype);
  Value* result = nullptr;
  switch (PatternOf(inst)) {
    case Pattern::kContiguous:
      result = code_.CreateAlignedLoad(vector, ContiguousPointer(id, copy, nullptr), align);
      break;
    case Pattern::kSame:
      result = code_.Splat(code_.CreateAlignedLoad(memory, Checked(inst, bases_[id]), align), lanes_);
      break;
    case Pattern::kScattered: {
      Value* indices = ScatterIndices(id, copy);
      result = llvm::PoisonValue::get(vector);
      for (unsigned lane = 0; lane < lanes_; ++lane) {
        Value* at = LanePointer(id, copy, code_.I64(lane), indices);
        result = code_.CreateInsertElement(result, code_.CreateAlignedLoad(memory, at, align), uint64_t{lane});
      }
      break;
    }
  }
  return FromMemory(InLaneOrder(inst, result), inst.dtype);
}

Value* KernelLowering::MaskedLoad(Id id, unsigned copy, Value* mask) {
  const Inst& inst = At(id);
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  llvm::Type* vector = code_.MemoryTypeOf(inst.dtype, lanes_);
  Value* zero = llvm::Constant::getNullValue(vector);
  const llvm::Align align(guards::SizeOf(inst.dtype));
  const Pattern pattern = PatternOf(inst);
  if (pattern == Pattern::kSame) {
    Value* one = code_.If(code_.AnyOf(mask), llvm::Constant::getNullValue(memory),
                          [&] { return code_.CreateAlignedLoad(memory, Checked(inst, bases_[id]), align); });
    return code_.CreateSelect(mask, code_.Splat(one, lanes_), zero);
  }
  const bool is_contiguous = pattern == Pattern::kContiguous;
  if (is_contiguous && HasMaskedAccess(inst.dtype)) {
    return code_.CreateMaskedLoad(vector, ContiguousPointer(id, copy, mask), align, mask, zero);
  }
  const auto by_lane = [&]() -> Value* {
    Value* indices = is_contiguous ? nullptr : ScatterIndices(id, copy);
    if (indices != nullptr) code_.CreateStore(indices, index_slots_);
    code_.CreateStore(zero, lane_slots_);
    ForEachLane(mask, [&](Value* lane) {
      Value* at = LanePointer(id, copy, lane, indices == nullptr ? nullptr : index_slots_);
      Value* element = code_.CreateAlignedLoad(memory, at, align);
      code_.CreateStore(element, code_.CreateGEP(memory, lane_slots_, {lane}));
    });
    return code_.CreateLoad(vector, lane_slots_);
  };
  if (!is_contiguous) return by_lane();
  // Most vectors of a predicate are all true: those are loaded whole.
  Value* whole = code_.If(code_.AllOf(mask), zero,
                          [&] { return code_.CreateAlignedLoad(vector, ContiguousPointer(id, copy, nullptr), align); });
  return code_.If(code_.CreateNot(code_.AllOf(mask)), whole, by_lane);
}

void KernelLowering::VectorStore(Id id, unsigned copy) {
  const Inst& inst = At(id);
  if (IsSettled(inst.predicate, false)) return;
  Value* value = InMemoryOrder(inst, ToMemory(VectorArg(inst.args[0], copy), inst.dtype));
  const llvm::Align align(guards::SizeOf(inst.dtype));
  Value* mask = MaskFor(inst, copy);
  if (mask != nullptr) return MaskedStore(id, copy, value, mask);
  switch (PatternOf(inst)) {
    case Pattern::kContiguous: code_.CreateAlignedStore(value, ContiguousPointer(id, copy, nullptr), align); break;
    case Pattern::kSame:  // The last value of j stays.
      code_.CreateAlignedStore(code_.CreateExtractElement(value, uint64_t{lanes_ - 1}), Checked(inst, bases_[id]),
                               align);
      break;
    case Pattern::kScattered: {
      Value* indices = ScatterIndices(id, copy);
      for (unsigned lane = 0; lane < lanes_; ++lane) {
        Value* at = LanePointer(id, copy, code_.I64(lane), indices);
        code_.CreateAlignedStore(code_.CreateExtractElement(value, uint64_t{lane}), at, align);
      }
      break;
    }
  }
}

void KernelLowering::MaskedStore(Id id, unsigned copy, Value* value, Value* mask) {
  const Inst& inst = At(id);
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  const llvm::Align align(guards::SizeOf(inst.dtype));
  const bool is_contiguous = PatternOf(inst) == Pattern::kContiguous;
  const auto partial = [&]() -> Value* {
    if (is_contiguous && HasMaskedAccess(inst.dtype)) {
      code_.CreateMaskedStore(value, ContiguousPointer(id, copy, mask), align, mask);
      return nullptr;
    }
    Value* indices = is_contiguous ? nullptr : ScatterIndices(id, copy);
    if (indices != nullptr) code_.CreateStore(indices, index_slots_);
    code_.CreateStore(value, lane_slots_);
    ForEachLane(mask, [&](Value* lane) {
      Value* element = code_.CreateLoad(memory, code_.CreateGEP(memory, lane_slots_, {lane}));
      Value* at = LanePointer(id, copy, lane, indices == nullptr ? nullptr : index_slots_);
      code_.CreateAlignedStore(element, at, align);
    });
    return nullptr;
  };
  if (!is_contiguous) {
    partial();
    return;
  }
  // LLVM 22 merges a truncation with a masked store of one lane into a store as wide as what was
  // truncated, which overwrites the neighbour.
  if (IsFirstLane(mask)) {
    code_.CreateAlignedStore(code_.CreateExtractElement(value, uint64_t{0}), ContiguousPointer(id, copy, mask), align);
    return;
  }
  // Masked stores of whole vectors are many times slower than plain ones on some processors.
  Value* all = code_.AllOf(mask);
  code_.If(all, nullptr, [&]() -> Value* {
    code_.CreateAlignedStore(value, ContiguousPointer(id, copy, nullptr), align);
    return nullptr;
  });
  code_.If(code_.CreateNot(all), nullptr, partial);
}

}  // namespace ingot::compiler::x86
