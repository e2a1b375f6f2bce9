// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/facts.h"

#include <algorithm>
#include <iterator>

#include "guards/normalize.h"

namespace ingot::compiler::loop {
namespace {

// Facts taken together for one conclusion.
constexpr int kStepsMax = 3;

/// All coefficients are 0 or more, so the value is.
bool IsPlainlyNotNegative(const Dim& dim) {
  return std::all_of(dim.terms().begin(), dim.terms().end(), [](const Dim::Term& term) { return term.coef >= 0; });
}

}  // namespace

Dim Arithmetic::Add(const Dim& a, const Dim& b) {
  Result<Dim> sum = guards::Sum(a, b);
  overflowed_ |= !sum;
  return sum ? *std::move(sum) : Dim();
}

Dim Arithmetic::Multiply(const Dim& a, const Dim& b) {
  Result<Dim> product = guards::Multiply(a, b);
  overflowed_ |= !product;
  return product ? *std::move(product) : Dim();
}

Dim Arithmetic::Subtract(const Dim& a, const Dim& b) { return Add(a, Multiply(b, Dim(-1))); }

void Facts::Add(const Dim& fact) {
  if (IsPlainlyNotNegative(fact)) return;
  if (fact.is_const()) is_never_ = true;
  facts_.push_back(fact);
  // a*s*t - c >= 0 with c > 0: both are 1 or more, and one alone is c/a or more.
  const std::vector<Dim::Term>& terms = fact.terms();
  if (terms.size() != 2 || terms[0].coef <= 0 || !terms[1].symbols.empty() || terms[1].coef >= 0) return;
  const std::vector<uint16_t>& symbols = terms[0].symbols;
  const int64_t least = symbols.size() > 1 ? 1 : (-terms[1].coef + terms[0].coef - 1) / terms[0].coef;
  lowest_.resize(std::max<size_t>(lowest_.size(), symbols.back() + 1));
  for (const uint16_t symbol : symbols) lowest_[symbol] = std::max(lowest_[symbol], least);
}

Dim Facts::Shifted(const Dim& dim, Arithmetic& arithmetic) const {
  if (dim.is_const()) return dim;
  Dim sum;
  for (const Dim::Term& term : dim.terms()) {
    Dim product(term.coef);
    for (const uint16_t symbol : term.symbols) {
      const int64_t lowest = symbol < lowest_.size() ? lowest_[symbol] : 0;
      product = arithmetic.Multiply(product, Dim::Symbol(symbol) + Dim(lowest));
    }
    sum = arithmetic.Add(sum, product);
  }
  return sum;
}

bool Facts::Imply(const Dim& dim) const {
  if (is_never_) return true;
  if (dim.is_const()) return dim.const_value() >= 0;
  if (IsPlainlyNotNegative(dim)) return true;
  Arithmetic arithmetic;
  return Follows(Shifted(dim, arithmetic), kStepsMax, arithmetic) && !arithmetic.overflowed();
}

/// Cancels a negative term by a multiple of a fact that has one of its kind, which can only lower
/// the whole.
bool Facts::Follows(const Dim& shifted, int steps_left, Arithmetic& arithmetic) const {
  const auto negative =
      std::find_if(shifted.terms().begin(), shifted.terms().end(), [](const Dim::Term& term) { return term.coef < 0; });
  if (negative == shifted.terms().end()) return true;
  if (steps_left == 0 || arithmetic.overflowed()) return false;
  for (const Dim& fact : facts_) {
    const Dim known = Shifted(fact, arithmetic);
    for (const Dim::Term& term : known.terms()) {
      const bool divides = term.coef < 0 && std::includes(negative->symbols.begin(), negative->symbols.end(),
                                                          term.symbols.begin(), term.symbols.end());
      if (!divides) continue;
      Dim::Term factor{(negative->coef + term.coef + 1) / term.coef, {}};
      std::set_difference(negative->symbols.begin(), negative->symbols.end(), term.symbols.begin(), term.symbols.end(),
                          std::back_inserter(factor.symbols));
      const Dim multiple = arithmetic.Multiply(known, Dim::FromTerms({std::move(factor)}));
      if (Follows(arithmetic.Subtract(shifted, multiple), steps_left - 1, arithmetic)) return true;
    }
  }
  return false;
}

}  // namespace ingot::compiler::loop
