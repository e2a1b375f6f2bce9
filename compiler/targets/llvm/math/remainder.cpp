// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "compiler/targets/llvm/math/math.h"

namespace ingot::compiler::x86 {

using llvm::Value;

Value* EmitFmod(Builder& code, Value* a, Value* b) {
  const bool widen = a->getType()->getScalarType()->isFloatTy();
  llvm::Type* type = a->getType();
  if (widen) {
    a = code.CreateFPExt(a, Builder::Like(a, code.getDoubleTy()));
    b = code.CreateFPExt(b, a->getType());
  }
  const double infinity = std::numeric_limits<double>::infinity();
  Value* divisor = code.Abs(b);
  Value* start = code.Abs(a);
  Value* valid =
      code.CreateAnd(code.CreateFCmpOGT(divisor, code.F(a, 0)), code.CreateFCmpOLT(start, code.F(a, infinity)));
  valid = code.CreateAnd(valid, code.CreateFCmpORD(a, b));
  llvm::BasicBlock* before = code.GetInsertBlock();
  llvm::BasicBlock* body = code.NewBlock("fmod");
  llvm::BasicBlock* after = code.NewBlock("fmod.after");
  const auto unfinished = [&](Value* r) { return code.AnyOf(code.CreateAnd(valid, code.CreateFCmpOGE(r, divisor))); };
  code.CreateCondBr(unfinished(start), body, after);
  code.SetInsertPoint(body);
  // Each round takes away a multiple of the divisor whose factor has so few bits (truncated, so
  // never too large) that the fused subtraction is exact.
  llvm::PHINode* r = code.CreatePHI(a->getType(), 2);
  r->addIncoming(start, before);
  Value* base = divisor;
  // Where the quotient is huge or overflows, a multiple of the divisor divides instead: numbers
  // span 2^2098, so two steps of 2^900 are enough, and neither overflows where it is taken.
  for (int step = 0; step < 2 && !widen; ++step) {
    Value* huge = code.CreateFCmpOGT(code.CreateFDiv(r, base), code.F(a, 0x1p900));
    base = code.CreateSelect(huge, code.CreateFMul(base, code.F(a, 0x1p900)), base);
  }
  Value* q = code.CreateFDiv(r, base);
  llvm::Type* bits_type = Builder::Like(a, code.getInt64Ty());
  Value* bits = code.CreateBitCast(q, bits_type);
  q = code.CreateBitCast(code.CreateAnd(bits, code.I(bits, -(int64_t{1} << 28))), a->getType());
  Value* small = code.CreateFCmpOLT(q, code.F(a, 0x1p24));
  q = code.CreateSelect(small, code.Unary(llvm::Intrinsic::trunc, q), q);
  Value* next = code.Fma(code.CreateFNeg(q), base, r);
  // A quotient rounded up to the next factor overshoots by one unit in the factor's last place.
  constexpr int64_t kExponentMask = 0x7ff0000000000000;
  Value* power = code.CreateBitCast(code.CreateAnd(bits, code.I(bits, kExponentMask)), q->getType());
  Value* unit = code.CreateSelect(small, code.F(a, 1), code.CreateFMul(power, code.F(a, 0x1p-24)));
  next = code.CreateSelect(code.CreateFCmpOLT(next, code.F(a, 0)), code.Fma(unit, base, next), next);
  next = code.CreateSelect(code.CreateAnd(valid, code.CreateFCmpOGE(r, divisor)), next, r);
  r->addIncoming(next, code.GetInsertBlock());
  code.CreateCondBr(unfinished(next), body, after);
  code.SetInsertPoint(after);
  llvm::PHINode* result = code.CreatePHI(a->getType(), 2);
  result->addIncoming(start, before);
  result->addIncoming(next, body);
  Value* nan = code.F(a, std::numeric_limits<double>::quiet_NaN());
  Value* out = code.CreateSelect(valid, code.CopySign(result, a), nan);
  return widen ? code.CreateFPTrunc(out, type) : out;
}

}  // namespace ingot::compiler::x86
