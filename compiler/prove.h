// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {

/// Interpreted instructions in a millisecond, measured: turns the time box of a proof into a bound that does not depend
/// on the machine.
inline constexpr uint64_t kWorkInMillisecond = 20'000;

/// What was run of one kernel: its first and last rows, at one size.
struct KernelProof {
  int64_t rows = 0;
  int64_t rows_run = 0;
  std::string skipped;  ///< Why nothing was run; empty where something was.
};

struct ProofReport {
  uint64_t seed = 0;
  uint32_t proved = 0;  ///< kernels of which rows were run
  std::vector<KernelProof> kernels;  ///< one for each kernel
};

/// Runs machine code against loop::Interpret on random inputs that follow from each kernel's digest, and compares every
/// element: equal where every implementation gives the same (loop/exactness.h), else within a tolerance of the result's
/// type. Code for some sizes alone (Special) is held against the general kernel at these sizes. `work_max` bounds
/// interpreted instructions, so that the outcome depends on the kernels alone and not on the machine's mood; `threads`:
/// 0 = one for each core. kInternal names the first kernel that differs.
Result<ProofReport> ProveKernels(Runner& runner, const Fused& fused, std::span<const Object> objects, uint64_t work_max,
                                 unsigned threads = 0);

}  // namespace ingot::compiler
