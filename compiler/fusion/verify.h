// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "compiler/fusion/expr.h"

namespace ingot::compiler::fusion {

/// What is wrong with an expression or those that it is made of; empty: nothing. Each is a total function of the places
/// that its sizes have: types, sizes and operands are those of its kind, what it asks of operands lies within them
/// wherever sizes let that be computed, and there is something everywhere (a region that is followed by nothing is the
/// last of several that fill their dim). README.md lists the rules.
std::string_view WrongWith(const ExprPool& pool, ExprId root);

}  // namespace ingot::compiler::fusion
