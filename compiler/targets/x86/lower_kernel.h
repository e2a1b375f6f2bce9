// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include "base/result.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/x86/vector_unit.h"

namespace ingot::compiler::x86 {

/// Adds the kernel to `module` as function `symbol` with the ABI of kernels/abi.h. The kernel and its
/// schedule verify. kUnsupported names an operation without lowering.
Status LowerKernel(const loop::Kernel& kernel, const loop::Schedule& schedule, const std::string& symbol,
                   const VectorUnit& unit, bool checks_accesses, llvm::Module& module);

}  // namespace ingot::compiler::x86
