// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::codegen {

/// How many elements lie along the lanes of a kernel's vectors: one number for each of its vector loops.
guards::Dims LaneExtents(const loop::Kernel& kernel);

/// The symbols of a kernel whose values change what machine code can be made: those in LaneExtents. Sorted; empty where
/// every such number is known.
std::vector<uint16_t> DecidingSymbols(const loop::Kernel& kernel);

}  // namespace ingot::compiler::codegen
