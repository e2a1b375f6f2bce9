// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "base/result.h"
#include "guards/guard.h"

namespace ingot::guards {

/// Largest magnitude of a coefficient: sums and products of two stay inside 64 and 128 bits.
inline constexpr int64_t kCoefMax = int64_t{1} << 53;
inline constexpr int64_t kModulusMax = int64_t{1} << 31;
/// Most terms of one polynomial; products of longer ones are refused.
inline constexpr size_t kTermsMax = 64;

/// a + b and a * b without wrapping; kInvalid beyond the limits above.
Result<Dim> Sum(const Dim& a, const Dim& b);
Result<Dim> Multiply(const Dim& a, const Dim& b);
/// Each symbol replaced by `by(symbol)`, within atoms too, without wrapping. `work` counts down by what is multiplied
/// and added; kInvalid below 0, and beyond the limits above.
Result<Dim> Replaced(const Dim& dim, const std::function<Dim(uint16_t)>& by, int64_t& work);
Result<Dim> Replaced(const Dim& dim, const std::function<Dim(uint16_t)>& by);

/// The one form of a numeric guard: no common factor, bounds rounded to whole numbers, equalities
/// with a positive first coefficient, remainders without a constant. None: it always holds. A guard
/// that never holds becomes `1 == 0`.
Result<std::optional<Guard>> Normalize(Guard guard);

/// `1 == 0`
Guard Never();
inline bool IsNever(const Guard& guard) { return guard.kind == Guard::Kind::kEqual && guard.value.is_one(); }

}  // namespace ingot::guards
