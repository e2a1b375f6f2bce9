// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// An effect, beside those of graph.h: the node runs as it is, in place. WrittenMemories says on what.
inline constexpr uint8_t kWrites = 8;

/// What a node with kWrites has besides its operator's own arguments: two more of them, behind those, and as many
/// results at the end as there are memories. (Of another node there are none.)
///
/// The operator writes its arguments where they lie: each of those is one of the first memories, or a view of it. What
/// it leaves there are the results. The other memories it does not touch: they say when it runs, after what was written
/// to them before and ahead of what is written to them later, so that a caller finds them so where it raises.
struct WrittenMemories {
  explicit WrittenMemories(const Node& node);

  std::span<const ValueId> values;
  std::span<const Dim> inputs;  ///< The input or weight whose memory each of them is; -1: of the call's own.
  size_t own_args = 0;  ///< Arguments that the operator gets.
  size_t own_results = 0;  ///< Results that are no memories.
};

/// ingot.memory(v) {opaque}: v in memory that nobody else reads any more, for an operator to write to. Being opaque it
/// is never merged; the plan makes a copy only where somebody does read it.
inline constexpr std::string_view kMemoryOp = "ingot.memory";
/// Whether the value is the result of one: of a node's memories, one that its operator writes.
bool IsTaken(const Graph& graph, ValueId memory);

}  // namespace ingot::compiler
