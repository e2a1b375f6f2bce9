// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/llvm/transpose.h"
#include "compiler/targets/llvm/widths.h"

namespace ingot::compiler::x86 {

/// The schedule of a kernel. Depends on the kernel and the unit alone.
loop::Schedule ScheduleOf(const loop::Kernel& kernel, const VectorUnit& unit);

/// How many elements lie along the lanes of a kernel's vectors, one number for each of its vector loops; of products of
/// matrices, how many rows there are, which decides what registers hold.
guards::Dims LaneExtents(const loop::Kernel& kernel);

}  // namespace ingot::compiler::x86
