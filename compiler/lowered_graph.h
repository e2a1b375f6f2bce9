// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "compiler/compile.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/apply_patterns.h"
#include "compiler/targets/target.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// A graph as kernels and steps, before there is code: what compiling it and improving on that begin with.
struct LoweredGraph {
  Graph graph;  ///< after all passes
  std::vector<PatternUse> uses;
  std::unique_ptr<Target> target;
  Fused fused;
  guards::GuardSet conditions;
  double seconds_passes = 0, seconds_fusion = 0;
};

/// The products that kernels may make, as fusion asks; `target` outlives it.
TakesProduct ProductsOf(const Target& target);

/// kInvalid: the graph does not verify.
Result<LoweredGraph> LowerGraph(const Graph& graph, const CompileOptions& options);

/// The plan of a graph; `objects`: one for each kernel.
Result<proto::ManifestT> PlanOf(const LoweredGraph& lowered, std::span<const Object> objects);

}  // namespace ingot::compiler
