// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// What was compared of one launch with what its nodes say. Launches of one kernel for alike nodes are one.
struct LaunchProof {
  std::string kernel;
  uint32_t sizes = 0;      ///< combinations of sizes at which something was compared
  uint64_t elements = 0;   ///< at all of them together
  std::string skipped;     ///< why nothing was; empty where something was
};

struct FusionProof {
  std::vector<LaunchProof> launches;
  uint64_t work = 0;   ///< operations on scalars, of both sides
};

/// Runs the kernel of each launch by the interpreter of loops on random inputs and compares what it stores with what
/// the graph's nodes say of these elements one by one (Evaluation): whatever grouping, index maps, predicates, row
/// buffers and the order of loops have made of them. Rows at both ends, all of them where they are few; of inputs,
/// ordinary numbers and special ones. Discrete results are equal, others as close as docs/numerics.md says.
///
/// `sizes`: combinations of the graph's symbols, in the order of what matters. `work_max` bounds both sides together,
/// so that the outcome depends on the graph alone and not on the machine's mood; `threads`: 0 = one for each core.
/// kInternal names the launch, the value and the element that differ.
Result<FusionProof> ProveFusion(const Graph& graph, const Fused& fused, std::span<const std::vector<int64_t>> sizes,
                                uint64_t work_max, unsigned threads = 0);

}  // namespace ingot::compiler
