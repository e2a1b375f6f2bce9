// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/sizes.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Notes on `sizes` what the operator relies on beyond what its inference rule asks, so that calls
/// that eager would refuse, or take otherwise, are not served. False where nobody has looked at what
/// the operator makes of other sizes.
bool NoteOperator(const Graph& graph, const Node& node, Sizes& sizes);

}  // namespace ingot::compiler
