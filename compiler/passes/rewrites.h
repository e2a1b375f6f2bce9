// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/graph_builder.h"
#include "compiler/ir/matcher.h"

namespace ingot::compiler {

/// Why a rewrite has changed nothing; empty where it has.
using Refusal = std::string_view;

/// What a rewrite may do where its pattern was found: to the root, and before it. Nodes that nobody uses any more stay
/// for dce.
class Rewriter {
 public:
  /// `escaping`: EscapingValues of the graph.
  Rewriter(Graph& graph, NodeId root, const std::vector<bool>& escaping)
      : graph_(graph), root_(root), escaping_(escaping) {}

  const Graph& graph() const { return graph_; }
  const Node& root() const { return graph_.node(root_); }
  /// Of the root's result, which it keeps.
  const Type& type() const { return graph_.type(root().results[0]); }
  /// Adds nodes before the root.
  GraphBuilder builder() { return GraphBuilder(graph_, root_); }

  /// The root does this instead.
  Refusal Redefine(std::string op, std::vector<Arg> args);
  /// The root goes, and all that use it use `value`: refused where that has another type, and where a caller gets the
  /// root's result, which is memory of its own.
  Refusal GiveBack(ValueId value);

 private:
  Graph& graph_;
  NodeId root_;
  const std::vector<bool>& escaping_;
};

struct PatternRewrite {
  std::string name;  ///< As people write it: "x * 1".
  Pattern pattern;  ///< A kNode.
  std::function<Refusal(Rewriter&, const Match&)> apply;
};

/// A rewrite that did not take place at a node of its operator, and why.
struct MissedRewrite {
  NodeId node = kNoNode;
  std::string rewrite;
  std::string why;
  bool is_near =
      false;  ///< The operators were there, a condition was not met (Mismatch::IsNear) or the rewrite refused.
  std::string_view reason = "refused";  ///< NameOf(Mismatch::What), or that the rewrite itself would not.
};

/// Rewrites that are tried together. Immutable, thread-safe.
class RewriteSet {
 public:
  explicit RewriteSet(std::vector<PatternRewrite> rewrites);
  RewriteSet(const RewriteSet&) = delete;

  /// Walks over the graph once, trying at each node the rewrites of its operator in their order, again as long as one
  /// takes place. True where one did. Linear in the nodes. kInternal where a node never comes to rest.
  Result<bool> Run(Graph& graph, std::vector<MissedRewrite>* missed_rewrites = nullptr) const;

 private:
  /// Whether a rewrite took place.
  bool RunAt(Graph& graph, NodeId id, const std::vector<bool>& escaping,
             std::vector<MissedRewrite>* missed_rewrites) const;

  std::vector<PatternRewrite> rewrites_;
  std::unordered_map<std::string_view, std::vector<size_t>> by_op_;  // places in rewrites_
};

}  // namespace ingot::compiler
