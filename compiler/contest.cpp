// SPDX-License-Identifier: Apache-2.0
#include "compiler/contest.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/ir/text.h"
#include "compiler/library.h"
#include "compiler/loop/text.h"
#include "compiler/lowered_graph.h"

namespace ingot::compiler {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 30;  // of a part's operands at one size
constexpr size_t kPartSizesMax = 3;                  // of one part: a choice holds for all of them

/// Alone the part becomes this kernel, beside copies and what is computed of weights.
bool Becomes(const Graph& part, const Digest& kernel, const CompileOptions& options) {
  const Result<LoweredGraph> lowered = LowerGraph(part, options);
  return lowered && lowered->by_library.empty() && std::ranges::any_of(lowered->fused.kernels, [&](const auto& one) {
           return loop::KernelDigest(one) == kernel;
         });
}

/// nullptr: the operands are too large.
std::unique_ptr<proto::ContestSizeT> OperandsAt(const Graph& part, const std::vector<int64_t>& symbols) {
  auto size = std::make_unique<proto::ContestSizeT>();
  int64_t bytes = 0;
  for (const Input& input : part.inputs) {
    if (input.kind == InputKind::kConstant) continue;
    const Type& type = part.type(input.value);
    const int64_t extent = type.Extent().Eval(symbols);
    const auto element = static_cast<int64_t>(SizeOf(type.dtype));
    if (extent < 0 || extent > (kBytesMax - bytes) / element) return nullptr;
    bytes += extent * element;
    auto& one = *size->inputs.emplace_back(std::make_unique<proto::ContestInputT>());
    one.dtype = guards::NameOf(type.dtype);
    for (const Dim& dim : type.sizes) one.sizes.push_back(dim.Eval(symbols));
    for (const Dim& dim : type.strides) one.strides.push_back(dim.Eval(symbols));
  }
  return size;
}

}  // namespace

Result<proto::ContestsT> FindContests(const Graph& graph, const CompileOptions& options,
                                      const std::vector<std::vector<int64_t>>& sizes,
                                      const std::unordered_set<Digest>& known) {
  TRY_ASSIGN(const LoweredGraph lowered, LowerGraph(graph, options, /*keeps_before_layouts=*/true));
  CompileOptions alone = options;
  alone.gears.clear();
  proto::ContestsT out;
  std::unordered_set<Digest> seen = known;
  for (const Launch& launch : lowered.fused.launches) {
    const loop::Kernel& kernel = lowered.fused.kernels[launch.kernel];
    const std::optional<Graph> part = PartOf(lowered, launch);
    if (!part) continue;
    const Digest digest = GraphDigest(*part);
    if (!seen.insert(digest).second || !Becomes(*part, loop::KernelDigest(kernel), alone)) continue;
    auto contest = std::make_unique<proto::ContestT>();
    for (const std::vector<int64_t>& symbols : sizes) {
      if (contest->sizes.size() == kPartSizesMax) break;
      if (!lowered.conditions.Holds(symbols)) continue;
      if (auto operands = OperandsAt(*part, symbols)) contest->sizes.push_back(std::move(operands));
    }
    if (contest->sizes.empty()) continue;
    contest->kernel_low = digest.low;
    contest->kernel_high = digest.high;
    contest->name = kernel.name;
    contest->graph = Print(*part);
    out.contests.push_back(std::move(contest));
  }
  return out;
}

}  // namespace ingot::compiler
