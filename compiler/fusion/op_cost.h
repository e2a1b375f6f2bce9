// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/fusion/expr.h"

namespace ingot::compiler::fusion {

/// What computing a node costs, as far as grouping compares it.
struct OpCost {
  size_t ops = 0;
  size_t leaves = 0;
  bool is_expensive = false;  ///< has a transcendental function
  bool has_reduce = false;
  bool has_root = false;
};

/// Adds what the expression is made of.
void AddCost(const ExprPool& pool, ExprId id, OpCost& cost);

/// For comparison only: symbols count as a typical size.
int64_t BytesOf(const Graph& graph, ValueId value);

}  // namespace ingot::compiler::fusion
