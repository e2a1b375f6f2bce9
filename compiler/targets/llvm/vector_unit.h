// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "compiler/targets/target_spec.h"
#include "compiler/targets/x86/tile_functions.h"

namespace ingot::compiler::x86 {

/// What the vector unit offers.
struct VectorUnit {
  unsigned bytes = 32;              ///< Width of a register.
  bool masks_any_width = false;     ///< Masked memory access of 8 and 16 bit elements too.
  bool dots_bf16 = false;           ///< Sums of products of pairs of bf16 (AVX512_BF16).
  bool dots_bf16_fast = false;      ///< The same in less time than the products of f32 that they stand for.
  bool narrows_bf16 = false;        ///< f32 to bf16 by one instruction, denormals apart (AVX512_BF16).
  bool dots_i16 = false;            ///< The same of i16 by one instruction instead of two (AVX512_VNNI).
  bool tiles_bf16 = false;          ///< Tile registers that multiply bf16 (AMX_TILE, AMX_BF16).
  bool tiles_i8 = false;            ///< The same of 8 bit integers (AMX_TILE, AMX_INT8).
  bool fetches_by_second_cache = false;  ///< More lines are under way at once where they go to the second cache first.
  const TileFunctions* tile_functions = nullptr;  ///< Stand for their instructions; null: those themselves.
};

/// kUnsupported for a level this compiler does not know.
Result<VectorUnit> UnitOf(const TargetSpec& spec);

}  // namespace ingot::compiler::x86
