// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "guards/dim.h"

namespace ingot::guards {

/// No symbol of a call that a template serves is larger: the executor refuses such sizes (client/lib/run/instance.h).
inline constexpr int64_t kSymbolMax = int64_t{1} << 40;

/// Bounds of a number, inclusive; kNoLow and kNoHigh: none is known.
struct Bounds {
  static constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();

  int64_t low = kNoLow;
  int64_t high = kNoHigh;
  bool operator==(const Bounds& other) const = default;
};

/// What is known of symbols; nothing of those that are not there.
using SymbolBounds = std::map<uint16_t, Bounds>;

/// Bounds of a polynomial's exact value: by intervals, and by what an atom is known to lie between (a quotient by 4 is
/// its dividend / 4 and up to 3 / 4 less; a minimum is one of the two), so that s0 - 4*floordiv(s0, 4) is 0 to 3.
/// Not the tightest ones.
Bounds BoundsOf(const Dim& dim, const SymbolBounds& symbols);

/// The same number wherever the symbols are within their bounds, without the atoms that these decide: floordiv(s0, 8)
/// is 1 where s0 is 8 to 15, max(s0, 4) is s0 where that is 4 or more.
Dim Decided(const Dim& dim, const SymbolBounds& symbols);

}  // namespace ingot::guards
