// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/import/recording.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// A recording's graph with where its parts come from; nodes say their step.
struct ImportedGraph {
  Graph graph;
  std::vector<ValueId> value_of;  ///< of each recorded value when it was made; kNoValue where the graph has none
};

/// As ImportRecording.
Result<ImportedGraph> Import(Recording& recording);

}  // namespace ingot::compiler
