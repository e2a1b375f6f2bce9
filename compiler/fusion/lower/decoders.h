// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"

namespace ingot::compiler::fusion {

/// By node: whether it makes few bytes many by little arithmetic, as dequantising does, from where a chain of such
/// nodes begins. Products compute these as they read.
std::vector<bool> FindDecoders(const Lowered& lowered);

/// Gives contractions as many variables to sum over as it takes to follow their operands to where those are decoded:
/// weights in groups are reshaped behind their scales, and what lies in one byte behind its shifts.
void CutDepths(Lowered& lowered);

}  // namespace ingot::compiler::fusion
