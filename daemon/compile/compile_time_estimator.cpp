// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compile_time_estimator.h"

#include <algorithm>
#include <utility>

namespace ingot::daemon {
namespace {

/// Compiles of this daemon that are remembered.
constexpr size_t kNewestMax = 256;
/// Entries of the function that are looked at, the newest.
constexpr size_t kEntriesMax = 8;
/// Graphs of another function say something only where they are not far from this one in size, and are not the only
/// ones.
constexpr uint64_t kSizeFactor = 4;
constexpr size_t kOthersMin = 3;

/// Compiles take about as long for each byte: the middle one of what was seen, for so many.
std::optional<double> Scaled(const std::vector<CompileCost>& costs, uint64_t graph_bytes) {
  std::vector<double> rates;
  for (const CompileCost& cost : costs) {
    if (cost.graph_bytes == 0 || cost.seconds <= 0) continue;
    rates.push_back(cost.seconds / static_cast<double>(cost.graph_bytes));
  }
  if (rates.empty()) return std::nullopt;
  const auto middle = rates.begin() + static_cast<long>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle * static_cast<double>(graph_bytes);
}

}  // namespace

void CompileTimeEstimator::Learn(const CompileCost& cost) {
  MutexLock lock(mutex_);
  newest_.push_front(cost);
  if (newest_.size() > kNewestMax) newest_.pop_back();
}

Task<std::vector<CompileCost>> CompileTimeEstimator::CostsOf(std::string function, Until until) {
  std::vector<CompileCost> costs;
  CO_TRY_ASSIGN(const Entries::Names names,
                co_await entries_.PageOfFunction(std::move(function), "", kEntriesMax, until));
  for (const Digest& digest : names.digests) {
    CO_TRY(until.Check());
    const Result<EntryRef> entry = co_await entries_.Look(digest, until);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      const auto text = store_.StatOf(cache::Table::kArtifacts, {stored->text_low, stored->text_high});
      if (!text) continue;
      costs.push_back({text->bytes, !stored->gears.empty(), stored->compile_s});
    }
  }
  co_return costs;
}

Task<std::optional<double>> CompileTimeEstimator::SecondsFor(std::string function, uint64_t graph_bytes, bool has_gears,
                                                             Until until) {
  Result<std::vector<CompileCost>> costs = co_await CostsOf(std::move(function), until);
  std::vector<CompileCost> alike;
  if (costs) alike = std::move(*costs);
  std::erase_if(alike, [&](const CompileCost& cost) { return cost.has_gears != has_gears; });
  if (const auto seconds = Scaled(alike, graph_bytes)) co_return seconds;
  alike.clear();
  MutexLock lock(mutex_);
  for (const CompileCost& cost : newest_) {
    const bool is_near = cost.graph_bytes <= graph_bytes * kSizeFactor && graph_bytes <= cost.graph_bytes * kSizeFactor;
    if (cost.has_gears == has_gears && is_near) alike.push_back(cost);
  }
  if (alike.size() < kOthersMin) co_return std::optional<double>();
  co_return Scaled(alike, graph_bytes);
}

}  // namespace ingot::daemon
