// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/lanes.h"

#include <algorithm>

#include "compiler/codegen/columns.h"

namespace ingot::compiler::codegen {

guards::Dims LaneExtents(const loop::Kernel& kernel) {
  if (FoldsColumns(kernel)) return {kernel.rows.back()};
  guards::Dims extents;
  // How many rows there are decides what registers hold of a product of matrices.
  if (std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) {
    if (!kernel.rows.empty()) extents.push_back(kernel.rows.back());
    return extents;
  }
  for (const loop::Block& block : kernel.blocks) {
    if (block.is_loop) extents.push_back(block.extent);
  }
  return extents;
}

std::vector<uint16_t> DecidingSymbols(const loop::Kernel& kernel) {
  std::vector<uint16_t> found;
  for (const guards::Dim& extent : LaneExtents(kernel)) {
    for (const guards::Dim::Term& term : extent.terms()) {
      found.insert(found.end(), term.symbols.begin(), term.symbols.end());
    }
  }
  std::ranges::sort(found);
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

}  // namespace ingot::compiler::codegen
