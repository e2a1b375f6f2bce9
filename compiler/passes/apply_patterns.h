// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/passes/pipeline.h"

namespace ingot::compiler {

/// What became of one of a graph's patterns.
struct PatternUse {
  std::string name;
  uint32_t replaced = 0;  ///< Places.
  std::string why;        ///< What kept the nearest other place from being one; empty where there is none.
};

/// Puts in the place of what the graph's patterns search what they replace it with (compiler/ir/user_pattern.h): in the
/// order of the patterns, each from the front. Where a pattern was found but one of these does not hold, the place is
/// left alone: nobody else uses what lies between; results have the types they had; results that callers get are memory
/// of their own before and after; nothing of it was put there by the same pattern.
///
/// The pass remembers what it has made, so one is good for one graph, run over it any number of times. `uses` gets what
/// became of the patterns.
Pass ApplyPatterns(std::shared_ptr<std::vector<PatternUse>> uses = nullptr);

}  // namespace ingot::compiler
