// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/result.h"
#include "compiler/codegen/codegen.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler {

struct ProofReport {
  uint64_t seed = 0;
  uint32_t proved = 0;   ///< kernels that were run against the interpreter
  uint32_t skipped = 0;  ///< beyond the bound on work, too large, or sizes that do not fit together
};

/// Runs machine code against loop::Interpret on small random inputs that follow from each kernel's
/// digest. `work_max` bounds interpreted instructions, so that the outcome depends on the kernels
/// alone and not on the machine's mood. kInternal names the first kernel that differs.
Result<ProofReport> ProveKernels(std::span<const loop::Kernel> kernels,
                                 std::span<const Object> objects, uint64_t work_max);

}  // namespace ingot::compiler
