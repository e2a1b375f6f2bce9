// SPDX-License-Identifier: Apache-2.0
// Graphs that verify, through all passes: the worker gets graphs that clients recorded.
#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/golden_inputs.h"

namespace ingot::fuzz {
namespace {

using namespace compiler;  // NOLINT: one target, one part

/// False where the graph cannot go on: types that contradict arguments show only when a pass
/// makes the arguments plain, and the pipeline then refuses the graph.
bool RunPass(const std::string& name, Graph& graph) {
  const std::string before = CanonicalBytes(graph);
  const std::string text = Print(graph);
  const Result<bool> changed = FindPass(name).value()(graph);
  if (!changed) return false;
  Ensure(*changed == (CanonicalBytes(graph) != before), name + " says whether it changed:\n" + text);
  return Verify(graph).has_value();
}

}  // namespace

std::vector<Buffer> Seeds() { return GoldenInputs(); }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  Result<compiler::Graph> graph = compiler::Parse(AsText({data, size}));
  if (!graph) return 0;
  fuzz::accepted = true;
  const std::vector<std::string> names = compiler::DefaultPipeline().Names();
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      if (!fuzz::RunPass(name, *graph)) return 0;
    }
  }
  return 0;
}
