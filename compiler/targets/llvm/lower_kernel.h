// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/outline.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Adds the kernel to `module` as function `symbol` with the ABI of kernels/abi.h. The kernel and its
/// schedule verify. Gives the regions of it that kernels of other products may have as well (outline.h). kUnsupported
/// names an operation without lowering.
Result<std::vector<Region>> LowerKernel(const loop::Kernel& kernel, const loop::Schedule& schedule,
                                        const std::string& symbol, const VectorUnit& unit, bool checks_accesses,
                                        llvm::Module& module);

}  // namespace ingot::compiler::x86
