// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "compiler/compile.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// How far a graph is taken before it is printed.
enum class Stage : uint8_t {
  kOptimized,  ///< graph text after the passes
  kLoop,       ///< loop IR of each kernel after fusion
  kSchedule,   ///< how the target walks the loops of each kernel
  kLlvm,       ///< LLVM IR of each kernel
  kAsm,        ///< assembly of each kernel
  kDot,        ///< a picture of the fused graph, for graphviz (compiler/fusion/dot.h)
};

/// What Compile makes of a graph on its way, for people. Thread-safe.
/// kInvalid: the graph does not verify.
Result<std::string> Explain(const Graph& graph, Stage stage, const CompileOptions& options);

}  // namespace ingot::compiler
