// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// No number that a range leaves to a program is larger, in either direction: a double holds it exactly, and its
/// distance from here is a number of guards.
inline constexpr int64_t kExactMax = int64_t{1} << 52;

/// Of the integers that a node takes: those, and what quotients, minima and maxima in them are made of, that leave
/// kExactMax at some sizes, as far as bounds tell. Python computes without an end, programs in 64 bits: who serves
/// other sizes than those seen asks that none of these does. A size or stride of an operand or a result is none: the
/// count of a result's elements is, where no input has as many. Eager raises where it cannot be counted, whether or not
/// anybody uses the result, or the executor has it at all.
Dims MayLeaveExact(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
