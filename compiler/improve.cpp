// SPDX-License-Identifier: Apache-2.0
#include "compiler/improve.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/choices.h"
#include "compiler/loop/text.h"
#include "compiler/lowered_graph.h"
#include "compiler/measure.h"
#include "compiler/plan/arena.h"
#include "compiler/stopwatch.h"

namespace ingot::compiler {
namespace {

// Sizes of one kernel: a schedule serves all of them.
constexpr size_t kSizesMax = 3;
// Of what is left for all kernels, one may take so much.
constexpr uint64_t kShare = 4;

using Sizes = std::vector<std::vector<int64_t>>;

/// Values of a kernel's symbols in its launches at the sizes of the graph; the largest, the smallest and one between.
Sizes SizesOf(const Fused& fused, uint32_t kernel, const Sizes& graph_sizes) {
  std::set<std::vector<int64_t>> found;
  for (const Launch& launch : fused.launches) {
    if (launch.kernel != kernel) continue;
    for (const std::vector<int64_t>& values : graph_sizes) {
      std::vector<int64_t> evaluated;
      for (const Dim& dim : launch.symbols) evaluated.push_back(dim.Eval(values));
      found.insert(std::move(evaluated));
    }
  }
  Sizes sizes(found.begin(), found.end());
  if (sizes.size() > kSizesMax) sizes = {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
  return sizes;
}

}  // namespace

Result<proto::FindingsT> Improve(const Graph& graph, const CompileOptions& options, const ImproveOptions& improve) {
  TRY_ASSIGN(const LoweredGraph lowered, LowerGraph(graph, options));
  const Fused& fused = lowered.fused;
  // Where buffers lie does not depend on code.
  const std::vector<Object> no_code(fused.kernels.size());
  TRY_ASSIGN(proto::ManifestT plan, PlanOf(lowered, no_code));
  proto::FindingsT out;
  proto::RecipeT known;
  if (options.recipe) known = *options.recipe;
  TRY(AddArenas(known.arenas, plan));
  TRY_ASSIGN(const std::vector<proto::ArenaLayoutT> arenas,
             SearchArenas(plan, improve.sizes, improve.arena_steps, out.arena_bytes_saved));
  for (const proto::ArenaLayoutT& layout : arenas) {
    known.arenas.push_back(std::make_unique<proto::ArenaLayoutT>(layout));
  }

  Sizes sizes;
  for (const std::vector<int64_t>& values : improve.sizes) {
    if (lowered.conditions.Holds(values)) sizes.push_back(values);
  }
  const Stopwatch watch;
  for (uint32_t i = 0; i < fused.kernels.size(); ++i) {
    const loop::Kernel& kernel = fused.kernels[i];
    const auto spent_ms = static_cast<uint64_t>(watch.Seconds() * 1e3);
    if (spent_ms >= improve.measure_ms) break;
    if (improve.known.contains(loop::KernelDigest(kernel))) continue;
    MeasureOptions measure;
    measure.ms_max = (improve.measure_ms - spent_ms) / kShare;
    measure.processors = improve.processors;
    auto measured = MeasureSchedules(*lowered.target, kernel, SizesOf(fused, i, sizes), measure);
    if (!measured) continue;
    if (!measured->schedule.empty()) {
      auto& choice = *known.choices.emplace_back(std::make_unique<proto::KernelChoiceT>());
      choice.kernel_low = measured->kernel_low;
      choice.kernel_high = measured->kernel_high;
      choice.schedule = measured->schedule;
    }
    out.measured.push_back(std::make_unique<proto::MeasuredT>(std::move(*measured)));
  }
  out.recipe = std::make_unique<proto::RecipeT>();
  out.recipe->arenas = std::move(known.arenas);
  out.recipe->choices = CopyOf(lowered.by_library);
  ChosenSchedules(*lowered.target, fused.kernels, known.choices, out.recipe->choices);
  return out;
}

}  // namespace ingot::compiler
