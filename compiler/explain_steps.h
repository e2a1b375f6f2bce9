// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// What becomes of each step of a graph that has gone through the passes, as a table: the kernel it is part of, or that
/// it stays with ATen, by a stable name and in words; and under it the rewrites that nearly took place there. For
/// people.
Result<std::string> ExplainSteps(const Graph& graph, const TakesProduct& takes_product = {});

}  // namespace ingot::compiler
