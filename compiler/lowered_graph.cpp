// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowered_graph.h"

#include <utility>

#include "compiler/conditions.h"
#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/plan.h"
#include "compiler/specialize.h"
#include "compiler/stopwatch.h"

namespace ingot::compiler {

TakesProduct ProductsOf(const Target& target) {
  return [&target](DType dtype, const Dim& rows) { return target.TakesProduct(dtype, rows); };
}

Result<LoweredGraph> LowerGraph(const Graph& graph, const CompileOptions& options) {
  if (Status status = Verify(graph); !status) {
    return Error(Code::kInvalid, "graph: " + status.error().message());
  }
  LoweredGraph lowered;
  const Stopwatch passes;
  lowered.graph = graph;
  PipelineOptions pipeline;
  pipeline.disabled = options.disabled_passes;
  pipeline.dump_dir = options.dump_dir;
  const auto uses = std::make_shared<std::vector<PatternUse>>();
  if (auto runs = DefaultPipeline(uses).Run(lowered.graph, pipeline); !runs) return std::move(runs).error();
  lowered.uses = std::move(*uses);
  lowered.seconds_passes = passes.Seconds();

  const Stopwatch fusion;
  TRY_ASSIGN(lowered.target, Target::Make(options.target));
  TRY_ASSIGN(lowered.fused, Fuse(lowered.graph, nullptr, ProductsOf(*lowered.target)));
  TRY(Specialize(lowered.graph, options.gears, *lowered.target, lowered.fused));
  TRY_ASSIGN(lowered.conditions, ConditionsOf(lowered.graph, lowered.fused));
  lowered.seconds_fusion = fusion.Seconds();
  return lowered;
}

Result<proto::ManifestT> PlanOf(const LoweredGraph& lowered, std::span<const Object> objects) {
  TRY_ASSIGN(proto::ManifestT plan, BuildPlan(lowered.graph, lowered.fused, objects));
  plan.conditions = lowered.conditions.ToText();
  return plan;
}

}  // namespace ingot::compiler
