// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/proof/plan_run.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// What was compared of a graph as it was captured with the plan that came of it.
struct GraphProof {
  uint32_t sizes = 0;                   ///< combinations at which all results were compared
  std::vector<std::string> unknown;     ///< operators whose results were made up
  std::string skipped;                  ///< why no combination was compared, or not every one; empty where all were
};

/// A graph and what a compile has made of it.
struct CompiledGraph {
  const Graph& captured;
  const Graph& lowered;                 ///< after all passes
  const Fused& fused;
  const proto::ManifestT& plan;
  std::span<const NodeId> nodes;  ///< of each step of the plan: the node of `lowered` that it calls, or kNoNode
  LaunchKernel launch = {};  ///< empty: by the interpreter of loops
  /// The captured graph after all passes but the one of this name, for who wants to know which one it is.
  std::function<Result<Graph>(const std::string& pass)> without = {};
  std::vector<std::string> passes = {};   ///< that `without` knows
};

/// Runs the captured graph node by node, each by itself and as it says (NodeRunner), and the plan as an executor walks
/// it (RunPlan), both on the same random inputs, and compares all outputs and all that is written: passes, layouts,
/// fusion and the reuse of memory lie between the two. Operators that stay with PyTorch and that nobody here knows give
/// made-up results to both, and their operands are compared.
///
/// Inputs of more than `bytes_max` are not made. `work_max` bounds the work of each side at each combination of
/// `sizes`, which are shared out among `threads`: both bound what a compile waits for, and so by the graph alone.
/// kInternal names what differs, and the stage: the pass without which it would not, else the fusion, else the plan.
Result<GraphProof> ProveGraph(const CompiledGraph& compiled, std::span<const std::vector<int64_t>> sizes,
                              int64_t bytes_max, uint64_t work_max, unsigned threads = 1);

}  // namespace ingot::compiler
