// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Whether a contraction goes the way of windows (lower_window.cpp): several k run, or what rows read stands under a
/// condition.
bool GoesByWindows(const loop::Kernel& kernel, const loop::Contraction& contraction);

/// Which steps of the depths lie where in a panel of a contraction by windows: a row of the panel for each.
struct WindowPanel {
  std::vector<size_t> run;  ///< depths that lie side by side in the right operand, innermost first
  std::vector<size_t> outer;  ///< the others
  guards::Dims steps;  ///< of each depth, rows from one step to the next
  guards::Dim run_steps;  ///< rows of one run
  guards::Dim rows;  ///< of one piece
  /// All pieces, `pieces` of them, are kept for the next tasks, which have other rows and the same columns.
  bool is_kept = false;
  int64_t pieces = 1;
};
WindowPanel WindowPanelOf(const loop::Kernel& kernel, const loop::Contraction& contraction,
                          const loop::ContractionSchedule& tile, const loop::Schedule& schedule,
                          const VectorUnit& unit);

/// How a contraction by windows is cut up, `rows` of them: all that tasks count as rows; 0 where nobody knows them.
loop::ContractionSchedule WindowTileOf(const loop::Kernel& kernel, const loop::Block& block,
                                       const loop::Contraction& form, int64_t rows, const VectorUnit& unit);

}  // namespace ingot::compiler::x86
