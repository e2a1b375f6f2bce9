// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// The picture of a fused graph, in graphviz' language: a box for each operator with the type of its first result, a
/// dashed cluster around those that are one kernel, and what stays with ATen outside. A producer that several kernels
/// compute again stands in each of them. `reasons`, by node, become what a pointer on it says.
///
/// Boxes are of class "op", "aten", "view", "input", "weight" or "result", for who colours them. Names come from
/// users' code and are quoted. Equal graphs give equal text.
std::string ToDot(const Graph& graph, const Fused& fused, const std::map<NodeId, std::string>& reasons);

}  // namespace ingot::compiler
