// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Memory of its own that a thread gives the code of a kernel, piece by piece in the order in which they lie there,
/// each at a line of 64 bytes. Sizes are bytes over the kernel's symbols.
struct Scratch {
  guards::Dims row_buffers;  ///< one for each, for all rows that are taken at a time; 0: in_output.h; not rounded
  guards::Dims panels;  ///< one for each contraction; 0: it has none; not rounded
  std::vector<int64_t> squares;  ///< one for each of Schedule::transposed, in whole lines

  /// Enough for all of it.
  guards::Dim Bytes() const;
};

Scratch ScratchOf(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit);

}  // namespace ingot::compiler::x86
