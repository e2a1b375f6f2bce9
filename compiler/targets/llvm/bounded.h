// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/loop/kernel.h"

namespace ingot::compiler::x86 {

/// Whether `id` is a value less the greatest value of its row, as in a softmax: never above 0,
/// -inf or NaN included. Such arguments need less care in an exponential.
bool IsBelowRowMaximum(const loop::Kernel& kernel, loop::Id id);

}  // namespace ingot::compiler::x86
