// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/arena.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "guards/guard_set.h"
#include "guards/manifest_guards.h"
#include "kernels/arena_search.h"

namespace ingot::compiler {
namespace {

guards::Dim DimOf(const proto::ManifestT& plan, uint32_t index) {
  const proto::DimT& dim = *plan.dims[index];
  return *guards::ReadDim(&dim.coefs, &dim.degrees, &dim.symbols, &dim.atoms,
                          [&](uint32_t before) { return DimOf(plan, before); });
}

bool HasLayout(const proto::ManifestT& plan, const std::vector<int64_t>& values) {
  return plan.recipe &&
         std::ranges::any_of(plan.recipe->arenas, [&](const auto& one) { return one->values == values; });
}

Status CheckCount(const proto::ManifestT& plan, const std::vector<int64_t>& values) {
  if (values.size() == plan.symbols.size()) return {};
  return Error(Code::kInvalid, fmt::format("{} values for {} symbols", values.size(), plan.symbols.size()));
}

}  // namespace

std::vector<kernels::Lifetime> ArenaLifetimes(const proto::ManifestT& plan, std::span<const int64_t> symbols) {
  std::vector<kernels::Lifetime> lifetimes;
  for (const auto& storage : plan.storages) {
    if (storage->kind != proto::StorageKind::Arena) continue;
    lifetimes.push_back({DimOf(plan, storage->bytes_dim).Eval(symbols), storage->first_step, storage->last_step});
  }
  return lifetimes;
}

Result<std::vector<proto::ArenaLayoutT>> SearchArenas(const proto::ManifestT& plan,
                                                      std::span<const std::vector<int64_t>> sizes, uint64_t steps_max,
                                                      uint64_t& bytes_saved) {
  TRY_ASSIGN(const guards::GuardSet conditions, guards::GuardSet::Parse(plan.conditions));
  std::vector<proto::ArenaLayoutT> found;
  for (const std::vector<int64_t>& values : sizes) {
    TRY(CheckCount(plan, values));
    if (HasLayout(plan, values) || !conditions.Holds(values)) continue;
    const std::vector<kernels::Lifetime> lifetimes = ArenaLifetimes(plan, values);
    const kernels::ArenaLayout solved = kernels::SolveArena(lifetimes);
    const kernels::ArenaLayout best = kernels::ImproveArena(lifetimes, solved, steps_max).layout;
    if (best.bytes >= solved.bytes) continue;
    bytes_saved += static_cast<uint64_t>(solved.bytes - best.bytes);
    proto::ArenaLayoutT& layout = found.emplace_back();
    layout.values = values;
    layout.bytes = static_cast<uint64_t>(best.bytes);
    layout.offsets.assign(best.offsets.begin(), best.offsets.end());
  }
  return found;
}

Status AddArenas(std::span<const std::unique_ptr<proto::ArenaLayoutT>> arenas, proto::ManifestT& plan) {
  for (const auto& one : arenas) {
    const proto::ArenaLayoutT& layout = *one;
    TRY(CheckCount(plan, layout.values));
    const std::vector<kernels::Lifetime> lifetimes = ArenaLifetimes(plan, layout.values);
    if (HasLayout(plan, layout.values) || !kernels::IsArenaLayout(lifetimes, layout.offsets, layout.bytes)) {
      return Error(Code::kInvalid, fmt::format("the recipe's layout of {} bytes at [{}] is none of the plan's arena",
                                               layout.bytes, fmt::join(layout.values, ", ")));
    }
    if (!plan.recipe) plan.recipe = std::make_unique<proto::RecipeT>();
    plan.recipe->arenas.push_back(std::make_unique<proto::ArenaLayoutT>(layout));
    // What the report says of a graph without symbols.
    if (plan.symbols.empty() && plan.provenance) plan.provenance->arena_bytes = layout.bytes;
  }
  return {};
}

}  // namespace ingot::compiler
