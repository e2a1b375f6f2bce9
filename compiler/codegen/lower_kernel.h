// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include "base/result.h"
#include "compiler/compile.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::codegen {

/// What the vector unit offers.
struct VectorUnit {
  unsigned bytes = 32;              ///< Width of a register.
  bool masks_any_width = false;     ///< Masked memory access of 8 and 16 bit elements too.
  bool dots_bf16 = false;           ///< Sums of products of pairs of bf16 (AVX512_BF16).
};

/// kUnsupported for a level this compiler does not know.
Result<VectorUnit> UnitOf(const Target& target);

/// Adds the kernel to `module` as function `symbol` with the ABI of kernels/abi.h. The kernel
/// verifies. kUnsupported names an operation without lowering.
Status LowerKernel(const loop::Kernel& kernel, const std::string& symbol, const VectorUnit& unit, bool checks_accesses,
                   llvm::Module& module);

}  // namespace ingot::compiler::codegen
