// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/import/sizes.h"
#include "compiler/ir/graph.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler {

/// Notes on `sizes` what the operator relies on beyond what its inference rule asks, so that calls
/// that eager would refuse, or take otherwise, are not served. False where nobody has looked at what
/// the operator makes of other sizes.
bool NoteOperator(const Graph& graph, const Node& node, Sizes& sizes);

/// Infer, for operators whose positions are known to lie within their dim, counted from the front: a
/// slice is as long as its bounds say.
std::optional<std::vector<Inferred>> InferWithin(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
