// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// The order in which steps run and which in-place marks the plan follows.
///
/// A mark is dropped (the result gets memory of its own) when somebody still needs the old
/// contents, when the operand is visible outside and no final write makes the change part of the
/// program, or when a value guard would be checked only after the change is visible.
struct Schedule {
  std::vector<uint32_t> steps;   ///< positions in Fused::steps; views that are aliases are left out
  std::vector<bool> inplace;     ///< for each node: its mark is followed
  std::vector<ValueId> parent;   ///< for each value: the value whose memory it shares, or kNoValue

  /// The value that owns the memory of `value`.
  ValueId Root(ValueId value) const {
    while (parent[value] != kNoValue) value = parent[value];
    return value;
  }
};

Schedule MakeSchedule(const Graph& graph, const Fused& fused);

}  // namespace ingot::compiler
