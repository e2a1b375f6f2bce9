// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/targets/target_spec.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

struct CompileOptions {
  TargetSpec target;
  std::vector<std::string> disabled_passes;
  std::string dump_dir;         ///< Empty = no dumps.
  unsigned threads = 0;         ///< Code generation threads; 0 = one for each core.
  /// Each distinct kernel is run against the interpreter, and the plan against the graph. A kernel whose code this
  /// machine cannot run says so in the artifact.
  bool prove = true;
  /// The plan is held against the captured graph whatever that takes; else at small sizes of graphs that are not large.
  bool prove_all = false;
  unsigned prove_ms_max = 50;  ///< Time box of the proof, more by what kernels of single gears take.
  /// Values of the graph's symbols for which kernels get code of their own where that pays (compiler/specialize.h).
  std::vector<std::vector<int64_t>> gears;
  /// What is known of the graph from before (compiler/improve.h); null: nothing.
  std::shared_ptr<const proto::RecipeT> recipe;
};

/// An immutable artifact (docs/format/artifact.md). Equal graphs, targets and options, a recipe among them, give equal
/// bytes on every run; timings are therefore reported here and not inside.
struct Artifact {
  Buffer bytes;
  Digest digest;
  double seconds_passes = 0, seconds_fusion = 0, seconds_codegen = 0, seconds_link = 0, seconds_proof = 0;
};

/// Turns an imported graph into an artifact: passes, fusion, plan, code, link, proof.
/// The only door to the compiler. Thread-safe.
/// Errors: kInvalid (graph does not verify, or the recipe is of another one), kInternal (a kernel failed its proof).
Result<Artifact> Compile(const Graph& graph, const CompileOptions& options);

/// Everything about the compiler that changes its output, as text: build digest, pass list.
std::string CompilerIdentity();

}  // namespace ingot::compiler
