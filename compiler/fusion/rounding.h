// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/fusion/group.h"

namespace ingot::compiler::fusion {

/// Arithmetic on f16 and bf16 goes on in f32 from node to node. Where the outcome is discrete (loop::IsDiscrete: a
/// comparison, a cast to integer, bool or float8, floor, argmax, ...), an f32 that eager would have rounded may decide
/// otherwise: every value such an operation depends on is rounded to its own type where it is made, back to where the
/// graph reads memory. What stays with ATen counts as discrete where it gives anything but floats (topk, nonzero), a
/// number to Python, or nobody knows what it does. With `everywhere` all values are rounded.
void RoundAsEager(Lowered& lowered, bool everywhere);

}  // namespace ingot::compiler::fusion
