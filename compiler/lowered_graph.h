// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "compiler/choices.h"
#include "compiler/compile.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/apply_patterns.h"
#include "compiler/targets/target.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// A graph as kernels and steps, before there is code: what compiling it and improving on that begin with.
struct LoweredGraph {
  Graph graph;           ///< after all passes
  /// Before the pass assign-layouts, where somebody asked for it or the recipe chooses the library somewhere; nodes and
  /// values of both have the same numbers.
  Graph before_layouts;
  std::vector<PatternUse> uses;
  std::unique_ptr<Target> target;
  Fused fused;
  guards::GuardSet conditions;
  /// Of the recipe's choices those that have left products to the library (compiler/library.h).
  KernelChoices by_library;
  double seconds_passes = 0, seconds_fusion = 0;
};

/// The products that kernels may make, as fusion asks: those that are none of `by_library` and that the target takes.
/// Both outlive it.
TakesProduct ProductsOf(const Target& target, const std::unordered_set<NodeId>* by_library = nullptr);

/// kInvalid: the graph does not verify.
Result<LoweredGraph> LowerGraph(const Graph& graph, const CompileOptions& options, bool keeps_before_layouts = false);

/// The plan of a graph; `objects`: one for each kernel; `nodes`: as BuildPlan gives them.
Result<proto::ManifestT> PlanOf(const LoweredGraph& lowered, std::span<const Object> objects,
                                std::vector<NodeId>* nodes = nullptr);

}  // namespace ingot::compiler
