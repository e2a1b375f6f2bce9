// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/fusion/group.h"
#include "compiler/fusion/op_cost.h"
#include "compiler/fusion/visited.h"

namespace ingot::compiler::fusion {

// What becomes of a group that computes one more node. Nothing here changes anything but the group's iteration space,
// which learns new places.

/// A value that an expression reads, where in the group, and which of the expression's elements are visited there.
struct Leaf {
  ValueId value;
  CoordsId at;
  Visited visited;
};
/// Collects what `root` reads at `at`, coordinates of the group. False: not expressible, or a gather would not see all
/// of its indices.
bool Inline(const Lowered& lowered, Group& group, ExprId root, CoordsId at, Visited visited, std::vector<Leaf>& leaves);

/// Memory that the group reads or writes: one parameter for each view's root.
size_t ParamsOf(const Lowered& lowered, const Group& group, const std::vector<Leaf>& more);

/// Whether a value of this cost may be computed at these places of a group rather than once for all.
bool IsWorthwhile(const Lowered& lowered, const Group& group, ValueId value, const OpCost& cost,
                  const std::vector<CoordsId>& places);

/// Whether a value comes, by a few steps, from a reduction with results of the same sizes.
bool IsMadeOfRows(const Lowered& lowered, ValueId value, int steps = 4);

/// Stored values are still whole: none of a reduction's variables is one of theirs.
bool HoldsStores(const Lowered& lowered, const Group& group);

}  // namespace ingot::compiler::fusion
