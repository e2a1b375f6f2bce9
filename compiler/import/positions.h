// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/import/recording.h"
#include "compiler/import/sizes.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Where an operator takes positions along a dim of its first operand; argument numbers, 0 = none.
struct Positions {
  size_t dim_arg;
  size_t index_arg = 0;  ///< one element, as select takes it
  size_t start_arg = 0;  ///< the start of a part, as narrow takes it; its length follows
  size_t slice_arg = 0;  ///< start, end and step, as slice takes them
};
/// Null for an operator that takes no positions.
const Positions* PositionsOf(std::string_view op);

/// Counts the positions that a recorded call carries from the front and writes them out: starts and
/// ends of slices lie in [0, size], indices in [0, size). -3 of 8 is 5 and -3 of 12 is 9, so that two
/// recordings agree on s0 - 3; and where a bound is cut off at the tensor's end at one size only,
/// their numbers part, as their meanings do. `args` still name values of the recording.
/// kCorrupt: a position outside of the tensor, which eager would have refused.
Status CountFromFront(std::string_view op, const Recording& recording, std::vector<Arg>& args);

/// An argument as it was recorded, over symbols; none where it is no integer.
using RecordedInt = std::function<Result<std::optional<Dim>>(size_t arg)>;
/// The same over symbols, along a dim of `size`: on which side of the dim's ends each position lay, it stays.
Status CountFromFront(const Positions& places, const Dim& size, const RecordedInt& recorded, std::vector<Arg>& args,
                      Sizes& sizes);

}  // namespace ingot::compiler
