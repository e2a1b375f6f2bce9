// SPDX-License-Identifier: Apache-2.0
// Text of one guard set, or of ranges.
#include "guards/guard_set.h"
#include "guards/ranges.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using guards::GuardSet;

/// Simplifying long texts takes long and shows nothing more.
constexpr size_t kGuardsMax = 24;

void CheckOne(const GuardSet& set) {
  const std::string text = set.ToText();
  const auto again = GuardSet::Parse(text);
  Ensure(again.has_value(), "what is printed parses: " + text);
  Ensure(again->ToText() == text, "text stays: " + text);
  const int64_t kSome[] = {21, 600};
  Ensure(set.Explain(kSome).empty() == set.Holds(kSome), "what fails is explained: " + text);
  if (set.guards().size() > kGuardsMax) return;
  const auto simple = set.Simplify();
  const int64_t kValues[] = {-3, 0, 1, 2, 8, 513, int64_t{1} << 40};
  for (const int64_t a : kValues) {
    for (const int64_t b : kValues) {
      const int64_t symbols[] = {a, b, a + b, 7};
      const bool holds = set.Holds(symbols);
      Ensure(again->Holds(symbols) == holds, "text keeps the meaning: " + text);
      // Numbers that leave 64 bits are refused, and may leave them in one form only.
      const bool small = a <= 513 && b <= 513 && text.size() < 200;
      if (small && set.IsOverSymbols() && set.SymbolCount() <= 4 && holds) {
        Ensure(simple && simple->Holds(symbols), "simplifying keeps what holds: " + text);
      }
    }
  }
}

void CheckRanges(const guards::Ranges& ranges) {
  const std::string text = ranges.ToText();
  const auto again = guards::Ranges::Parse(text);
  Ensure(again && again->ToText() == text, "ranges parse as they print: " + text);
}

}  // namespace

std::vector<Buffer> Seeds() { return {}; }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const auto ranges = guards::Ranges::Parse(AsText({data, size}));
  if (ranges) fuzz::CheckRanges(*ranges);
  const auto set = guards::GuardSet::Parse(AsText({data, size}));
  if (set) fuzz::CheckOne(*set);
  fuzz::accepted |= ranges || set;
  return 0;
}
