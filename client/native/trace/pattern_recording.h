// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::client {

/// The recording of one function of a pattern (proto/graph.fbs) as it is sent and digested: without times and without
/// where in a file sizes were asked for, so that every process that records the function has the same bytes.
///
/// kUnsupported for what makes no part of a graph, with what was found: a tensor that is no argument, an argument that
/// nothing uses, a random operator, too many operators. kCorrupt.
Result<Buffer> PatternRecording(Bytes recording);

/// Of one function of a pattern.
inline constexpr size_t kPatternStepsMax = 128;

}  // namespace ingot::client
