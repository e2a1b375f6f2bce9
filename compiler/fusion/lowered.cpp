// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lowered.h"

#include <algorithm>

#include "compiler/fusion/lower/decoders.h"
#include "compiler/fusion/rounding.h"
#include "compiler/fusion/verify.h"

namespace ingot::compiler::fusion {

Lowered::Lowered(const Graph& g, const TakesProduct& takes_product)
    : graph(g), pool(g), results(g.node_capacity()), why(g.node_capacity()), storage(SharedStorage(g)) {
  for (NodeId id : g.order()) {
    results[id] = LowerNode(pool, g.node(id), why[id]);
    if (results[id].empty() || !takes_product || !MakesProducts(g.node(id)) || takes_product(g, id)) continue;
    results[id].clear();
    why[id] = kLibraryIsFaster;
  }
  RoundAsEager(*this, g.eager_numerics);
  for (NodeId id : g.order()) Verify(id);
  aliases = FindAliases(g, pool, results);
  decodes = FindDecoders(*this);
  CutDepths(*this);
}

void Lowered::Verify(NodeId node) {
  for (const ExprId result : results[node]) {
    const std::string_view wrong = WrongWith(pool, result);
    if (wrong.empty()) continue;
    why[node] = wrong;
    results[node].clear();
    return;
  }
}

const Dims& Lowered::StoredSizes(ValueId value) const {
  const NodeId def = graph.value(value).def;
  return def != kNoNode && IsWrite(def) ? pool[results[def][0]].sizes : graph.type(value).sizes;
}

bool Lowered::IsView(NodeId node) const {
  const Node& n = graph.node(node);
  if (results[node].empty() || n.inplace >= 0 || !ViewRules().contains(n.op)) return false;
  return std::all_of(n.results.begin(), n.results.end(), [&](ValueId r) { return aliases[r].root != r; });
}

}  // namespace ingot::compiler::fusion
