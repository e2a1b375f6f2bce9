// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rewrites.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// A node that is rewritten more often goes round in circles.
constexpr int kStepsMax = 1000;

}  // namespace

Refusal Rewriter::Redefine(std::string op, std::vector<Arg> args) {
  graph_.Redefine(root_, std::move(op), std::move(args));
  return {};
}

Refusal Rewriter::GiveBack(ValueId value) {
  const ValueId result = root().results[0];
  if (graph_.type(value) != graph_.type(result)) return "the operand has another type or layout than the result";
  if (result < escaping_.size() && escaping_[result]) return "a caller gets the result, in memory of its own";
  ReplaceNode(graph_, root_, value);
  return {};
}

RewriteSet::RewriteSet(std::vector<PatternRewrite> rewrites) : rewrites_(std::move(rewrites)) {
  for (size_t i = 0; i < rewrites_.size(); ++i) {
    for (const std::string& op : rewrites_[i].pattern.ops) by_op_[op].push_back(i);
  }
}

Result<bool> RewriteSet::Run(Graph& graph, std::vector<MissedRewrite>* missed_rewrites) const {
  const std::vector<bool> escaping = EscapingValues(graph);
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (const NodeId id : order) {
    int steps = 0;
    while (RunAt(graph, id, escaping, missed_rewrites)) {
      changed = true;
      if (++steps < kStepsMax) continue;
      return Error(Code::kInternal, fmt::format("rewrites go round in circles at {}", graph.node(id).op));
    }
  }
  return changed;
}

bool RewriteSet::RunAt(Graph& graph, NodeId id, const std::vector<bool>& escaping,
                       std::vector<MissedRewrite>* missed_rewrites) const {
  const auto rewrites = by_op_.find(graph.node(id).op);
  if (rewrites == by_op_.end() || !graph.IsPlaced(id)) return false;
  Matcher matcher(graph);
  for (const size_t i : rewrites->second) {
    const PatternRewrite& rewrite = rewrites_[i];
    const std::optional<Match> match = matcher.At(id, rewrite.pattern);
    if (!match) {
      if (missed_rewrites) {
        const Mismatch& why = matcher.why();
        missed_rewrites->push_back({id, rewrite.name, why.ToText(graph), why.IsNear(), NameOf(why.what)});
      }
      continue;
    }
    Rewriter rewriter(graph, id, escaping);
    const Refusal refusal = rewrite.apply(rewriter, *match);
    if (refusal.empty()) return true;
    if (missed_rewrites) missed_rewrites->push_back({id, rewrite.name, std::string(refusal), true});
  }
  return false;
}

}  // namespace ingot::compiler
