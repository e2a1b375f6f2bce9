// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"

namespace ingot::compiler::x86 {

/// By row buffer: the store into whose row of an output its elements are put, until the store puts its own there in the
/// last loop that reads them; kNone: the row buffer has memory of its own. The row then takes the first cache half as
/// much, and the output's lines come in while the loop before computes.
std::vector<loop::Id> RowBuffersInOutputs(const loop::Kernel& kernel, const loop::Schedule& schedule);

}  // namespace ingot::compiler::x86
