// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"
#include "compiler/fusion/group.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::fusion {

/// A kernel before its loops are collapsed: every index has one coefficient for each of `extents`,
/// the first `row_vars` of which are rows; the others make up j.
struct Draft {
  loop::Kernel kernel;
  Dims extents;
  size_t row_vars = 0;
  bool has_reduced = false;
  std::vector<ValueId> buffers;   ///< graph value behind each parameter
};

/// Writes the blocks of a group. kUnsupported: a limit, or a shape the group cannot express.
Result<Draft> EmitGroup(const Lowered& lowered, Group& group);

/// Collapses loops, splits what is left for threads, drops empty blocks and renumbers symbols by
/// first use; `symbols` receives the value of each over the graph's symbols.
Result<loop::Kernel> Finish(Draft draft, Dims& symbols);

/// Renumbers the symbols of a kernel over a graph's symbols by first use; `symbols` receives the value of each.
void NumberSymbols(loop::Kernel& kernel, Dims& symbols);

}  // namespace ingot::compiler::fusion
