// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Adds tasks of rows and columns to the schedule of a kernel that transposes: what lies side by side along rows is
/// moved by squares into memory of the task, where it lies along j. Nothing is added where no access would gain.
void AddTransposes(const loop::Kernel& kernel, const VectorUnit& unit, loop::Schedule& schedule);

/// The accesses of loops that are no contractions whose neighbours in memory are rows, and that squares make faster.
std::vector<loop::Id> TransposedIn(const loop::Kernel& kernel);

/// Elements on a side of the squares that an access is moved by: as many as a vector has, and a power of two.
unsigned TransposeBlockSide(const loop::Kernel& kernel, const loop::Schedule& schedule, loop::Id access,
                            const VectorUnit& unit);

/// Bytes of a task's elements of one such access: its rows by its columns, in whole lines.
int64_t TransposeBytes(const loop::Kernel& kernel, const loop::Schedule& schedule, loop::Id access);

}  // namespace ingot::compiler::x86
