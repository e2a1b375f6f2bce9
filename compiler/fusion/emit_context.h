// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "compiler/fusion/group.h"

namespace ingot::compiler::fusion {

/// An expression at a place of a group.
using Placed = std::pair<ExprId, CoordsId>;

/// A group as emission looks at it: which values it computes, and which memory it writes. Refers to both.
class EmitContext {
 public:
  EmitContext(const Lowered& lowered, Group& group);

  const Lowered& lowered;
  const Graph& graph;
  const ExprPool& pool;
  Group& group;

  /// The expression a leaf stands for inside this group, or kNoExpr where it is loaded.
  ExprId Inlined(ValueId value, CoordsId at) const;
  /// The value that the group stores into the memory of `root`; kNoValue: it leaves that as it is.
  ValueId WrittenOver(ValueId root) const;
  /// Whether an element of the operand of a node in place is read where the same element of the result is stored.
  bool IsWhereStored(ValueId value, ValueId written, CoordsId at) const;

 private:
  std::set<NodeId> members_;
};

/// How the variables of a group become loops.
struct LoopVars {
  std::vector<size_t> position;  ///< of each variable
  Dims extents;                  ///< by position
  size_t row_vars = 0;           ///< the first of them are rows, the others make up j

  bool IsRow(uint16_t var) const { return !IsDepth(var) && position[var] < row_vars; }
};
/// Rows by falling stride of the first full result; j = the folded variables, or the variable with the smallest stride.
/// `products`: the group's contractions.
LoopVars OrderVars(const EmitContext& context, const std::vector<Placed>& products);

}  // namespace ingot::compiler::fusion
