// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::x86 {

/// Conditions of a loop that ask on which side of one place j is: the value of `index`, which grows with j, against
/// `bound`. Beside each, whether it holds before that place; behind it the reverse is true.
struct IndexSplit {
  loop::Id index, bound;
  std::vector<std::pair<loop::Id, bool>> conditions;
  bool is_index_free = false;  ///< Whether nothing but the conditions needs the index.

  /// Whether an instruction costs nothing, as each piece of the loop knows its value or has no use for it.
  bool Settles(loop::Id id) const;
};

/// What the first access of `block` that has such a condition asks, as concatenations do, what is padded or rotated;
/// and all that turns where that does. Loops that fold or scan have none: they join both sides.
std::optional<IndexSplit> IndexSplitOf(const loop::Kernel& kernel, const loop::Block& block);

}  // namespace ingot::compiler::x86
