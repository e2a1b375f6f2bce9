// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

// What several passes need to know about a graph before they change it.

/// Values whose memory a caller may hold after the run: outputs, written values, and everything
/// they may be views of. Two of them must not become one, and none may become memory that
/// outlives the run, unless eager shared it too.
std::vector<bool> EscapingValues(const Graph& graph);

/// The node that defines `id`, or null for inputs and for kNoValue.
const Node* Definition(const Graph& graph, ValueId id);

/// Makes the uses of result 0 of `node` use `to` and takes the node out.
void ReplaceNode(Graph& graph, NodeId id, ValueId to);

/// Bytes that are equal exactly for equal operations on equal operands; doubles by their bits.
std::string ExpressionKey(const Graph& graph, const Node& node);

/// Dims of a permute or transpose node from the front; false for other nodes.
bool PermutationOf(const Graph& graph, const Node& node, std::vector<int64_t>& dims);

}  // namespace ingot::compiler
