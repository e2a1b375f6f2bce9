// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/builder.h"

namespace ingot::compiler::x86 {

using guards::DType;

llvm::Type* Builder::MemoryTypeOf(DType dtype, unsigned lanes) {
  llvm::Type* type = nullptr;
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2: type = getInt8Ty(); break;
    case DType::kI16:
    case DType::kF16:
    case DType::kBF16: type = getInt16Ty(); break;
    case DType::kI32: type = getInt32Ty(); break;
    case DType::kF32: type = getFloatTy(); break;
    case DType::kF64: type = getDoubleTy(); break;
    default: type = getInt64Ty(); break;
  }
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, lanes);
}

llvm::Type* Builder::TypeOf(DType dtype, unsigned lanes) {
  if (dtype != DType::kBool) return MemoryTypeOf(dtype, lanes);
  llvm::Type* type = getInt1Ty();
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, lanes);
}

llvm::Type* Builder::Like(const Value* like, llvm::Type* scalar) {
  const unsigned lanes = LanesOf(like);
  return like->getType()->isVectorTy() ? llvm::FixedVectorType::get(scalar, lanes) : scalar;
}

unsigned Builder::LanesOf(const Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector == nullptr ? 1 : vector->getNumElements();
}

llvm::Value* Builder::Splat(Value* scalar, unsigned lanes) {
  return lanes == 1 || scalar->getType()->isVectorTy() ? scalar : CreateVectorSplat(lanes, scalar);
}

llvm::Value* Builder::Polynomial(Value* x, std::span<const double> coefs) {
  Value* result = F(x, coefs.back());
  for (size_t i = coefs.size() - 1; i-- > 0;) result = Fma(result, x, F(x, coefs[i]));
  return result;
}

llvm::Value* Builder::PairedPolynomial(Value* x, Value* square, std::span<const double> coefs) {
  const auto pair = [&](size_t i) { return Fma(x, F(x, coefs[i + 1]), F(x, coefs[i])); };
  size_t i = (coefs.size() - 1) / 2 * 2;
  Value* result = coefs.size() % 2 == 1 ? F(x, coefs[i]) : pair(i);
  while (i > 0) {
    i -= 2;
    result = Fma(result, square, pair(i));
  }
  return result;
}

llvm::Value* Builder::BitsOf(Value* mask) {
  return mask->getType()->isVectorTy() ? CreateBitCast(mask, getIntNTy(LanesOf(mask))) : mask;
}

llvm::Value* Builder::AnyOf(Value* mask) {
  Value* bits = BitsOf(mask);
  return CreateICmpNE(bits, I(bits, 0));
}

llvm::Value* Builder::AllOf(Value* mask) {
  Value* bits = BitsOf(mask);
  return CreateICmpEQ(bits, llvm::Constant::getAllOnesValue(bits->getType()));
}

void Builder::Prefetch(Value* at, Keep keep) {
  constexpr unsigned kRead = 0, kData = 1;
  const auto where = static_cast<unsigned>(keep);
  CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()}, {at, getInt32(kRead), getInt32(where), getInt32(kData)});
}

llvm::BasicBlock* Builder::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(getContext(), name, GetInsertBlock()->getParent());
}

}  // namespace ingot::compiler::x86
