// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/facts.h"

#include <algorithm>
#include <iterator>

#include "guards/normalize.h"

namespace ingot::compiler::loop {
namespace {

// Facts taken together for one conclusion.
constexpr int kStepsMax = 3;

/// A term that may be below 0.
bool MayBeNegative(const Dim::Term& term) { return !Dim::FromTerms({term}).IsPlainlyNotNegative(); }

/// What is 0 or more because of what an atom is.
Dims FactsOf(const guards::Factor& factor, Arithmetic& arithmetic) {
  const guards::Atom& atom = factor.atom();
  const Dim self = Dim::Of(factor);
  switch (atom.kind) {
    case guards::Atom::Kind::kMin: return {arithmetic.Subtract(atom.a, self), arithmetic.Subtract(atom.b, self)};
    case guards::Atom::Kind::kMax: return {arithmetic.Subtract(self, atom.a), arithmetic.Subtract(self, atom.b)};
    case guards::Atom::Kind::kFloorDiv: break;
  }
  if (!atom.b.is_const() || atom.b.const_value() < 1) return {};
  const Dim left = arithmetic.Subtract(atom.a, arithmetic.Multiply(self, atom.b));
  return {left, arithmetic.Subtract(atom.b - Dim(1), left)};
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
  if (fact.IsPlainlyNotNegative()) return;
  if (fact.is_const()) is_never_ = true;
  facts_.push_back(fact);
  // a*s*t - c >= 0 with c > 0: both are 1 or more, and one alone is c/a or more.
  const std::vector<Dim::Term>& terms = fact.terms();
  if (terms.size() != 2 || terms[0].coef <= 0 || !terms[1].factors.empty() || terms[1].coef >= 0) return;
  const std::vector<guards::Factor>& factors = terms[0].factors;
  if (!factors.back().is_symbol()) return;
  const int64_t least = factors.size() > 1 ? 1 : (-terms[1].coef + terms[0].coef - 1) / terms[0].coef;
  lowest_.resize(std::max<size_t>(lowest_.size(), factors.back().symbol() + 1));
  for (const guards::Factor& factor : factors) lowest_[factor.symbol()] = std::max(lowest_[factor.symbol()], least);
}

Dim Facts::Shifted(const Dim& dim, Arithmetic& arithmetic) const {
  if (dim.is_const()) return dim;
  Dim sum;
  for (const Dim::Term& term : dim.terms()) {
    Dim product(term.coef);
    for (const guards::Factor& factor : term.factors) {
      // Atoms stay what they are in all that is shifted.
      const bool is_known = factor.is_symbol() && factor.symbol() < lowest_.size();
      product = arithmetic.Multiply(product, Dim::Of(factor) + Dim(is_known ? lowest_[factor.symbol()] : 0));
    }
    sum = arithmetic.Add(sum, product);
  }
  return sum;
}

bool Facts::Imply(const Dim& dim) const {
  if (is_never_) return true;
  if (dim.is_const()) return dim.const_value() >= 0;
  if (dim.IsPlainlyNotNegative()) return true;
  Arithmetic arithmetic;
  Dims facts;
  const auto add_atoms = [&](const Dim& of) {
    of.ForEachAtom([&](const guards::Factor& factor) {
      for (const Dim& fact : FactsOf(factor, arithmetic)) {
        const Dim shifted = Shifted(fact, arithmetic);
        if (std::ranges::find(facts, shifted) == facts.end()) facts.push_back(shifted);
      }
    });
  };
  for (const Dim& fact : facts_) facts.push_back(Shifted(fact, arithmetic));
  add_atoms(dim);
  for (const Dim& fact : facts_) add_atoms(fact);
  return Follows(Shifted(dim, arithmetic), facts, kStepsMax, arithmetic) && !arithmetic.overflowed();
}

/// Cancels a negative term by a multiple of a fact that has one of its kind, which can only lower
/// the whole.
bool Facts::Follows(const Dim& shifted, const Dims& facts, int steps_left, Arithmetic& arithmetic) const {
  const auto negative = std::ranges::find_if(shifted.terms(), MayBeNegative);
  if (negative == shifted.terms().end()) return true;
  if (steps_left == 0 || arithmetic.overflowed() || negative->coef >= 0) return false;
  for (const Dim& known : facts) {
    for (const Dim::Term& term : known.terms()) {
      const bool divides = term.coef < 0 && std::ranges::includes(negative->factors, term.factors);
      if (!divides) continue;
      Dim::Term factor{(negative->coef + term.coef + 1) / term.coef, {}};
      std::ranges::set_difference(negative->factors, term.factors, std::back_inserter(factor.factors));
      const Dim by = Dim::FromTerms({std::move(factor)});
      if (!by.IsPlainlyNotNegative()) continue;
      const Dim less = arithmetic.Subtract(shifted, arithmetic.Multiply(known, by));
      if (Follows(less, facts, steps_left - 1, arithmetic)) return true;
    }
  }
  return false;
}

}  // namespace ingot::compiler::loop
