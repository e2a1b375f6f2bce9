// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/views.h"

namespace ingot::compiler::fusion {
namespace {

/// The operand as the map sees it, by these sizes.
ExprId Seen(const Rule& r, const ViewMap& map, const Dims& sizes) {
  const ExprId operand = r.Tensor(0);
  if (map.in_order) return r.pool.Reshape(operand, sizes);
  const Dims& from = r.call.TypeAt(0)->sizes;
  bool is_same = sizes == from;
  for (size_t d = 0; d < from.size(); ++d) {
    const ViewMap::Axis& axis = map.axes[d];
    const auto is_there = [&](const auto& along) { return along.first < sizes.size(); };
    if (!std::ranges::all_of(axis.along, is_there)) return kNoExpr;
    is_same = is_same && (axis == ViewMap::Axis::Along(d) || (from[d].is_one() && axis == ViewMap::Axis::At(0)));
  }
  return is_same ? operand : r.pool.View(operand, sizes, CoordsOf(map));
}

Results View(const Rule& r) {
  const std::vector<ViewMap> maps = ViewMapsOf(r.graph(), r.node());
  if (maps.size() != r.node().results.size()) return r.No("dims or places that are not there");
  Results results;
  for (size_t i = 0; i < maps.size(); ++i) results.push_back(Seen(r, maps[i], r.result(i).sizes));
  return results;
}

}  // namespace

Coords CoordsOf(const ViewMap& map) {
  Coords coords;
  for (const ViewMap::Axis& axis : map.axes) {
    coords.push_back(Affine::Of(axis.start));
    for (const auto& [dim, step] : axis.along) coords.back().AddScaled(Affine::Var(static_cast<uint16_t>(dim)), step);
  }
  return coords;
}

const RuleTable& ViewRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define VIEW(rule) , View
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
