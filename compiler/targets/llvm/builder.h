// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>
#include <utility>
#include <vector>

#include "guards/dtype.h"

namespace ingot::compiler::x86 {

/// An IRBuilder that knows scalars and vectors alike: a helper called with vector operands gives a
/// vector of as many lanes. No fast-math flag is ever set; a fused multiply-add is always explicit.
class Builder : public llvm::IRBuilder<> {
 public:
  using Value = llvm::Value;
  explicit Builder(llvm::LLVMContext& context) : llvm::IRBuilder<>(context) {}

  /// Lanes of 32 bits that a register has.
  unsigned words = 8;
  /// Whether vectors may be rounded to bf16 by AVX512_BF16.
  bool narrows_bf16 = false;
  /// Whether lanes of what is not bf16 stand in another order than in memory, even ones first (lane_order.h).
  bool even_first = false;

  /// How a value of `dtype` is held: bool as i1, f16 and bf16 as their bits in i16.
  llvm::Type* TypeOf(guards::DType dtype, unsigned lanes = 1);
  /// How it lies in memory: bool as i8.
  llvm::Type* MemoryTypeOf(guards::DType dtype, unsigned lanes = 1);
  /// `scalar`, or a vector of it with the lanes of `like`.
  static llvm::Type* Like(const Value* like, llvm::Type* scalar);
  static unsigned LanesOf(const Value* value);
  Value* Splat(Value* scalar, unsigned lanes);
  /// The even lanes of a vector and the odd ones behind them; the reverse of that.
  Value* EvenFirst(Value* vector);
  Value* Interleaved(Value* vector);
  /// The first lanes and the last, as many of each; of two lanes their scalars.
  std::pair<Value*, Value*> Halves(Value* vector);
  /// Vectors of equal lanes, a power of two of them, one behind the other.
  Value* Join(std::vector<Value*> vectors);

  Value* F(const Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }
  Value* I(const Value* like, int64_t value) {
    return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value), true);
  }
  Value* I64(int64_t value) { return getInt64(static_cast<uint64_t>(value)); }

  /// Sums and products of floats or integers.
  Value* Plus(Value* a, Value* b) { return a->getType()->isFPOrFPVectorTy() ? CreateFAdd(a, b) : CreateAdd(a, b); }
  Value* Times(Value* a, Value* b) { return a->getType()->isFPOrFPVectorTy() ? CreateFMul(a, b) : CreateMul(a, b); }
  /// a * b + c, of floats rounded once.
  Value* Fma(Value* a, Value* b, Value* c) {
    if (!a->getType()->isFPOrFPVectorTy()) return CreateAdd(CreateMul(a, b), c);
    return CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }
  Value* Unary(llvm::Intrinsic::ID id, Value* a) { return CreateIntrinsic(id, {a->getType()}, {a}); }
  Value* Binary(llvm::Intrinsic::ID id, Value* a, Value* b) { return CreateIntrinsic(id, {a->getType()}, {a, b}); }
  Value* Abs(Value* a) { return Unary(llvm::Intrinsic::fabs, a); }
  Value* CopySign(Value* a, Value* sign) { return Binary(llvm::Intrinsic::copysign, a, sign); }
  Value* IsNan(Value* a) { return CreateFCmpUNO(a, a); }
  /// Polynomial of x, lowest coefficient first, by Horner's rule with fused steps.
  Value* Polynomial(Value* x, std::span<const double> coefs);
  /// The same by Horner's rule in x^2 over pairs of terms: as many steps, half as long a chain.
  Value* PairedPolynomial(Value* x, Value* square, std::span<const double> coefs);

  /// The element of a table of eight that the three lowest bits of an i32 name, for one or for each lane.
  Value* OneOfEight(std::span<const int32_t, 8> table, Value* index);

  /// One bit for each lane of a mask of i1.
  Value* BitsOf(Value* mask);
  Value* AnyOf(Value* mask);
  Value* AllOf(Value* mask);

  /// Where a line that was asked for is kept: not beyond its first use, in the second cache, in all of them.
  enum class Keep : uint8_t { kNot = 0, kSecondCache = 2, kAll = 3 };
  /// Asks for the line at `at`, which is about to be read. One that is not there is harmless.
  void Prefetch(Value* at, Keep keep = Keep::kAll);

  /// A block after the current one in the same function.
  llvm::BasicBlock* NewBlock(const char* name);
  /// Emits `body` under `condition` (an i1) and continues behind it; gives a phi of what `body`
  /// returns and `otherwise`, or null where `body` returns null.
  template <typename Body>
  Value* If(Value* condition, Value* otherwise, Body body) {
    llvm::BasicBlock* before = GetInsertBlock();
    llvm::BasicBlock* then = NewBlock("then");
    llvm::BasicBlock* after = NewBlock("after");
    CreateCondBr(condition, then, after);
    SetInsertPoint(then);
    Value* result = body();
    llvm::BasicBlock* then_end = GetInsertBlock();
    CreateBr(after);
    SetInsertPoint(after);
    if (result == nullptr) return nullptr;
    llvm::PHINode* phi = CreatePHI(result->getType(), 2);
    phi->addIncoming(otherwise, before);
    phi->addIncoming(result, then_end);
    return phi;
  }
};

}  // namespace ingot::compiler::x86
