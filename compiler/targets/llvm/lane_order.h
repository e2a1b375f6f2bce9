// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/llvm/vector_unit.h"

namespace ingot::compiler::x86 {

/// A load or a store.
bool IsAccess(const loop::Inst& inst);

/// Whether an access of a row buffer is at j, so that all loops that have it see the same vectors.
bool IsAtJ(const loop::Kernel& kernel, const loop::Inst& inst);

/// By block: whether the lanes of its vectors hold even j first and odd j behind them. Two neighbours in bf16 are the
/// halves of 32 bits, so that each half is widened by one instruction where it stands, and rounded back likewise. Only
/// loops that treat all lanes alike may, but for scans, which go by that order (lower_scan.cpp), and what they hand on
/// in a row buffer stays in it.
std::vector<bool> EvenLanesFirst(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit);

/// Elements that a row buffer needs behind its extent: those of a vector that the row's end cuts off.
int64_t RowBufferPadding(const loop::Kernel& kernel, const loop::Schedule& schedule, uint32_t row_buffer,
                         const VectorUnit& unit);

}  // namespace ingot::compiler::x86
