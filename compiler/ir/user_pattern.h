// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// A part of graphs that a user knows, and what stands in its place: two graphs with the same inputs, by position, and
/// as many outputs (docs/passes.md). Inputs are tensors of any sizes that the symbols allow; sizes that are numbers,
/// and numbers among arguments, must be equal.
struct UserPattern {
  std::string name;  ///< For people; not part of canonical bytes.
  Graph search;
  Graph replace;
  /// The same two, recorded with other numbers where callers may have any: what differs from the first stands for
  /// every number. Empty, or both.
  std::vector<Graph> varied;
};

inline constexpr size_t kUserPatternsMax = 64;
inline constexpr size_t kUserPatternNodesMax = 128;  ///< Of each of its graphs.

/// The rule that a pattern of a graph breaks; empty where it breaks none. Its graphs verify already.
std::string FindFault(const UserPattern& pattern);

/// Names apart.
bool AreSame(const UserPattern& a, const UserPattern& b);

}  // namespace ingot::compiler
