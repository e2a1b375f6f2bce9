// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/builder.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>

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

llvm::Value* Builder::EvenFirst(Value* vector) {
  const auto count = static_cast<int>(LanesOf(vector));
  std::vector<int> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(i < count / 2 ? 2 * i : 2 * i - count + 1);
  return CreateShuffleVector(vector, lanes);
}

llvm::Value* Builder::Interleaved(Value* vector) {
  const auto count = static_cast<int>(LanesOf(vector));
  std::vector<int> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(i / 2 + i % 2 * (count / 2));
  return CreateShuffleVector(vector, lanes);
}

std::pair<llvm::Value*, llvm::Value*> Builder::Halves(Value* vector) {
  const unsigned count = LanesOf(vector) / 2;
  if (count == 1) return {CreateExtractElement(vector, uint64_t{0}), CreateExtractElement(vector, uint64_t{1})};
  std::vector<int> low(count), high(count);
  std::iota(low.begin(), low.end(), 0);
  std::iota(high.begin(), high.end(), static_cast<int>(count));
  return {CreateShuffleVector(vector, low), CreateShuffleVector(vector, high)};
}

llvm::Value* Builder::Join(std::vector<Value*> vectors) {
  for (; vectors.size() > 1; vectors.resize(vectors.size() / 2)) {
    std::vector<int> lanes(size_t{2} * LanesOf(vectors[0]));
    std::iota(lanes.begin(), lanes.end(), 0);
    for (size_t i = 0; 2 * i < vectors.size(); ++i) {
      vectors[i] = CreateShuffleVector(vectors[2 * i], vectors[2 * i + 1], lanes);
    }
  }
  return vectors[0];
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

llvm::Value* Builder::OneOfEight(std::span<const int32_t, 8> table, Value* index) {
  const unsigned lanes = LanesOf(index), width = lanes > 8 ? std::min(lanes, words) : 8;
  std::vector<uint32_t> entries;
  for (unsigned i = 0; i < width; ++i) entries.push_back(static_cast<uint32_t>(table[i % 8]));
  Value* all = llvm::ConstantDataVector::get(getContext(), entries);
  const auto look_up = [&](Value* of) {
    if (width == 8) return CreateIntrinsic(llvm::Intrinsic::x86_avx2_permd, {}, {all, of});
    return CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_si_512, {}, {all, of});
  };
  const auto from = [](unsigned first, unsigned count, unsigned known) {
    std::vector<int> numbers(count, llvm::PoisonMaskElem);
    std::iota(numbers.begin(), numbers.begin() + known, static_cast<int>(first));
    return numbers;
  };
  if (lanes == 1) {
    Value* wide = CreateInsertElement(llvm::PoisonValue::get(all->getType()), index, uint64_t{0});
    return CreateExtractElement(look_up(wide), uint64_t{0});
  }
  if (lanes < width) {
    Value* wide = CreateShuffleVector(index, from(0, width, lanes));
    return CreateShuffleVector(look_up(wide), from(0, lanes, lanes));
  }
  if (lanes == width) return look_up(index);
  std::vector<Value*> parts;
  for (unsigned first = 0; first < lanes; first += width) {
    parts.push_back(look_up(CreateShuffleVector(index, from(first, width, width))));
  }
  return Join(std::move(parts));
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
