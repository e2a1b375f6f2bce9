// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/cpu_features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/processor_flags.h"

namespace ingot::client {

const FeatureSet& CpuFeatures() {
  // No lock, which a child process would find held for ever if it was forked while a thread reads.
  static std::atomic<const FeatureSet*> known{nullptr};
  const auto* found = known.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<FeatureSet>(ProcessorFlags());
  if (known.compare_exchange_strong(found, made.get())) found = made.release();
  return *found;
}

Status AdmitCpuFeatures(const std::vector<std::string_view>& needed, const FeatureSet& available,
                        TilePermission& tiles) {
  std::vector<std::string_view> missing;
  for (const std::string_view feature : needed) {
    if (!available.contains(feature)) missing.push_back(feature);
  }
  if (!missing.empty()) {
    return Error(Code::kIncompatible, fmt::format("made for a CPU with {}, which this one lacks; compile for this "
                                                  "machine",
                                                  fmt::join(missing, ", ")));
  }
  return std::ranges::any_of(needed, IsOfTiles) ? tiles.Get() : Status();
}

}  // namespace ingot::client
