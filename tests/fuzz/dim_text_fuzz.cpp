// SPDX-License-Identifier: Apache-2.0
// Text of one polynomial, or of two on two lines.
#include "guards/bounds.h"
#include "guards/dim.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using guards::Dim;

/// Products of long sums take long and show nothing more.
constexpr size_t kTermsMax = 32;

void CheckOne(const Dim& dim) {
  const Result<Dim> again = Dim::Parse(dim.ToText());
  Ensure(again.has_value(), "what is printed parses: " + dim.ToText());
  Ensure(*again == dim && again->ToText() == dim.ToText(), "text keeps the polynomial: " + dim.ToText());
  const std::vector<int64_t> numbers = {3, -1, 1 << 20};
  const std::vector<Dim> dims(numbers.begin(), numbers.end());
  if (dim.SymbolCount() > numbers.size()) return;
  const Dim value = dim.Substitute(dims);
  const auto exact = dim.EvalExactly([&](uint16_t symbol) { return std::optional<int64_t>(numbers[symbol]); });
  // What wraps is rounded otherwise, so that it depends on the way there.
  if (dim.HasAtoms() && !exact) return;
  Ensure(value.is_const() && value.const_value() == dim.Eval(numbers),
         "substituting numbers evaluates: " + dim.ToText());
  Ensure(!exact || *exact == dim.Eval(numbers), "what is exact is what wraps: " + dim.ToText());
  guards::SymbolBounds bounds;
  for (uint16_t i = 0; i < numbers.size(); ++i) bounds[i] = {numbers[i] - 1, numbers[i] + i};
  const guards::Bounds all = guards::BoundsOf(dim, bounds);
  Ensure(!exact || (all.low <= *exact && *exact <= all.high), "bounds hold: " + dim.ToText());
}

void CheckTwo(const Dim& a, const Dim& b) {
  if (a.terms().size() > kTermsMax || b.terms().size() > kTermsMax) return;
  Ensure(a * b == b * a && a + b == b + a && a - b + b == a, "sums and products commute");
  const auto quotient = (a * b).DivideExactly(b);
  Ensure(!quotient || *quotient * b == a * b, "a quotient is exact: (" + a.ToText() + ") * (" + b.ToText() + ")");
}

}  // namespace

std::vector<Buffer> Seeds() { return {}; }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const std::string_view text = AsText({data, size});
  const size_t end = text.find('\n');
  const auto first = guards::Dim::Parse(text.substr(0, end));
  if (!first) return 0;
  fuzz::accepted = true;
  fuzz::CheckOne(*first);
  if (end == std::string_view::npos) return 0;
  if (const auto second = guards::Dim::Parse(text.substr(end + 1))) fuzz::CheckTwo(*first, *second);
  return 0;
}
