// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/tile_registers.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>

namespace ingot::compiler::x86 {
namespace {

/// What LDTILECFG reads: the palette, bytes of a row of each register from byte 16 on, its rows from byte 48 on.
std::array<uint8_t, 64> Configuration() {
  std::array<uint8_t, 64> bytes = {};
  bytes[0] = 1;
  for (size_t tile = 0; tile < TileRegisters::kCount; ++tile) {
    bytes[16 + 2 * tile] = TileRegisters::kRowBytes;
    bytes[48 + tile] = TileRegisters::kRows;
  }
  return bytes;
}

}  // namespace

void TileRegisters::Call(const void* function, std::vector<llvm::Value*> args) {
  std::vector<llvm::Type*> types;
  for (const llvm::Value* arg : args) types.push_back(arg->getType());
  auto* type = llvm::FunctionType::get(code_.getVoidTy(), types, false);
  auto* address =
      code_.CreateIntToPtr(code_.I64(static_cast<int64_t>(reinterpret_cast<uintptr_t>(function))), code_.getPtrTy());
  code_.CreateCall(type, address, args);
}

void TileRegisters::Configure() {
  const std::array<uint8_t, 64> configuration = Configuration();
  llvm::Constant* bytes = llvm::ConstantDataArray::get(code_.getContext(), llvm::ArrayRef<uint8_t>(configuration));
  auto* constant = new llvm::GlobalVariable(module_, bytes->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, bytes);
  constant->setAlignment(llvm::Align(kRowBytes));
  if (functions_ != nullptr) return Call(reinterpret_cast<const void*>(functions_->configure), {constant});
  code_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {static_cast<llvm::Value*>(constant)});
}

void TileRegisters::Release() {
  if (functions_ != nullptr) return Call(reinterpret_cast<const void*>(functions_->release), {});
  code_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, llvm::ArrayRef<llvm::Value*>());
}

void TileRegisters::Zero(unsigned tile) {
  if (functions_ != nullptr) return Call(reinterpret_cast<const void*>(functions_->zero), {code_.getInt32(tile)});
  code_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {code_.getInt8(static_cast<uint8_t>(tile))});
}

void TileRegisters::Load(unsigned tile, llvm::Value* at, llvm::Value* stride) {
  if (functions_ != nullptr) {
    return Call(reinterpret_cast<const void*>(functions_->load), {code_.getInt32(tile), at, stride});
  }
  code_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {code_.getInt8(static_cast<uint8_t>(tile)), at, stride});
}

void TileRegisters::Store(unsigned tile, llvm::Value* at, llvm::Value* stride) {
  if (functions_ != nullptr) {
    return Call(reinterpret_cast<const void*>(functions_->store), {code_.getInt32(tile), at, stride});
  }
  code_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {code_.getInt8(static_cast<uint8_t>(tile)), at, stride});
}

void TileRegisters::Multiply(TileProduct product, unsigned sum, unsigned left, unsigned right) {
  using namespace llvm::Intrinsic;
  if (functions_ != nullptr) {
    return Call(reinterpret_cast<const void*>(functions_->multiply),
                {code_.getInt32(static_cast<uint32_t>(product)), code_.getInt32(sum), code_.getInt32(left),
                 code_.getInt32(right)});
  }
  constexpr ID kOf[] = {x86_tdpbf16ps, x86_tdpbssd, x86_tdpbsud, x86_tdpbusd, x86_tdpbuud};
  const auto number = [&](unsigned tile) { return code_.getInt8(static_cast<uint8_t>(tile)); };
  code_.CreateIntrinsic(kOf[static_cast<size_t>(product)], {}, {number(sum), number(left), number(right)});
}

}  // namespace ingot::compiler::x86
