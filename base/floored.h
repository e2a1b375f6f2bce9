// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot {

/// Python's `x // y`: rounded down. `y` is not 0; a quotient that leaves 64 bits wraps.
inline int64_t FloorDiv(int64_t x, int64_t y) {
  if (y == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  const int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

/// Python's `x % y`: of the sign of `y`, which is not 0.
inline int64_t FloorMod(int64_t x, int64_t y) {
  if (y == -1) return 0;
  const int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

}  // namespace ingot
