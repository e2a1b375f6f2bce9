// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain.h"

#include "compiler/fusion/dot.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/text.h"
#include "compiler/loop/text.h"
#include "compiler/lowered_graph.h"
#include "compiler/passes/pipeline.h"
#include "compiler/specialize.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {

Result<std::string> Explain(const Graph& graph, Stage stage, const CompileOptions& options) {
  if (Status status = Verify(graph); !status) {
    return Error(Code::kInvalid, "graph: " + status.error().message());
  }
  Graph work = graph;
  PipelineOptions pipeline;
  pipeline.disabled = options.disabled_passes;
  if (auto runs = DefaultPipeline().Run(work, pipeline); !runs) return std::move(runs).error();
  if (stage == Stage::kOptimized) return Print(work);
  TRY_ASSIGN(const std::unique_ptr<Target> target, Target::Make(options.target));
  std::map<NodeId, std::string> reasons;
  TRY_ASSIGN(Fused fused, Fuse(work, &reasons, ProductsOf(*target)));
  if (stage == Stage::kDot) return ToDot(work, fused, reasons);
  TRY(Specialize(work, options.gears, *target, fused));
  if (fused.kernels.empty()) return std::string("no kernels: every step calls an ATen operator\n");
  std::string text;
  for (const loop::Kernel& kernel : fused.kernels) {
    if (!text.empty() && stage != Stage::kSchedule) text += '\n';
    if (stage == Stage::kLoop) {
      text += loop::Print(kernel);
      continue;
    }
    const loop::Schedule schedule = target->BestSchedule(kernel);
    if (stage == Stage::kSchedule) {
      text += kernel.name + ": " + loop::Print(schedule) + "\n";
      continue;
    }
    TRY_ASSIGN(const std::string code, target->Text(kernel, schedule, /*is_machine=*/stage == Stage::kAsm));
    text += code;
  }
  return text;
}

}  // namespace ingot::compiler
