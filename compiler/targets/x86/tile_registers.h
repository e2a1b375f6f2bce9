// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "compiler/targets/llvm/builder.h"
#include "compiler/targets/x86/tile_functions.h"

namespace ingot::compiler::x86 {

/// Emits the instructions of tile registers (AMX): eight registers of 16 rows of 64 bytes, all of that shape. Numbers
/// of registers are fixed by the caller. Where `functions` are given, calls of them stand for the instructions.
class TileRegisters {
 public:
  static constexpr unsigned kCount = 8;
  static constexpr unsigned kRows = 16;
  static constexpr unsigned kRowBytes = 64;

  TileRegisters(Builder& code, llvm::Module& module, const TileFunctions* functions)
      : code_(code), module_(module), functions_(functions) {}

  /// Before the first use in a call, on the thread that uses them. Zeroes all.
  void Configure();
  /// When a call is done with them: registers that hold something make a thread slower to switch.
  void Release();
  void Zero(unsigned tile);
  /// Rows lie `stride` bytes apart in memory, an i64.
  void Load(unsigned tile, llvm::Value* at, llvm::Value* stride);
  void Store(unsigned tile, llvm::Value* at, llvm::Value* stride);
  /// Adds the product of two to `sum`, whose elements have 32 bits: row r of `left` times column c of `right`, of
  /// which row p holds for each column what goes with the 32 bits number p of a row of `left`.
  void Multiply(TileProduct product, unsigned sum, unsigned left, unsigned right);

 private:
  void Call(const void* function, std::vector<llvm::Value*> args);

  Builder& code_;
  llvm::Module& module_;
  const TileFunctions* functions_;
};

}  // namespace ingot::compiler::x86
