// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/proof/array.h"
#include "compiler/proof/graph_values.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// Runs all of one kernel, a position in Fused::kernels.
using LaunchKernel =
    std::function<Status(uint32_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols)>;

/// What a plan is made of.
struct PlannedGraph {
  const Graph* graph = nullptr;              ///< as it was fused, without symbols
  const Fused* fused = nullptr;
  const proto::ManifestT* plan = nullptr;
  std::span<const NodeId> nodes;             ///< of each step: the node that it calls an operator for, or kNoNode
  LaunchKernel launch;                       ///< empty: by the interpreter of loops
};

/// What a run leaves behind.
struct PlanResults {
  std::vector<Array> outputs;            ///< in the order of the graph's outputs
  std::map<ValueId, Array> inputs;       ///< what inputs and weights hold afterwards
};

/// Walks a plan as an executor does, in memory that is laid out by its storages, arena included: kernels by
/// `launch`, operators by their nodes alone. Memory that nobody has written holds NaN, and what is left of
/// the arena is never cleared. `inputs`: of each input and weight of the graph, by its value.
/// kInternal: a step reads or writes outside of its memory, or a result is of other sizes. Others: nothing was run.
Result<PlanResults> RunPlan(const PlannedGraph& planned, std::span<const int64_t> symbols,
                            const std::map<ValueId, Array>& inputs, NodeRunner& runner, uint64_t work_max);

}  // namespace ingot::compiler
