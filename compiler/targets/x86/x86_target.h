// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "compiler/targets/target.h"
#include "compiler/targets/x86/tile_functions.h"

namespace ingot::compiler::x86 {

/// LLVM lowering with explicit vectors, lld in process, ORC to run. kUnsupported for a level there is no code for.
Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec);

/// The same, whose code calls `functions` for each instruction of tile registers, needs no feature for them, and runs
/// in this process alone. For tests.
Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec, const TileFunctions& functions);

/// LLVM's version and that of the lowering.
std::string Identity();

/// One ELF shared object without undefined symbols, needed libraries or initialisers.
Result<Buffer> LinkShared(std::span<const Object> objects);

}  // namespace ingot::compiler::x86
