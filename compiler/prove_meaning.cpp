// SPDX-License-Identifier: Apache-2.0
#include "compiler/prove_meaning.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "compiler/proof/prove_graph.h"
#include "compiler/prove.h"

namespace ingot::compiler {
namespace {

// Making the weights of a larger graph takes longer than its compile.
constexpr int64_t kInputBytesMax = 4 << 20;
// So does walking through larger images: at each combination of sizes.
constexpr uint64_t kWorkInCompile = 150'000;
// Whatever that takes is minutes at most.
constexpr int64_t kInputBytesOfAll = int64_t{4} << 30;
constexpr uint64_t kWorkOfAll = uint64_t{1} << 32;
constexpr uint64_t kWorkOfLarger = 20'000'000;

/// The graph as its patterns make it, which may compute something else: that is what is meant.
Status ApplyPatterns(Graph& graph) {
  std::vector<Pipeline::Entry> group;
  for (const char* name : {"canonicalize-shapes", "canonicalize-variants", "remove-no-ops", "apply-patterns"}) {
    TRY_ASSIGN(Pass pass, FindPass(name));
    group.push_back({name, std::move(pass)});
  }
  Pipeline pipeline;
  pipeline.AddGroup(std::move(group));
  TRY_ASSIGN([[maybe_unused]] const auto runs, pipeline.Run(graph, {}));
  return {};
}

}  // namespace

Status ProveMeaning(const Graph& graph, const LoweredGraph& lowered, const CompileOptions& options,
                    const TriedSizes& tried, std::span<const NodeId> nodes, const LaunchKernel& launch,
                    proto::ManifestT& plan) {
  std::optional<Graph> meant;
  if (!graph.patterns.empty()) TRY(ApplyPatterns(meant.emplace(graph)));
  const CompiledGraph compiled{.captured = meant ? *meant : graph,
                               .lowered = lowered.graph,
                               .fused = lowered.fused,
                               .plan = plan,
                               .nodes = nodes,
                               .launch = launch,
                               .without = [&](const std::string& pass) -> Result<Graph> {
                                 CompileOptions others = options;
                                 others.disabled_passes.push_back(pass);
                                 TRY_ASSIGN(LoweredGraph other, LowerGraph(graph, others));
                                 return std::move(other.graph);
                               },
                               .passes = DefaultPipeline().Names()};
  const uint64_t work_max =
      options.prove_all ? kWorkOfAll : std::min(kWorkInCompile, options.prove_ms_max * kWorkInMillisecond);
  TRY_ASSIGN(GraphProof whole,
             ProveGraph(compiled, options.prove_all ? tried.small : tried.apart,
                        options.prove_all ? kInputBytesOfAll : kInputBytesMax, work_max, options.threads));
  if (options.prove_all) {
    // Of larger sizes as many as there are of that work: a fault that needs them is a rarer one.
    TRY_ASSIGN(const GraphProof larger,
               ProveGraph(compiled, tried.larger, kInputBytesOfAll, kWorkOfLarger, options.threads));
    whole.sizes += larger.sizes;
  }
  plan.provenance->graph_proof = std::make_unique<proto::GraphProofT>();
  plan.provenance->graph_proof->sizes = whole.sizes;
  plan.provenance->graph_proof->skipped = std::move(whole.skipped);
  plan.provenance->graph_proof->unknown = std::move(whole.unknown);
  return {};
}

}  // namespace ingot::compiler
