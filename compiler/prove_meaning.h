// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/result.h"
#include "compiler/compile.h"
#include "compiler/lowered_graph.h"
#include "compiler/proof/plan_run.h"
#include "compiler/proof/sizes.h"

namespace ingot::compiler {

/// Compares the plan with the graph as it was captured (compiler/proof/prove_graph.h), at `tried`; what was compared
/// goes into the plan's provenance. `nodes`: of each step of the plan, as PlanOf gives them; `launch` as in
/// CompiledGraph. kInternal: something differs; names what and where.
Status ProveMeaning(const Graph& graph, const LoweredGraph& lowered, const CompileOptions& options,
                    const TriedSizes& tried, std::span<const NodeId> nodes, const LaunchKernel& launch,
                    proto::ManifestT& plan);

}  // namespace ingot::compiler
