// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "compiler/compile.h"
#include "proto/worker_generated.h"

namespace ingot::compiler {

/// How much work improving a graph may be.
struct ImproveOptions {
  /// Values of the graph's symbols that are used; one list without values for a graph that has none.
  std::vector<std::vector<int64_t>> sizes;
  uint64_t arena_steps = 0;            ///< of the search for a smaller arena, at each of the sizes
  uint64_t measure_ms = 0;             ///< milliseconds that measuring kernels may take, in all; 0: none is measured
  std::unordered_set<Digest> known;    ///< kernels that were measured
  unsigned processors = 1;             ///< that share the tasks of a kernel
};

/// Looks for what is too slow to look for while somebody waits for the graph's artifact: a smaller arena, and faster
/// schedules. The recipe is that of the options, as far as it holds for the graph, and what was found; Compile makes
/// the better artifact by it. Takes seconds; what is measured differs from run to run. kInvalid: the graph does not
/// verify, or sizes or recipe are of another one.
Result<proto::FindingsT> Improve(const Graph& graph, const CompileOptions& options, const ImproveOptions& improve);

}  // namespace ingot::compiler
