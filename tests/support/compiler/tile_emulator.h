// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/targets/x86/tile_functions.h"

namespace ingot::compiler::x86 {

/// The tile registers of the calling thread as Intel's manual describes AMX (palette 1), for tests on machines that
/// have none. What a processor would answer with a fault is noted and changes nothing.
class TileEmulator {
 public:
  static const TileFunctions& Functions();
  /// What was noted on this thread since the last call.
  static std::vector<std::string> TakeMisuse();
  /// Whether registers are configured, and not released since.
  static bool IsConfigured();
  /// Products since the last call.
  static int64_t TakeProducts();
};

}  // namespace ingot::compiler::x86
