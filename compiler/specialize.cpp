// SPDX-License-Identifier: Apache-2.0
#include "compiler/specialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "compiler/loop/bounds.h"
#include "compiler/loop/substitute.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

// Measured on AVX-512: code for known sizes is up to three times as fast with 16 elements along the lanes, 1.1 times
// with 128, and no faster from here on.
constexpr int64_t kShort = 256;
// What an artifact holds at most; a hundred gears of a few kernels each.
constexpr size_t kSpecialsMax = 512;

// Where kernels are weighed against the rest of their graph, all symbols have this value; a kernel below the share is
// not worth code of its own.
constexpr int64_t kTypicalSize = 64;
constexpr double kShareMin = 0.02;

/// For each kernel the elements that its launches move, in parts of all that the graph's steps move.
std::vector<double> SharesOf(const Graph& graph, const Fused& fused) {
  const Gear symbols(graph.symbols.size(), kTypicalSize);
  const auto elements = [&](ValueId id) { return static_cast<double>(graph.type(id).Elements().Eval(symbols)); };
  std::vector<double> moved(fused.kernels.size());
  double total = 1;
  for (const Fused::Step& step : fused.steps) {
    double here = 0;
    if (step.is_launch) {
      const Launch& launch = fused.launches[step.launch];
      for (const ValueId id : launch.buffers) here += elements(id);
      moved[launch.kernel] += here;
    } else {
      const Node& node = graph.node(step.node);
      ForEachOperand(node, [&](ValueId id) { here += elements(id); });
      for (const ValueId id : node.results) here += elements(id);
    }
    total += here;
  }
  for (double& one : moved) one /= total;
  return moved;
}

class Specializer {
 public:
  Specializer(const Graph& graph, const Target& target, Fused& fused) : target_(target), fused_(fused) {
    const std::vector<double> shares = SharesOf(graph, fused);
    for (uint32_t i = 0; i < fused_.kernels.size(); ++i) {
      numbers_.emplace(loop::KernelDigest(fused_.kernels[i]), i);
      const bool is_worth_it = shares[i] >= kShareMin;
      fused_.deciding.push_back(is_worth_it ? DecidingSymbols(target_, fused_.kernels[i]) : std::vector<uint16_t>());
    }
  }

  void Add(const Launch& launch, const Gear& gear) {
    const std::vector<uint16_t>& deciding = fused_.deciding[launch.kernel];
    if (deciding.empty() || fused_.specials.size() >= kSpecialsMax) return;
    Gear values;
    for (const Dim& symbol : launch.symbols) values.push_back(symbol.Eval(gear));
    std::vector<int64_t> decided;
    for (const uint16_t symbol : deciding) decided.push_back(values[symbol]);
    if (!met_.emplace(launch.kernel, decided).second) return;
    // A copy: the list of kernels grows below.
    const loop::Kernel general = fused_.kernels[launch.kernel];
    for (const Dim& extent : target_.ShortExtents(general)) {
      if (extent.Eval(values) > kShort) return;
    }
    Dims by;
    for (uint16_t symbol = 0; symbol < general.symbol_count; ++symbol) {
      const bool decides = std::ranges::binary_search(deciding, symbol);
      by.push_back(decides ? Dim(values[symbol]) : Dim::Symbol(symbol));
    }
    loop::Kernel special = loop::Substitute(general, by);
    // A gear at which a slice is longer than its tensor: the general code does not run there either.
    if (!loop::ProveBounds(special)) return;
    // Lanes that lie another way than in the general code need all sizes to be known to be sure of a gain.
    const auto has_row_lanes = [&](const loop::Kernel& kernel) { return target_.BestSchedule(kernel).row_lanes != 0; };
    if (has_row_lanes(special) != has_row_lanes(general) && special.symbol_count != 0) return;
    fused_.specials.push_back({launch.kernel, std::move(decided), NumberOf(std::move(special))});
  }

 private:
  uint32_t NumberOf(loop::Kernel kernel) {
    const auto next = static_cast<uint32_t>(fused_.kernels.size());
    const auto [at, is_new] = numbers_.try_emplace(loop::KernelDigest(kernel), next);
    if (is_new) fused_.kernels.push_back(std::move(kernel));
    return at->second;
  }

  const Target& target_;
  Fused& fused_;
  std::unordered_map<Digest, uint32_t> numbers_;
  std::set<std::pair<uint32_t, std::vector<int64_t>>> met_;
};

}  // namespace

Status Specialize(const Graph& graph, std::span<const Gear> gears, const Target& target, Fused& fused) {
  for (const Gear& gear : gears) {
    if (gear.size() != graph.symbols.size()) {
      return Error(Code::kInvalid,
                   fmt::format("a gear of {} sizes for a graph of {} symbols", gear.size(), graph.symbols.size()));
    }
    if (std::ranges::any_of(gear, [](int64_t size) { return size < 1; })) {
      return Error(Code::kInvalid, "a gear has sizes of 1 and more");
    }
  }
  Specializer specializer(graph, target, fused);
  for (const Gear& gear : gears) {
    for (const Launch& launch : fused.launches) specializer.Add(launch, gear);
  }
  return {};
}

}  // namespace ingot::compiler
