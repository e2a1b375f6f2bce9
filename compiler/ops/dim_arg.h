// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace ingot::compiler {

/// Where an operator takes a dim of operand 0, or a list of them: the facet DIM of ops.def.
struct DimArg {
  size_t arg = 0;
  size_t added = 0;  ///< 1 where the dim is one of the result, which has one more
};

/// nullptr: it takes none.
const DimArg* DimArgOf(std::string_view op);

}  // namespace ingot::compiler
