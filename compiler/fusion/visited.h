// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "compiler/fusion/expr.h"

namespace ingot::compiler::fusion {

/// Bit k: a group computes the elements of an expression all along dim k. A kernel that computes a
/// part only, as the slice of a gather, would not notice a bad index in the rest, where eager
/// raises.
using Visited = uint64_t;
/// Nothing of it is computed, not even of what has no dims.
inline constexpr Visited kNowhere = Visited{1} << 63;
inline constexpr Visited kWhole = kNowhere - 1;

/// What is visited of args[arg] of `e`, where `visited` of `e` is.
Visited VisitedOfArg(const ExprPool& pool, const Expr& e, size_t arg, Visited visited);
/// Whether every index of a gather is read; true for other expressions.
bool ReadsAllIndices(const ExprPool& pool, const Expr& e, Visited visited);

}  // namespace ingot::compiler::fusion
