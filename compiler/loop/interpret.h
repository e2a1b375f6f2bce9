// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>

#include "base/result.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Values of j, half-open.
using Columns = std::pair<int64_t, int64_t>;
inline constexpr Columns kAllColumns = {0, INT64_MAX};

/// Runs rows [row_begin, row_end) of a kernel one scalar at a time: the oracle for every back end.
/// f32 arithmetic is done in f32 (transcendentals through double, rounded once); sums are
/// accumulated in double. Every access is checked against Param::elements and RowBuffer::extent.
/// kInvalid: gather index out of range, row buffers of more than 64 MiB. kInternal: an access out of
/// bounds, by kernel, instruction, buffer, element and size; what ProveBounds shows where its
/// conditions hold. `columns`: of each loop only these j, where no loop folds them.
Status Interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
                 int64_t row_begin, int64_t row_end, Columns columns = kAllColumns);

}  // namespace ingot::compiler::loop
