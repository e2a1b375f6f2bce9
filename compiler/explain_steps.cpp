// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain_steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "compiler/fusion/reasons.h"
#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"

namespace ingot::compiler {
namespace {

using Row = std::array<std::string, 5>;

std::string Aligned(const std::vector<Row>& rows) {
  Row::size_type const columns = Row().size();
  std::vector<size_t> widths(columns);
  for (const Row& row : rows) {
    for (size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < columns; ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// Kernels that compute the node; one that many read may be in several.
std::string KernelsOf(const Fused& fused, NodeId id) {
  std::string names;
  for (const Launch& launch : fused.launches) {
    if (std::ranges::find(launch.nodes, id) == launch.nodes.end()) continue;
    names += (names.empty() ? "" : ", ") + fused.kernels[launch.kernel].name;
  }
  return names;
}

}  // namespace

Result<std::string> ExplainSteps(const Graph& graph, const TakesProduct& takes_product) {
  std::map<NodeId, std::string> reasons;
  TRY_ASSIGN(const Fused fused, Fuse(graph, &reasons, takes_product));
  TRY_ASSIGN(const std::vector<MissedRewrite> missed_rewrites, FindMissedRewrites(graph));
  std::vector<Row> rows = {{"step", "type", "becomes", "reason", "why"}};
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const std::string type = node.results.empty() ? "" : Print(graph.type(node.results[0]));
    const std::string kernels = KernelsOf(fused, id);
    const auto reason = reasons.find(id);
    if (!kernels.empty()) rows.push_back({node.op, type, kernels, "", ""});
    if (reason != reasons.end()) {
      rows.push_back({kernels.empty() ? node.op : "", kernels.empty() ? type : "", "ATen",
                      std::string(ReasonName(reason->second)), reason->second});
    }
    if (kernels.empty() && reason == reasons.end()) {
      rows.push_back({node.op, type, "nothing", "not-in-memory", "nobody reads it from memory"});
    }
    for (const MissedRewrite& rewrite : missed_rewrites) {
      if (rewrite.node != id || !rewrite.is_near) continue;
      rows.push_back({"  rewrite " + rewrite.rewrite, "", "left alone", std::string(rewrite.reason), rewrite.why});
    }
  }
  return Aligned(rows);
}

}  // namespace ingot::compiler
