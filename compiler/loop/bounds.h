// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Polynomials over a kernel's symbols. Where all of them are 0 or more (and the symbols, which are
/// sizes, are too), no access of the kernel leaves its buffer: Param::elements, RowBuffer::extent.
/// None of them: that holds for all sizes.
using Conditions = std::vector<Dim>;

/// Shows each access of a verified kernel to be in bounds, from the extents of the loops around it,
/// the predicates it stands under and the checks of the indices it was given. What the sizes decide
/// is left as a condition.
/// kUnsupported names the access that no condition on sizes brings into its buffer.
Result<Conditions> ProveBounds(const Kernel& kernel);

}  // namespace ingot::compiler::loop
