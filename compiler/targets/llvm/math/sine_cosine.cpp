// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Module.h>

#include "compiler/targets/llvm/math/math.h"

namespace ingot::compiler::x86 {
namespace {

using llvm::Value;

// (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 over r^2, |r| <= pi/4.
constexpr double kSin64[] = {-0x1.5555555555555p-3, 0x1.1111111110b24p-7,   -0x1.a01a019e624ddp-13,
                             0x1.71de376ba953ep-19, -0x1.ae5fdebdb46ccp-26, 0x1.5dfb4dab326a3p-33};
constexpr double kCos64[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16920p-10, 0x1.a01a019f3dfa1p-16,
                             -0x1.27e4fa0260ab4p-22, 0x1.1eeb52bddd77cp-29,  -0x1.906dd10512b22p-37};
// pi/2 as a sum of three doubles.
constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
// Below this the multiple of pi/2 has at most 20 bits and three fused steps reduce exactly enough.
constexpr double kFastLimit = 0x1p20;

// 64 zero bits, then the bits of 2/pi after the point: enough for the largest double.
constexpr uint64_t kTwoOverPi[] = {0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                   0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
                                   0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
                                   0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
                                   0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
                                   0xf0cfbc209af4361d};

/// x = n * pi/2 + r, of n only the low two bits matter.
struct Quadrant {
  Value* n;  // i64
  Value* r;
};

Quadrant ReduceFast(Builder& code, Value* x) {
  Value* magic = code.F(x, 0x1.8p52);
  Value* shifted = code.Fma(x, code.F(x, 0x1.45f306dc9c883p-1), magic);
  Value* minus_n = code.CreateFNeg(code.CreateFSub(shifted, magic));
  Value* r = x;
  for (const double part : kHalfPi) r = code.Fma(minus_n, code.F(x, part), r);
  return {code.CreateBitCast(shifted, Builder::Like(x, code.getInt64Ty())), r};
}

/// Whether the fast way does not do: |x| is large, and finite.
Value* IsLarge(Builder& code, Value* x) {
  Value* ax = code.Abs(x);
  Value* is_finite = code.CreateFCmpOLT(ax, code.F(x, std::numeric_limits<double>::infinity()));
  return code.CreateAnd(code.CreateFCmpOGE(ax, code.F(x, kFastLimit)), is_finite);
}

/// Payne and Hanek's reduction of one finite |x| >= kFastLimit: the mantissa times that window of
/// 192 bits of 2/pi which decides the product modulo 4.
Quadrant ReduceLarge(Builder& code, llvm::GlobalVariable* table, Value* x) {
  llvm::Type* i64 = code.getInt64Ty();
  llvm::Type* i128 = code.getInt128Ty();
  Value* bits = code.CreateBitCast(code.Abs(x), i64);
  Value* exponent = code.CreateSub(code.CreateLShr(bits, code.I64(52)), code.I64(1075));
  Value* mantissa = code.CreateOr(code.CreateAnd(bits, code.I64((int64_t{1} << 52) - 1)), code.I64(int64_t{1} << 52));
  Value* position = code.CreateAdd(exponent, code.I64(62));
  Value* word = code.CreateLShr(position, code.I64(6));
  Value* shift = code.CreateAnd(position, code.I64(63));
  Value* words[4];
  for (int i = 0; i < 4; ++i) {
    Value* at = code.CreateAdd(word, code.I64(i));
    words[i] = code.CreateLoad(i64, code.CreateGEP(i64, table, {at}));
  }
  const auto window = [&](int i) -> Value* {
    Value* w = code.CreateIntrinsic(llvm::Intrinsic::fshl, {i64}, {words[i], words[i + 1], shift});
    return code.CreateZExt(w, i128);
  };
  Value* m = code.CreateZExt(mantissa, i128);
  Value* s64 = llvm::ConstantInt::get(i128, 64);
  Value* product = code.CreateShl(code.CreateMul(m, window(0)), s64);
  product = code.CreateAdd(product, code.CreateMul(m, window(1)));
  product = code.CreateAdd(product, code.CreateLShr(code.CreateMul(m, window(2)), s64));
  // `product` is x * 2/pi in units of 2^-126, modulo 4.
  Value* half = code.CreateShl(llvm::ConstantInt::get(i128, 1), llvm::ConstantInt::get(i128, 125));
  Value* s126 = llvm::ConstantInt::get(i128, 126);
  Value* n = code.CreateLShr(code.CreateAdd(product, half), s126);
  Value* fraction = code.CreateSub(product, code.CreateShl(n, s126));
  Value* negative = code.CreateICmpSLT(fraction, llvm::ConstantInt::get(i128, 0));
  Value* size = code.CreateSelect(negative, code.CreateNeg(fraction), fraction);
  // Leading zeros go first, so that a fraction close to 0 keeps 53 good bits.
  Value* zeros = code.CreateIntrinsic(llvm::Intrinsic::ctlz, {i128}, {size, code.getFalse()});
  Value* top = code.CreateTrunc(code.CreateLShr(code.CreateShl(size, zeros), s64), i64);
  Value* number = code.CreateSIToFP(code.CreateLShr(top, code.I64(1)), code.getDoubleTy());
  Value* scale_bits = code.CreateShl(code.CreateSub(code.I64(1023 - 61), code.CreateTrunc(zeros, i64)), code.I64(52));
  Value* turns = code.CreateFMul(number, code.CreateBitCast(scale_bits, code.getDoubleTy()));
  Value* r = code.Fma(turns, code.F(x, kHalfPi[0]), code.CreateFMul(turns, code.F(x, kHalfPi[1])));
  Value* x_negative = code.CreateICmpSLT(code.CreateBitCast(x, i64), code.I64(0));
  r = code.CreateSelect(code.CreateXor(negative, x_negative), code.CreateFNeg(r), r);
  Value* n64 = code.CreateTrunc(n, i64);
  n64 = code.CreateSelect(x_negative, code.CreateNeg(n64), n64);
  return {n64, r};
}

/// The internal function reduce_large(x, n, r, count), made once for each module: overwrites n and r where x is large.
/// It is cold, and neither inlined nor a copy for each lane: whoever computes a sine would compile little else.
llvm::Function* ReduceLargeOf(Builder& code) {
  llvm::Module* module = code.GetInsertBlock()->getModule();
  constexpr const char* kName = "reduce_large";
  if (llvm::Function* existing = module->getFunction(kName)) return existing;
  llvm::LLVMContext& context = code.getContext();
  llvm::Constant* words = llvm::ConstantDataArray::get(context, llvm::ArrayRef<uint64_t>(kTwoOverPi));
  auto* table = new llvm::GlobalVariable(*module, words->getType(), true, llvm::GlobalValue::PrivateLinkage, words,
                                         "two_over_pi");
  auto* type = llvm::FunctionType::get(code.getVoidTy(),
                                       {code.getPtrTy(), code.getPtrTy(), code.getPtrTy(), code.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, kName, module);
  const llvm::Function* caller = code.GetInsertBlock()->getParent();
  function->addFnAttrs(llvm::AttrBuilder(context, caller->getAttributes().getFnAttrs()));
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  Builder body(context);
  llvm::BasicBlock* entry = llvm::BasicBlock::Create(context, "entry", function);
  llvm::BasicBlock* lane = llvm::BasicBlock::Create(context, "lane", function);
  llvm::BasicBlock* large = llvm::BasicBlock::Create(context, "large", function);
  llvm::BasicBlock* next = llvm::BasicBlock::Create(context, "next", function);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(context, "done", function);
  body.SetInsertPoint(entry);
  body.CreateBr(lane);
  body.SetInsertPoint(lane);
  llvm::PHINode* i = body.CreatePHI(body.getInt64Ty(), 2);
  i->addIncoming(body.I64(0), entry);
  const auto at = [&](unsigned array, llvm::Type* element) {
    return body.CreateGEP(element, function->getArg(array), {i});
  };
  Value* x = body.CreateLoad(body.getDoubleTy(), at(0, body.getDoubleTy()));
  body.CreateCondBr(IsLarge(body, x), large, next);
  body.SetInsertPoint(large);
  const Quadrant reduced = ReduceLarge(body, table, x);
  body.CreateStore(reduced.n, at(1, body.getInt64Ty()));
  body.CreateStore(reduced.r, at(2, body.getDoubleTy()));
  body.CreateBr(next);
  body.SetInsertPoint(next);
  Value* following = body.CreateAdd(i, body.I64(1));
  i->addIncoming(following, next);
  body.CreateCondBr(body.CreateICmpSLT(following, function->getArg(3)), lane, done);
  body.SetInsertPoint(done);
  body.CreateRetVoid();
  return function;
}

/// Replaces the lanes of `fast` whose |x| is large; branches over it where there are none.
Quadrant FixLarge(Builder& code, Value* x, Quadrant fast) {
  llvm::BasicBlock* before = code.GetInsertBlock();
  llvm::BasicBlock* fix = code.NewBlock("large");
  llvm::BasicBlock* after = code.NewBlock("large.after");
  llvm::BasicBlock& entry = before->getParent()->getEntryBlock();
  code.CreateCondBr(code.AnyOf(IsLarge(code, x)), fix, after);
  const auto room_for = [&](Value* value) {
    const llvm::IRBuilder<>::InsertPointGuard guard(code);
    code.SetInsertPoint(&entry, entry.getFirstInsertionPt());
    return code.CreateAlloca(value->getType());
  };
  Value* rooms[] = {room_for(x), room_for(fast.n), room_for(fast.r)};
  code.SetInsertPoint(fix);
  code.CreateStore(x, rooms[0]);
  code.CreateStore(fast.n, rooms[1]);
  code.CreateStore(fast.r, rooms[2]);
  code.CreateCall(ReduceLargeOf(code), {rooms[0], rooms[1], rooms[2], code.I64(Builder::LanesOf(x))});
  Value* n = code.CreateLoad(fast.n->getType(), rooms[1]);
  Value* r = code.CreateLoad(fast.r->getType(), rooms[2]);
  code.CreateBr(after);
  code.SetInsertPoint(after);
  const auto merge = [&](Value* a, Value* b) {
    llvm::PHINode* phi = code.CreatePHI(a->getType(), 2);
    phi->addIncoming(a, before);
    phi->addIncoming(b, fix);
    return phi;
  };
  return {merge(fast.n, n), merge(fast.r, r)};
}

}  // namespace

Value* EmitSinCos64(Builder& code, bool cosine, Value* x) {
  const Quadrant reduced = FixLarge(code, x, ReduceFast(code, x));
  Value* r = reduced.r;
  Value* z = code.CreateFMul(r, r);
  Value* sine = code.Fma(code.CreateFMul(z, r), code.Polynomial(z, kSin64), r);
  // 1 - z/2 is rounded once and its error added back with the small terms.
  Value* half = code.CreateFMul(z, code.F(x, 0.5));
  Value* one = code.F(x, 1);
  Value* w = code.CreateFSub(one, half);
  Value* lost = code.CreateFSub(code.CreateFSub(one, w), half);
  Value* tail = code.Fma(code.CreateFMul(z, z), code.Polynomial(z, kCos64), lost);
  Value* cosine_value = code.CreateFAdd(w, tail);

  Value* n = cosine ? code.CreateAdd(reduced.n, code.I(reduced.n, 1)) : reduced.n;
  Value* is_odd = code.CreateICmpNE(code.CreateAnd(n, code.I(n, 1)), code.I(n, 0));
  Value* result = code.CreateSelect(is_odd, cosine_value, sine);
  Value* sign = code.CreateShl(code.CreateAnd(n, code.I(n, 2)), code.I(n, 62));
  Value* signed_bits = code.CreateXor(code.CreateBitCast(result, n->getType()), sign);
  result = code.CreateBitCast(signed_bits, x->getType());
  if (!cosine) {  // The reduction of -0 gives +0.
    result = code.CreateSelect(code.CreateFCmpOEQ(x, code.F(x, 0)), x, result);
  }
  // Infinity minus itself is NaN.
  Value* infinite = code.CreateFCmpOEQ(code.Abs(x), code.F(x, std::numeric_limits<double>::infinity()));
  Value* nan = code.F(x, std::numeric_limits<double>::quiet_NaN());
  return code.CreateSelect(infinite, nan, result);
}

}  // namespace ingot::compiler::x86
