// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/pattern.h"

namespace ingot::compiler {

/// What a pattern has found.
class Match {
 public:
  /// kNoValue and null where nothing of that kind has the name.
  ValueId value(std::string_view name) const;
  const Number* number(std::string_view name) const;
  /// The nodes of the pattern, each before its operands.
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  friend class Matcher;
  struct Capture {
    std::string name;
    ValueId value = kNoValue;
    std::optional<Number> number = std::nullopt;
  };
  const Capture* Find(std::string_view name) const;

  std::vector<Capture> captures_;
  std::vector<NodeId> nodes_;
};

/// Where a pattern ends, and why. Of several ways to match, the one that came furthest.
struct Mismatch {
  enum class What : uint8_t {
    kOperand,    ///< Another kind of argument, operator or number.
    kArity,      ///< More operands than the pattern lists.
    kImpure,     ///< A node with effects, or with several results.
    kUses,       ///< Used more than once.
    kCondition,  ///< A condition on the type does not hold.
    kOther,      ///< Not what the name stands for already.
  };
  What what = What::kOperand;
  NodeId node = kNoNode;
  int operand = -1;  ///< Of the node; -1: the node itself.
  const Pattern* expected = nullptr;
  size_t condition = 0;  ///< Which one, with kCondition.

  size_t nodes = 0;      ///< Of the pattern, found before it ended.

  /// The operators so far are those of the pattern: what keeps it from matching is a condition.
  bool IsNear() const { return what == What::kOther ? nodes > 1 : what != What::kOperand && what != What::kArity; }
  /// "operand 1 'other' of aten.mul.Tensor is f32[4], expected the number 1".
  std::string ToText(const Graph& graph) const;
};

/// A stable name: "operand", "arity", "impure", "uses", "condition", "other".
std::string_view NameOf(Mismatch::What what);

/// Holds patterns against nodes of a graph that does not change meanwhile. A pattern without Commutes() takes time
/// linear in itself; each Commutes() may double that.
class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  /// `pattern` is a kNode, and is there as long as why() is asked for.
  std::optional<Match> At(NodeId root, const Pattern& pattern);
  std::optional<Match> At(NodeId root, const Pattern&& pattern) = delete;
  /// As At, where something is found already: names stand for what they stand for there.
  std::optional<Match> Extend(Match found, NodeId root, const Pattern& pattern);
  /// Why the last At() found nothing.
  const Mismatch& why() const { return why_; }

 private:
  /// An operand that must be as a pattern says, and what must hold besides.
  struct Goal {
    const Pattern* pattern = nullptr;
    NodeId node = kNoNode;
    size_t operand = 0;
    const Goal* next = nullptr;
    int element = -1;  ///< Of a list; -1: the operand itself.
  };

  bool Solve(const Goal* goal);
  bool SolveValue(const Goal& goal, ValueId value);
  bool SolveNumber(const Goal& goal);
  bool SolveList(const Goal& goal);
  bool SolveNode(NodeId id, const Pattern& pattern, const Goal* next, const Mismatch& place);
  bool SolveOperands(NodeId id, const Pattern& pattern, const Goal* next, bool is_swapped);
  bool Capture(const Goal& goal, const Match::Capture& capture);
  bool Fail(const Goal& goal, Mismatch::What what, size_t condition = 0);
  bool Fail(Mismatch mismatch);

  const Graph& graph_;
  Match match_;
  Mismatch why_;
  size_t solved_ = 0, furthest_ = 0;
};

}  // namespace ingot::compiler
