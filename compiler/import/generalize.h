// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/ir/graph.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// A template made of one recording.
struct Generalized {
  Graph graph;                    ///< has symbols; its instance at `seen` is the recording's graph
  guards::GuardSet range;         ///< under which every call takes the way of the recording; never empty
  std::vector<int64_t> seen;      ///< the recording's sizes
  std::vector<std::string> fixed; ///< why sizes that could have been symbols are numbers
};

/// The template of a recording that followed its sizes (proto/graph.fbs follows_sizes; untrusted).
///
/// Every integer is a polynomial over the sizes of the inputs: integers that Python computed by
/// what it computed, results by inference. What Python compared, and what operators rely on, are
/// conditions of the range. What nobody can follow fixes the sizes it was made of. Sizes of 0 and 1
/// are numbers.
/// kUnsupported: no size may differ, or the recording does not follow its sizes. kCorrupt.
///
/// `takes_unknown`: results of operators that nobody infers have the sizes that inputs of equal size have, as far as
/// symbols were seen equal, and fix nothing. Whoever asks for this checks what comes of it.
Result<Generalized> Generalize(Bytes recording, bool takes_unknown = false);

}  // namespace ingot::compiler
