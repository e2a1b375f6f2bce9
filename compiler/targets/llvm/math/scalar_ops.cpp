// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/math/scalar_ops.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <numeric>

#include "compiler/targets/llvm/math/math.h"

namespace ingot::compiler::x86 {
namespace {

using guards::DType;
using llvm::Value;
using llvm::Intrinsic::ID;
using loop::ScalarOp;

bool IsNarrow(DType t) { return t == DType::kF16 || t == DType::kBF16 || guards::IsFloat8(t); }
bool IsUnsigned(DType t) { return t == DType::kU8 || t == DType::kBool; }

/// Behind a fence: LLVM takes a selection between numbers that were widened for the least or greatest of the narrow
/// ones, and of zeros of both signs gives the other one.
Value* WidenFloat(Builder& code, Value* v, llvm::Type* type) {
  Value* wide = code.CreateFPCast(v, type);
  if (llvm::isa<llvm::Constant>(wide)) return wide;
  return code.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {type}, {wide});
}

Value* HalfBitsToFloat(Builder& code, Value* bits) {
  Value* half = code.CreateBitCast(bits, Builder::Like(bits, code.getHalfTy()));
  return WidenFloat(code, half, Builder::Like(bits, code.getFloatTy()));
}

/// Through f16, whose conversion knows denormals whatever the processor is told of them. An e5m2 is the upper half of
/// an f16; an e4m3 has the same fields with another bias, 2^8 apart, and a NaN where f16 has a number.
Value* WidenFloat8(Builder& code, Typed from) {
  Value* bits = code.CreateZExt(from.value, Builder::Like(from.value, code.getInt16Ty()));
  if (from.dtype == DType::kF8E5M2) return HalfBitsToFloat(code, code.CreateShl(bits, code.I(bits, 8)));
  Value* sign = code.CreateShl(code.CreateAnd(bits, code.I(bits, 0x80)), code.I(bits, 8));
  Value* magnitude = code.CreateAnd(bits, code.I(bits, 0x7f));
  Value* moved = code.CreateOr(sign, code.CreateShl(magnitude, code.I(bits, 7)));
  Value* nan = code.CreateOr(sign, code.I(bits, 0x7e00));
  Value* is_nan = code.CreateICmpEQ(magnitude, code.I(bits, 0x7f));
  Value* wide = HalfBitsToFloat(code, code.CreateSelect(is_nan, nan, moved));
  return code.CreateFMul(wide, code.F(wide, 256));
}

/// Rounds to nearest even on the bits of an f32, where exponent and digits carry into each other; what becomes
/// denormal is rounded by adding a number whose last digit is the last one of denormals.
Value* NarrowToFloat8(Builder& code, Value* v, DType to) {
  const bool is_e5m2 = to == DType::kF8E5M2;
  const int cut = is_e5m2 ? 21 : 20, bias = is_e5m2 ? 15 : 7;
  const int beyond = is_e5m2 ? 0x7c : 0x7e;
  Value* all = code.CreateBitCast(v, Builder::Like(v, code.getInt32Ty()));
  Value* bits = code.CreateAnd(all, code.I(all, 0x7fffffff));
  Value* sign = code.CreateAnd(code.CreateLShr(all, code.I(all, 24)), code.I(all, 0x80));
  Value* odd = code.CreateAnd(code.CreateLShr(bits, code.I(bits, cut)), code.I(bits, 1));
  Value* half = code.I(bits, (1 << (cut - 1)) - 1 - ((127 - bias) << 23));
  Value* normal = code.CreateLShr(code.CreateAdd(code.CreateAdd(bits, half), odd), code.I(bits, cut));
  Value* addend = code.I(bits, (128 - bias + cut) << 23);
  Value* magnitude = code.CreateBitCast(bits, v->getType());
  Value* sum = code.CreateFAdd(magnitude, code.CreateBitCast(addend, v->getType()));
  Value* denormal = code.CreateSub(code.CreateBitCast(sum, bits->getType()), addend);
  Value* is_denormal = code.CreateICmpULT(bits, code.I(bits, (128 - bias) << 23));
  Value* result = code.CreateSelect(is_denormal, denormal, normal);
  Value* limit = code.I(bits, beyond);
  // Everything above the largest number, whose carry may have left 8 bits.
  Value* is_beyond = code.CreateICmpUGE(bits, code.I(bits, is_e5m2 ? 143 << 23 : 1087 << 20));
  result = code.CreateSelect(code.CreateOr(is_beyond, code.CreateICmpUGT(result, limit)), limit, result);
  result = code.CreateSelect(code.IsNan(v), code.I(bits, 0x7f), result);
  return code.CreateTrunc(code.CreateOr(result, sign), Builder::Like(v, code.getInt8Ty()));
}

Value* Widen(Builder& code, Typed from) {
  Value* v = from.value;
  if (guards::IsFloat8(from.dtype)) return WidenFloat8(code, from);
  if (from.dtype == DType::kF16) return HalfBitsToFloat(code, v);
  if (code.even_first && v->getType()->isVectorTy()) {
    auto* pairs = llvm::FixedVectorType::get(code.getInt32Ty(), Builder::LanesOf(v) / 2);
    Value* both = code.CreateBitCast(v, pairs);
    Value* odd = code.CreateAnd(both, code.I(both, -0x10000));
    return code.CreateBitCast(code.Join({code.CreateShl(both, code.I(both, 16)), odd}),
                              Builder::Like(v, code.getFloatTy()));
  }
  v = code.CreateZExt(v, Builder::Like(v, code.getInt32Ty()));
  return code.CreateBitCast(code.CreateShl(v, code.I(v, 16)), Builder::Like(v, code.getFloatTy()));
}

constexpr unsigned kLanesToNarrow = 16;

Value* RoundToBF16(Builder& code, Value* v);

std::vector<int> LanesFrom(unsigned first, unsigned count) {
  std::vector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
  return lanes;
}

/// f32 to bf16 by the instruction for it, which takes denormals for zero: vectors with one go the other way. Two
/// registers make one.
Value* NarrowByInstruction(Builder& code, Value* v) {
  const unsigned lanes = Builder::LanesOf(v);
  std::vector<Value*> registers;
  Value* denormal = nullptr;
  for (unsigned first = 0; first < lanes; first += kLanesToNarrow) {
    Value* part = lanes == kLanesToNarrow ? v : code.CreateShuffleVector(v, LanesFrom(first, kLanesToNarrow));
    constexpr int kDenormal = 0x20;
    Value* is = code.CreateIntrinsic(llvm::Intrinsic::x86_avx512_fpclass_ps_512, {}, {part, code.getInt32(kDenormal)});
    denormal = denormal == nullptr ? is : code.CreateOr(denormal, is);
    registers.push_back(part);
  }
  llvm::BasicBlock* exact = code.NewBlock("denormal");
  llvm::BasicBlock* fast = code.NewBlock("normal");
  llvm::BasicBlock* after = code.NewBlock("narrowed");
  code.CreateCondBr(code.AnyOf(denormal), exact, fast, llvm::MDBuilder(code.getContext()).createBranchWeights(1, 2000));
  code.SetInsertPoint(exact);
  Value* by_integers = RoundToBF16(code, v);
  code.CreateBr(after);
  code.SetInsertPoint(fast);
  std::vector<Value*> narrow;
  llvm::Type* i16 = code.getInt16Ty();
  for (size_t i = 0; i < registers.size(); i += 2) {
    const bool is_pair = i + 1 < registers.size();
    Value* one = is_pair ? code.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                                {registers[i + 1], registers[i]})
                         : code.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {registers[i]});
    narrow.push_back(code.CreateBitCast(one, llvm::FixedVectorType::get(i16, kLanesToNarrow * (is_pair ? 2 : 1))));
  }
  while (narrow.size() > 1) {
    const unsigned half = Builder::LanesOf(narrow[0]);
    std::vector<Value*> wide;
    for (size_t i = 0; i + 1 < narrow.size(); i += 2) {
      wide.push_back(code.CreateShuffleVector(narrow[i], narrow[i + 1], LanesFrom(0, 2 * half)));
    }
    narrow = std::move(wide);
  }
  if (code.even_first) narrow[0] = code.Interleaved(narrow[0]);
  llvm::BasicBlock* fast_end = code.GetInsertBlock();
  code.CreateBr(after);
  code.SetInsertPoint(after);
  llvm::PHINode* result = code.CreatePHI(narrow[0]->getType(), 2);
  result->addIncoming(by_integers, exact);
  result->addIncoming(narrow[0], fast_end);
  return result;
}

/// f32 to bf16 by integers.
Value* RoundToBF16(Builder& code, Value* v) {
  // Round to nearest even by adding just under half of the last kept bit, plus that bit; a NaN
  // must not be carried into infinity, so it is made quiet instead.
  Value* bits = code.CreateBitCast(v, Builder::Like(v, code.getInt32Ty()));
  Value* high = code.CreateLShr(bits, code.I(bits, 16));
  Value* round = code.CreateAdd(code.CreateAnd(high, code.I(bits, 1)), code.I(bits, 0x7fff));
  Value* rounded = code.CreateLShr(code.CreateAdd(bits, round), code.I(bits, 16));
  Value* quiet = code.CreateOr(high, code.I(bits, 0x40));
  Value* result = code.CreateSelect(code.IsNan(v), quiet, rounded);
  llvm::Type* type = Builder::Like(v, code.getInt16Ty());
  if (!code.even_first || !v->getType()->isVectorTy()) return code.CreateTrunc(result, type);
  const unsigned half = Builder::LanesOf(v) / 2;
  Value* even = code.CreateShuffleVector(result, LanesFrom(0, half));
  Value* odd = code.CreateShuffleVector(result, LanesFrom(half, half));
  return code.CreateBitCast(code.CreateOr(even, code.CreateShl(odd, code.I(odd, 16))), type);
}

Value* Narrow(Builder& code, Value* v, DType to) {
  if (guards::IsFloat8(to)) return NarrowToFloat8(code, v, to);
  if (to == DType::kF16) {
    v = code.CreateFPTrunc(v, Builder::Like(v, code.getHalfTy()));
    return code.CreateBitCast(v, Builder::Like(v, code.getInt16Ty()));
  }
  if (code.narrows_bf16 && Builder::LanesOf(v) % kLanesToNarrow == 0) return NarrowByInstruction(code, v);
  return RoundToBF16(code, v);
}

/// What the hardware gives, out of range its minimum, as loop::CastScalar says; LLVM alone promises nothing there,
/// least of all for constants. Narrow types are cut from an i32, which AVX2 converts to.
Value* FloatToInteger(Builder& code, Value* v, DType to) {
  const bool is_f64 = v->getType()->getScalarType()->isDoubleTy();
  const bool is_wide = to == DType::kI64 || (to == DType::kU8 && is_f64);
  llvm::Type* narrow = is_wide ? code.getInt64Ty() : code.getInt32Ty();
  llvm::Type* direct = Builder::Like(v, narrow);
  const double bound = is_wide ? 0x1p63 : 0x1p31;
  Value* fits = code.CreateAnd(code.CreateFCmpOGE(v, code.F(v, -bound)), code.CreateFCmpOLT(v, code.F(v, bound)));
  Value* result = code.CreateFPToSI(code.CreateSelect(fits, v, code.F(v, 0)), direct);
  const llvm::APInt minimum = llvm::APInt::getSignedMinValue(direct->getScalarSizeInBits());
  result = code.CreateSelect(fits, result, llvm::ConstantInt::get(direct, minimum));
  return code.CreateTrunc(result, Builder::Like(v, code.TypeOf(to)));
}

/// Operands of an integer division that cannot trap: a zero divisor becomes 1, and so does -1,
/// whose quotient (the negation, wrapping) is put in afterwards.
struct SafeDivision {
  Value* zero;
  Value* minus_one;
  Value* divisor;
};

SafeDivision MakeSafe(Builder& code, Value* b, bool is_unsigned) {
  SafeDivision safe{code.CreateICmpEQ(b, code.I(b, 0)), nullptr, nullptr};
  Value* replace = safe.zero;
  if (!is_unsigned) {
    safe.minus_one = code.CreateICmpEQ(b, code.I(b, -1));
    replace = code.CreateOr(safe.zero, safe.minus_one);
  }
  safe.divisor = code.CreateSelect(replace, code.I(b, 1), b);
  return safe;
}

Value* IntegerDivide(Builder& code, ScalarOp op, Value* a, Value* b, bool is_unsigned) {
  const SafeDivision safe = MakeSafe(code, b, is_unsigned);
  const bool is_rem = op == ScalarOp::kRem;
  Value* d = safe.divisor;
  Value* zero = code.I(a, 0);
  if (is_unsigned) {
    Value* result = is_rem ? code.CreateURem(a, d) : code.CreateUDiv(a, d);
    return code.CreateSelect(safe.zero, zero, result);
  }
  Value* q = code.CreateSDiv(a, d);
  Value* r = code.CreateSub(a, code.CreateMul(q, d));
  Value* result = is_rem ? r : q;
  if (op != ScalarOp::kDiv) {
    Value* signs_differ = code.CreateICmpSLT(code.CreateXor(r, d), zero);
    Value* adjust = code.CreateAnd(code.CreateICmpNE(r, zero), signs_differ);
    Value* adjusted = is_rem ? code.CreateAdd(r, d) : code.CreateSub(q, code.I(a, 1));
    result = code.CreateSelect(adjust, adjusted, result);
  }
  result = code.CreateSelect(safe.minus_one, is_rem ? zero : code.CreateNeg(a), result);
  return code.CreateSelect(safe.zero, zero, result);
}

/// Square and multiply; a negative exponent leaves only powers of 1 and -1.
Value* IntegerPower(Builder& code, Value* base, Value* exponent, bool is_unsigned) {
  Value* one = code.I(base, 1);
  Value* zero = code.I(base, 0);
  llvm::BasicBlock* before = code.GetInsertBlock();
  llvm::BasicBlock* body = code.NewBlock("power");
  llvm::BasicBlock* after = code.NewBlock("power.after");
  code.CreateBr(body);
  code.SetInsertPoint(body);
  llvm::PHINode* result = code.CreatePHI(base->getType(), 2);
  llvm::PHINode* factor = code.CreatePHI(base->getType(), 2);
  llvm::PHINode* rest = code.CreatePHI(base->getType(), 2);
  Value* odd = code.CreateICmpNE(code.CreateAnd(rest, one), zero);
  Value* next = code.CreateMul(result, code.CreateSelect(odd, factor, one));
  Value* rest_next = code.CreateLShr(rest, one);
  result->addIncoming(one, before);
  result->addIncoming(next, body);
  factor->addIncoming(base, before);
  factor->addIncoming(code.CreateMul(factor, factor), body);
  rest->addIncoming(exponent, before);
  rest->addIncoming(rest_next, body);
  code.CreateCondBr(code.AnyOf(code.CreateICmpNE(rest_next, zero)), body, after);
  code.SetInsertPoint(after);
  if (is_unsigned) return next;
  Value* is_odd = code.CreateICmpNE(code.CreateAnd(exponent, one), zero);
  Value* sign = code.CreateSelect(is_odd, code.I(base, -1), one);
  Value* of_negative = code.CreateSelect(code.CreateICmpEQ(base, one), one, zero);
  of_negative = code.CreateSelect(code.CreateICmpEQ(base, code.I(base, -1)), sign, of_negative);
  return code.CreateSelect(code.CreateICmpSLT(exponent, zero), of_negative, next);
}

Value* IntegerShift(Builder& code, ScalarOp op, Value* a, Value* b, bool is_unsigned) {
  Value* width = code.I(b, a->getType()->getScalarSizeInBits());
  Value* in_range = code.CreateICmpULT(b, width);
  Value* amount = code.CreateSelect(in_range, b, code.I(b, 0));
  Value* zero = code.I(a, 0);
  if (op == ScalarOp::kShl) return code.CreateSelect(in_range, code.CreateShl(a, amount), zero);
  if (is_unsigned) return code.CreateSelect(in_range, code.CreateLShr(a, amount), zero);
  Value* sign = code.CreateAShr(a, code.I(a, a->getType()->getScalarSizeInBits() - 1));
  return code.CreateSelect(in_range, code.CreateAShr(a, amount), sign);
}

Value* IntegerSign(Builder& code, Value* a, bool is_unsigned) {
  Value* positive = code.CreateZExt(code.CreateICmpNE(a, code.I(a, 0)), a->getType());
  if (is_unsigned) return positive;
  Value* negative = code.CreateICmpSLT(a, code.I(a, 0));
  return code.CreateSelect(negative, code.I(a, -1), positive);
}

Value* EmitInteger(Builder& code, ScalarOp op, DType dtype, Value* a, Value* b) {
  const bool is_unsigned = IsUnsigned(dtype);
  switch (op) {
    case ScalarOp::kAdd: return code.CreateAdd(a, b);
    case ScalarOp::kSub: return code.CreateSub(a, b);
    case ScalarOp::kMul: return code.CreateMul(a, b);
    case ScalarOp::kDiv:
    case ScalarOp::kFloorDiv:
    case ScalarOp::kRem: return IntegerDivide(code, op, a, b, is_unsigned);
    case ScalarOp::kMin:
    case ScalarOp::kMax: return EmitExtreme(code, op == ScalarOp::kMax, {a, dtype}, {b, dtype});
    case ScalarOp::kPow: return IntegerPower(code, a, b, is_unsigned);
    case ScalarOp::kNeg: return code.CreateNeg(a);
    case ScalarOp::kAbs:
      return is_unsigned ? a : code.CreateSelect(code.CreateICmpSLT(a, code.I(a, 0)), code.CreateNeg(a), a);
    case ScalarOp::kSign: return IntegerSign(code, a, is_unsigned);
    case ScalarOp::kAnd: return code.CreateAnd(a, b);
    case ScalarOp::kOr: return code.CreateOr(a, b);
    case ScalarOp::kXor: return code.CreateXor(a, b);
    case ScalarOp::kNot: return code.CreateNot(a);
    case ScalarOp::kShl:
    case ScalarOp::kShr: return IntegerShift(code, op, a, b, is_unsigned);
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kRound:
    case ScalarOp::kTrunc: return a;
    case ScalarOp::kIsNan: return llvm::Constant::getNullValue(Builder::Like(a, code.getInt1Ty()));
    default: return nullptr;
  }
}

/// Python's modulo from C's, and the floored quotient that belongs to it, as torch computes them.
Value* FloatFloored(Builder& code, ScalarOp op, Value* a, Value* b) {
  Value* zero = code.F(a, 0);
  Value* mod = EmitFmod(code, a, b);
  Value* signs_differ = code.CreateXor(code.CreateFCmpOLT(b, zero), code.CreateFCmpOLT(mod, zero));
  Value* adjust = code.CreateAnd(code.CreateFCmpONE(mod, zero), signs_differ);
  if (op == ScalarOp::kRem) return code.CreateSelect(adjust, code.CreateFAdd(mod, b), mod);
  Value* quotient = code.CreateFDiv(code.CreateFSub(a, mod), b);
  quotient = code.CreateSelect(adjust, code.CreateFSub(quotient, code.F(a, 1)), quotient);
  Value* floored = code.Unary(llvm::Intrinsic::floor, quotient);
  Value* too_low = code.CreateFCmpOGT(code.CreateFSub(quotient, floored), code.F(a, 0.5));
  floored = code.CreateSelect(too_low, code.CreateFAdd(floored, code.F(a, 1)), floored);
  Value* exact = code.CreateFDiv(a, b);
  Value* result = code.CreateSelect(code.CreateFCmpUNE(quotient, zero), floored, code.CopySign(zero, exact));
  return code.CreateSelect(code.CreateFCmpOEQ(b, zero), exact, result);
}

/// 0 for NaN and both zeros, as torch gives.
Value* FloatSign(Builder& code, Value* a) {
  Value* zero = code.F(a, 0);
  Value* result = code.CreateSelect(code.CreateFCmpOGT(a, zero), code.F(a, 1), zero);
  return code.CreateSelect(code.CreateFCmpOLT(a, zero), code.F(a, -1), result);
}

bool IsConstant(const Value* v, double expected) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  if (constant == nullptr) return false;
  if (v->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number != nullptr && number->isExactlyValue(expected);
}

Value* EmitFloat(Builder& code, ScalarOp op, DType dtype, Value* a, Value* b, Value* c) {
  switch (op) {
    case ScalarOp::kAdd: return code.CreateFAdd(a, b);
    case ScalarOp::kSub: return code.CreateFSub(a, b);
    case ScalarOp::kMul: return code.CreateFMul(a, b);
    case ScalarOp::kDiv: return code.CreateFDiv(a, b);
    case ScalarOp::kFloorDiv:
    case ScalarOp::kRem: return FloatFloored(code, op, a, b);
    case ScalarOp::kMin:
    case ScalarOp::kMax: return EmitExtreme(code, op == ScalarOp::kMax, {a, dtype}, {b, dtype});
    case ScalarOp::kFma: return code.Fma(a, b, c);
    case ScalarOp::kNeg: return code.CreateFNeg(a);
    case ScalarOp::kAbs: return code.Abs(a);
    case ScalarOp::kSign: return FloatSign(code, a);
    case ScalarOp::kSqrt: return code.Unary(llvm::Intrinsic::sqrt, a);
    case ScalarOp::kRsqrt: return code.CreateFDiv(code.F(a, 1), code.Unary(llvm::Intrinsic::sqrt, a));
    case ScalarOp::kRecip: return code.CreateFDiv(code.F(a, 1), a);
    case ScalarOp::kFloor: return code.Unary(llvm::Intrinsic::floor, a);
    case ScalarOp::kCeil: return code.Unary(llvm::Intrinsic::ceil, a);
    case ScalarOp::kRound: return code.Unary(llvm::Intrinsic::roundeven, a);
    case ScalarOp::kTrunc: return code.Unary(llvm::Intrinsic::trunc, a);
    case ScalarOp::kIsNan: return code.IsNan(a);
    case ScalarOp::kPow:
      if (IsConstant(b, 2)) return code.CreateFMul(a, a);
      return EmitMath(code, op, a, b);
    default: return EmitMath(code, op, a, b);
  }
}

Value* EmitCompare(Builder& code, ScalarOp op, DType dtype, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  if (guards::IsFloat(dtype)) {
    constexpr P kPredicates[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT, P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return code.CreateFCmp(kPredicates[int(op) - int(ScalarOp::kEq)], a, b);
  }
  constexpr P kSigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  constexpr P kUnsigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_ULT, P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  const int at = int(op) - int(ScalarOp::kEq);
  return code.CreateICmp(IsUnsigned(dtype) ? kUnsigned[at] : kSigned[at], a, b);
}

}  // namespace

Value* EmitExtreme(Builder& code, bool is_max, Typed a, Typed b) {
  if (!guards::IsFloat(a.dtype)) {
    const bool is_unsigned = IsUnsigned(a.dtype);
    const ID id = is_max ? (is_unsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax)
                         : (is_unsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin);
    return code.Binary(id, a.value, b.value);
  }
  // The first select is one maxps, which gives b where either is NaN; the second keeps a NaN in a.
  Value* ordered = is_max ? code.CreateFCmpOGT(a.value, b.value) : code.CreateFCmpOLT(a.value, b.value);
  Value* result = code.CreateSelect(ordered, a.value, b.value);
  return code.CreateSelect(code.IsNan(a.value), a.value, result);
}

Value* EmitCast(Builder& code, Typed from, DType to) {
  if (from.dtype == to) return from.value;
  Value* v = from.value;
  if (IsNarrow(from.dtype)) {
    return EmitCast(code, {Widen(code, from), DType::kF32}, to);
  }
  if (to == DType::kBool) {
    return guards::IsFloat(from.dtype) ? code.CreateFCmpUNE(v, code.F(v, 0)) : code.CreateICmpNE(v, code.I(v, 0));
  }
  if (IsNarrow(to)) return Narrow(code, EmitCast(code, from, DType::kF32), to);
  llvm::Type* type = Builder::Like(v, code.TypeOf(to));
  if (guards::IsFloat(from.dtype)) {
    if (!guards::IsFloat(to)) return FloatToInteger(code, v, to);
    return to == DType::kF64 ? WidenFloat(code, v, type) : code.CreateFPCast(v, type);
  }
  if (guards::IsFloat(to)) {
    return IsUnsigned(from.dtype) ? code.CreateUIToFP(v, type) : code.CreateSIToFP(v, type);
  }
  return code.CreateIntCast(v, type, !IsUnsigned(from.dtype));
}

Value* EmitConst(Builder& code, const loop::Inst& inst) {
  if (IsNarrow(inst.dtype)) {
    Value* wide = llvm::ConstantFP::get(code.getFloatTy(), inst.imm_f);
    return Narrow(code, wide, inst.dtype);
  }
  llvm::Type* type = code.TypeOf(inst.dtype);
  if (guards::IsFloat(inst.dtype)) return llvm::ConstantFP::get(type, inst.imm_f);
  const int64_t value = inst.dtype == DType::kBool ? inst.imm_i != 0 : inst.imm_i;
  return code.CreateTrunc(code.getInt64(static_cast<uint64_t>(value)), type);
}

Value* EmitScalarOp(Builder& code, const loop::Inst& inst, std::span<const Typed> args) {
  if (inst.op == ScalarOp::kCast) return EmitCast(code, args[0], inst.dtype);
  if (inst.op == ScalarOp::kSelect) {
    return code.CreateSelect(args[0].value, args[1].value, args[2].value);
  }
  // Narrow types compute in f32, as the language says they are only compared and tested here.
  Value* values[3] = {};
  DType dtype = args[0].dtype;
  for (size_t i = 0; i < args.size() && i < 3; ++i) {
    values[i] = IsNarrow(dtype) ? Widen(code, args[i]) : args[i].value;
  }
  const bool is_narrow = IsNarrow(dtype);
  if (is_narrow) dtype = DType::kF32;
  if (inst.op >= ScalarOp::kEq && inst.op <= ScalarOp::kGe) {
    return EmitCompare(code, inst.op, dtype, values[0], values[1]);
  }
  Value* result = guards::IsFloat(dtype) ? EmitFloat(code, inst.op, dtype, values[0], values[1], values[2])
                                         : EmitInteger(code, inst.op, dtype, values[0], values[1]);
  const bool narrows = is_narrow && result != nullptr && IsNarrow(inst.dtype);
  return narrows ? Narrow(code, result, inst.dtype) : result;
}

}  // namespace ingot::compiler::x86
