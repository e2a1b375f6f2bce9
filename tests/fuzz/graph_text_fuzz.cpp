// SPDX-License-Identifier: Apache-2.0
// Graph IR text. The seeds are the inputs of the golden tests.
#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/golden_inputs.h"

namespace ingot::fuzz {

std::vector<Buffer> Seeds() { return GoldenInputs(); }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  using namespace ingot::compiler;
  const Result<Graph> graph = Parse(AsText({data, size}));
  if (!graph) {
    fuzz::Ensure(graph.error().code() == Code::kInvalid, graph.error().ToText());
    return 0;
  }
  fuzz::accepted = true;
  fuzz::Ensure(Verify(*graph).has_value(), "what parses verifies");
  const std::string text = Print(*graph);
  const Result<Graph> again = Parse(text);
  fuzz::Ensure(again.has_value(), "what is printed parses:\n" + text);
  fuzz::Ensure(Print(*again) == text, "text is stable:\n" + text);
  fuzz::Ensure(CanonicalBytes(*again) == CanonicalBytes(*graph), "text keeps the program:\n" + text);
  const std::vector<int64_t> sizes(graph->symbols.size(), 3);
  Graph instance = Instantiate(*graph, sizes);
  if (!Verify(instance)) return 0;
  const auto symbols = SymbolsOf(*graph, instance);
  fuzz::Ensure(symbols.has_value() && *symbols == sizes, "an instance has its symbols:\n" + text);
  return 0;
}
