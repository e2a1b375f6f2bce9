// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "compiler/loop/contraction.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// Columns that are multiplied as they are take more rows to repay packing them.
constexpr int64_t kPlainPackedRowsMin = 64;

/// The way of many rows, which turns columns over first. Sums over few steps cost more to fold over the lanes than to
/// make, as sums of pairs do, and what is decoded for each few rows is decoded again and again. Packing costs as
/// much as a few rows.
///
/// `rows`: of all dims that tasks count as rows; 0 where nobody knows them. From 0 rows on: no way of many rows.
loop::ContractionSchedule::Packing PackingOf(const loop::Kernel& kernel, const loop::Block& block, int64_t rows,
                                             const loop::Contraction& form, const VectorUnit& unit);

/// Whether many rows pack columns that they multiply as they are, widened to f32 at most: vectors along j need not
/// be folded, and what a register tile reads stays in the first cache. Narrower vectors gain less than that costs.
bool PacksPlain(const loop::Kernel& kernel, const loop::Contraction& form, const VectorUnit& unit);

/// Steps of all k together that are packed at a time.
guards::Dim PackedSteps(const loop::Block& block, const loop::ContractionSchedule& tile);

}  // namespace ingot::compiler::x86
