// SPDX-License-Identifier: Apache-2.0
// The list of passes is the design. A graph enters as the importer made it: functional, with
// composites whole and with final writes. Each comment says what later passes may assume.
//
// All passes keep: the order and number of inputs (constants may be appended), the types of
// outputs and written values, the order of random, opaque and guard nodes, and which results
// share memory with which as far as a caller can tell.
#include <fmt/format.h>

#include "compiler/passes/apply_patterns.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"

namespace ingot::compiler {

Pipeline DefaultPipeline(std::shared_ptr<std::vector<PatternUse>> uses, std::shared_ptr<LayoutChoices> layouts) {
  const auto assign_layouts = [layouts = std::move(layouts)](Graph& graph) {
    if (layouts == nullptr) return AssignLayouts(graph);
    if (layouts->keeps_before && !layouts->before) layouts->before = graph;
    return AssignLayouts(graph, layouts->by_library);
  };
  Pipeline pipeline;
  // Users' patterns see operators as they were recorded, in one spelling, before others make something else of them.
  pipeline.AddGroup(
      {
          {"canonicalize-shapes", CanonicalizeShapes},
          {"canonicalize-variants", CanonicalizeVariants},
          {"remove-no-ops", RemoveNoOps},
          {"apply-patterns", ApplyPatterns(std::move(uses))},  // No pattern is left to apply.
          {"cse", EliminateCommonSubexpressions},
          {"dce", EliminateDeadCode},
      },
      [](const Graph& graph) { return !graph.patterns.empty(); });
  pipeline.AddGroup({
      {"canonicalize-shapes", CanonicalizeShapes},      // Sizes explicit, dims from the front.
      {"canonicalize-variants", CanonicalizeVariants},  // One spelling per operation.
      {"decompose", Decompose},                         // No composite is left that does better in parts.
      {"remove-no-ops", RemoveNoOps},                       // No node gives its operand back.
      {"cse", EliminateCommonSubexpressions},                    // Equal pure nodes are one node.
      {"fold-constants", FoldConstants},                // Small known values are constants or full.
      {"simplify-algebra", SimplifyAlgebra},            // No exact identity is left to apply.
      {"simplify-views", SimplifyViews},                // No view of a view of the same kind.
      {"simplify-concats", SimplifyConcats},            // No cat of a cat, no slice of one part.
      {"cancel-transposes", CancelTransposes},          // No transpose undoes another one further up.
      {"drop-known-guards", DropKnownGuards},           // Every guard can fail.
      {"dce", EliminateDeadCode},                          // Every node reaches an output or effect.
  });
  pipeline.AddGroup(
      {
          {"sequence-parallel", ParallelizeSequence},  // No rank does what others do for it.
          {"simplify-views", SimplifyViews},
          {"cse", EliminateCommonSubexpressions},
          {"dce", EliminateDeadCode},
      },
      [](const Graph& graph) { return graph.sequence_parallel.ranks != 0; });
  pipeline.AddGroup({
      {"sink-transposes", SinkTransposes},  // Products read transposes without a copy.
      {"sink-into-convs", SinkIntoConvs},   // Convolutions pad and add by themselves.
      {"split-reductions", SplitReductions},          // Threads can share every long sum.
      {"dce", EliminateDeadCode},
  });
  pipeline.AddGroup({{"assign-layouts", assign_layouts}});  // Convolutions read channels side by side.
  pipeline.AddGroup({{"hoist-guards", HoistGuards}});  // Guards precede all they need not wait for.
  // Values are no longer immutable: an operand named by `inplace` is gone after its node.
  pipeline.AddGroup({{"reinplace", Reinplace}});
  return pipeline;
}

Result<std::vector<MissedRewrite>> FindMissedRewrites(const Graph& graph) {
  std::vector<MissedRewrite> missed_rewrites;
  for (const RewriteSet* set : {&AlgebraRewrites(), &ConvRewrites()}) {
    Graph copy = graph;
    TRY(set->Run(copy, &missed_rewrites));
  }
  TRY(FindWholeSums(graph, missed_rewrites));
  return missed_rewrites;
}

Result<Pass> FindPass(std::string_view name) {
  const Pipeline pipeline = DefaultPipeline();
  if (const Pass* pass = pipeline.Find(name)) return *pass;
  return Error(Code::kNotFound, fmt::format("no pass '{}'; there are {}", name, fmt::join(pipeline.Names(), ", ")));
}

}  // namespace ingot::compiler
