// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// How one contraction is computed: what a register holds, and how much of it at a time.
struct ContractionSchedule {
  /// Which variable runs along the lanes of a vector.
  enum class Lanes : uint8_t {
    kDepth,    ///< k: both operands are vectors, and each element of the result is folded at the end
    kColumns,  ///< j: one element of the left operand goes with a vector of the right one
  };
  Lanes lanes = Lanes::kDepth;
  unsigned rows = 1;      ///< of the result, kept in registers together
  unsigned columns = 1;   ///< the same, in elements (kDepth) or in vectors (kColumns)
  int64_t depth = 0;      ///< steps of k before the next columns have their turn; 0 = all
};

/// How the loops of a kernel are walked: the order of its scalar operations, never their meaning. A
/// kernel without contractions has rows as tasks and leaves the rest to the target.
struct Schedule {
  int64_t row_tile = 1;     ///< neighbouring points of the last row dim that one task computes
  int64_t column_tile = 0;  ///< values of j that one task computes; 0 = all
  std::vector<ContractionSchedule> contractions;  ///< one for each, in the order of the blocks
};

/// "tile i 64, j 48; contract 0: lanes k, registers 4x6, depth 1024". Empty where nothing is tiled.
std::string Print(const Schedule& schedule);

/// Whether the columns of a kernel may be computed by different tasks: nothing is folded over j.
bool MayTileColumns(const Kernel& kernel);

}  // namespace ingot::compiler::loop
