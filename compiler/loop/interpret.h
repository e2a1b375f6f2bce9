// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/result.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Runs rows [row_begin, row_end) of a kernel one scalar at a time: the oracle for every back end.
/// f32 arithmetic is done in f32 (transcendentals through double, rounded once); sums are
/// accumulated in double. Every access is checked against Param::elements and RowBuffer::extent.
/// kInvalid: gather index out of range, row buffers of more than 64 MiB. kInternal: an access out of
/// bounds, by kernel, instruction, buffer, element and size; what ProveBounds shows where its
/// conditions hold.
Status Interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
                 int64_t row_begin, int64_t row_end);

}  // namespace ingot::compiler::loop
