// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Whether a kernel is better off with neighbouring rows along the lanes of its vectors than with neighbouring j: it
/// folds a dimension along which elements lie apart, while rows lie side by side.
bool ReducesColumns(const loop::Kernel& kernel);

/// By instruction: whether it is a position read from memory, or what that is made of, that all rows side by side
/// share, so that what is gathered at it lies side by side.
std::vector<bool> SharedPositions(const loop::Kernel& kernel);

/// How many rows such a kernel takes at a time: a power of two.
unsigned RowLanes(const loop::Kernel& kernel, const VectorUnit& unit);

/// Lanes along j, and vectors side by side, of one loop.
loop::LoopSchedule WidthsOf(const loop::Kernel& kernel, const loop::Block& block, const VectorUnit& unit);

/// Whether an operation is an elementary function or as long as one.
bool IsHeavy(const loop::Inst& inst);

}  // namespace ingot::compiler::x86
