// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/target.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/parallel_for.h"
#include "compiler/loop/text.h"
#include "compiler/targets/reference/reference_target.h"
#include "compiler/targets/x86/x86_target.h"

namespace ingot::compiler {

using guards::Dim;

Result<std::unique_ptr<Target>> Target::Make(const TargetSpec& spec) {
  if (spec.level == reference::kLevel) return reference::MakeTarget();
  if (spec.level.starts_with("x86-64-v")) return x86::MakeTarget(spec);
  return Error(Code::kUnsupported,
               "no code generation for target level \"" + spec.level + "\"; use x86-64-v3, x86-64-v4 or reference");
}

std::vector<loop::Schedule> Target::Schedules(const loop::Kernel& kernel) const {
  std::vector<loop::Schedule> schedules = {BestSchedule(kernel)};
  std::ranges::move(OtherSchedules(kernel, schedules.front()), std::back_inserter(schedules));
  return schedules;
}

std::string TargetsIdentity() { return x86::Identity(); }

// A contraction takes as long to make as so many instructions.
constexpr size_t kInstsOfContraction = 100;

Result<std::vector<Object>> EmitAll(const Target& target, std::span<const loop::Kernel> kernels, unsigned threads) {
  std::vector<loop::Schedule> best;
  for (const loop::Kernel& kernel : kernels) best.push_back(target.BestSchedule(kernel));
  return EmitAll(target, kernels, best, threads);
}

Result<std::vector<Object>> EmitAll(const Target& target, std::span<const loop::Kernel> kernels,
                                    std::span<const loop::Schedule> schedules, unsigned threads) {
  std::vector<std::optional<Result<Object>>> results(kernels.size());
  // What takes longest first, so that threads end together.
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto size_of = [&](size_t i) {
    const auto contractions = std::ranges::count_if(kernels[i].blocks, &loop::Block::is_contraction);
    return kernels[i].insts.size() + kInstsOfContraction * static_cast<size_t>(contractions);
  };
  std::ranges::stable_sort(order, std::greater<>(), size_of);
  ParallelFor(kernels.size(), threads, [&](size_t at) {
    const size_t i = order[at];
    results[i] = target.Emit(kernels[i], schedules[i]);
  });
  std::vector<Object> objects;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!*results[i]) return std::move(*results[i]).error().Wrap("kernel " + kernels[i].name);
    objects.push_back(std::move(*results[i]).value());
  }
  return objects;
}

Status WarmUp(const Target& target) {
  // Sizes of weights are no part of shared code; that there are many rows, as many as a caller has, is.
  TRY_ASSIGN(const loop::Kernel linear, loop::Parse(R"(kernel linear symbols 1 {
  param p0: in f32[1024*s0]
  param p1: in f32[1048576]
  param p2: out f32[1024*s0]
  buffer b0: f32[1024]
  rows [s0]
  contract [1024, 1024] into b0 {
    %0 = load p0 [1024*i0 + k] : f32
    %1 = load p1 [1024*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  loop [1024] {
    %3 = load b0 [j] : f32
    store p2 [1024*i0 + j] = %3
  }
})"));
  TRY(target.Emit(linear, target.BestSchedule(linear)));
  return {};
}

std::vector<uint16_t> DecidingSymbols(const Target& target, const loop::Kernel& kernel) {
  std::vector<uint16_t> found;
  for (const Dim& extent : target.ShortExtents(kernel)) {
    extent.ForEachSymbol([&](uint16_t symbol) { found.push_back(symbol); });
  }
  std::ranges::sort(found);
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

}  // namespace ingot::compiler
