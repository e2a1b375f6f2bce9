// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// By instruction: whether it is one of the loop's that can differ between two values of j, or must run for each.
std::vector<bool> VaryingOverJ(const Kernel& kernel, const Block& block);

}  // namespace ingot::compiler::loop
