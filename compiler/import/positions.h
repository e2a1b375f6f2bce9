// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/import/recording.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Counts the positions that a recorded call carries from the front and writes them out: starts and
/// ends of slices lie in [0, size], indices in [0, size). -3 of 8 is 5 and -3 of 12 is 9, so that two
/// recordings agree on s0 - 3; and where a bound is cut off at the tensor's end at one size only,
/// their numbers part, as their meanings do. `args` still name values of the recording.
/// kCorrupt: a position outside of the tensor, which eager would have refused.
Status CountFromFront(std::string_view op, const Recording& recording, std::vector<Arg>& args);

}  // namespace ingot::compiler
