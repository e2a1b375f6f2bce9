// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Whether what the importer writes of this operator holds no sizes, or those of its own result.
bool HasOwnSizes(std::string_view op);

/// Whether integers are among the arguments: they may be sizes.
bool HasInts(const Node& node);

/// Whether an operand or an argument depends on the sizes of inputs.
bool TakesSizes(const Graph& graph, const Node& node);

}  // namespace ingot::compiler
