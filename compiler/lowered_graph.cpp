// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowered_graph.h"

#include <utility>

#include "compiler/conditions.h"
#include "compiler/fusion/lower/lower.h"
#include "compiler/ir/text.h"
#include "compiler/library.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/plan.h"
#include "compiler/specialize.h"
#include "compiler/stopwatch.h"

namespace ingot::compiler {

TakesProduct ProductsOf(const Target& target, const std::unordered_set<NodeId>* by_library) {
  return [&target, by_library](const Graph& graph, NodeId id) {
    if (by_library != nullptr && by_library->contains(id)) return false;
    // Of the others there is one lowering that is always good.
    if (!fusion::ContractRules().contains(graph.node(id).op)) return true;
    const Type& type = graph.type(graph.node(id).results[0]);
    return target.TakesProduct(type.dtype, type.rank() < 2 ? Dim(1) : type.sizes[type.rank() - 2]);
  };
}

Result<LoweredGraph> LowerGraph(const Graph& graph, const CompileOptions& options, bool keeps_before_layouts) {
  if (Status status = Verify(graph); !status) {
    return Error(Code::kInvalid, "graph: " + status.error().message());
  }
  LoweredGraph lowered;
  PipelineOptions pipeline;
  pipeline.disabled = options.disabled_passes;
  pipeline.dump_dir = options.dump_dir;
  TRY_ASSIGN(lowered.target, Target::Make(options.target));
  const auto layouts = std::make_shared<LayoutChoices>();
  const bool has_choices = options.recipe && ChoosesLibrary(options.recipe->choices);
  layouts->keeps_before = keeps_before_layouts || has_choices;
  Stopwatch watch;
  // What is left to the library makes other kernels of what is around it, and those may be chosen as well.
  do {
    watch = Stopwatch();
    layouts->before.reset();
    lowered.graph = graph;
    const auto uses = std::make_shared<std::vector<PatternUse>>();
    if (auto runs = DefaultPipeline(uses, layouts).Run(lowered.graph, pipeline); !runs) return std::move(runs).error();
    lowered.uses = std::move(*uses);
    if (layouts->keeps_before) lowered.before_layouts = layouts->before ? std::move(*layouts->before) : lowered.graph;
    lowered.seconds_passes += watch.Seconds();
    watch = Stopwatch();
    TRY_ASSIGN(lowered.fused, Fuse(lowered.graph, nullptr, ProductsOf(*lowered.target, &layouts->by_library)));
    lowered.seconds_fusion += watch.Seconds();
  } while (has_choices && LeaveToLibrary(options.recipe->choices, lowered, layouts->by_library));
  const Stopwatch fusion;
  TRY(Specialize(lowered.graph, options.gears, *lowered.target, lowered.fused));
  TRY_ASSIGN(lowered.conditions, ConditionsOf(lowered.graph, lowered.fused));
  lowered.seconds_fusion += fusion.Seconds();
  return lowered;
}

Result<proto::ManifestT> PlanOf(const LoweredGraph& lowered, std::span<const Object> objects,
                                std::vector<NodeId>* nodes) {
  TRY_ASSIGN(proto::ManifestT plan, BuildPlan(lowered.graph, lowered.fused, objects, nodes));
  plan.conditions = lowered.conditions.ToText();
  return plan;
}

}  // namespace ingot::compiler
