// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/targets/llvm/contract/windows.h"

namespace ingot::compiler::x86 {

/// How what rows read of their windows is laid side by side before it is multiplied, in the order of the columns'
/// panel: where the k of neighbours is short, addresses and conditions for each few steps would take longer than the
/// products.
struct GatheredRows {
  std::vector<size_t> run;    ///< depths that lie side by side in what rows read, as in the panel; innermost first
  std::vector<size_t> outer;  ///< the others, those that conditions ask about first
  int64_t run_steps = 1;      ///< of the run
  int64_t stride = 1;         ///< elements from step to step of the run
  int64_t steps = 1;          ///< of all depths
  /// Whether a condition that holds at the first step of all depths and at the last holds at all in between.
  bool holds_in_between = false;
};
/// nullopt: rows are read where they lie. `panel`: of columns that are packed in one piece.
std::optional<GatheredRows> GatheredRowsOf(const loop::Kernel& kernel, const loop::Contraction& contraction,
                                           const WindowPanel& panel);

/// Bytes that `rows` of them take, each in whole vectors.
int64_t BytesOf(const GatheredRows& gathered, int64_t rows, const VectorUnit& unit);

}  // namespace ingot::compiler::x86
