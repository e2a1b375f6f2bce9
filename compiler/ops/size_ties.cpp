// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/size_ties.h"

#include <algorithm>

#include "base/floored.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

thread_local SizeTies* t_ties = nullptr;

bool IsNegativeOrNumber(const Dim::Term& term) { return term.coef < 0 || term.symbols.empty(); }

/// What of a divides by b term by term. What is left of symbols has one sign: theirs where that is one, or above 0.
/// The number left is none below 0.
Dim WholePart(const Dim& a, int64_t b) {
  bool has_above = false, has_below = false;
  std::vector<Dim::Term> nearest, below;
  for (const Dim::Term& term : a.terms()) {
    const bool rounds_up = term.coef < 0 && !term.symbols.empty();
    nearest.push_back({rounds_up ? term.coef / b : FloorDiv(term.coef, b), term.symbols});
    below.push_back({FloorDiv(term.coef, b), term.symbols});
    const int64_t left = term.coef - nearest.back().coef * b;
    has_above |= left > 0 && !term.symbols.empty();
    has_below |= left < 0;
  }
  return Dim::FromTerms(has_above && has_below ? std::move(below) : std::move(nearest));
}

}  // namespace

SizeTies::SizeTies() : outer_(t_ties) { t_ties = this; }
SizeTies::~SizeTies() { t_ties = outer_; }

bool SameSize(const Dim& a, const Dim& b) { return a == b || (t_ties != nullptr && t_ties->Tie(a, b)); }

std::optional<Dim> FloorQuotient(const Dim& a, const Dim& b) {
  if (b.is_const() && b.const_value() < 1) return std::nullopt;
  if (b.is_one()) return a;
  if (a.is_const() && b.is_const()) {
    return Dim(FloorDiv(a.const_value(), b.const_value()));
  }
  if (auto exact = a.DivideExactly(b)) return exact;
  // What a number goes into is no part of the quotient: (s - 8) // 8 is s // 8 - 1.
  const Dim whole = b.is_const() ? WholePart(a, b.const_value()) : Dim();
  const Dim rest = a - whole * b;
  if (b.is_const() && rest.is_const()) return whole;
  // -n // 4 is -((n + 3) // 4): as many parts of 4 as take all of n.
  if (b.is_const() && std::ranges::all_of(rest.terms(), IsNegativeOrNumber)) {
    const auto parts = FloorQuotient(b - Dim(1) - rest, b);
    return parts ? std::optional(whole - *parts) : std::nullopt;
  }
  const auto quotient = t_ties == nullptr ? std::nullopt : t_ties->Quotient(rest, b);
  return quotient ? std::optional(whole + *quotient) : std::nullopt;
}

std::optional<int64_t> SeenSize(const Dim& dim) {
  if (dim.is_const()) return dim.const_value();
  return t_ties == nullptr ? std::nullopt : std::optional(t_ties->SeenAs(dim));
}

std::optional<bool> IsAtLeastZero(const Dim& dim) {
  if (dim.is_const()) return dim.const_value() >= 0;
  return t_ties == nullptr ? std::nullopt : std::optional(t_ties->Decide(dim));
}

guards::Dims InQuotients(const guards::Dims& dims) {
  guards::Dims all = dims;
  for (Dim& dim : all) {
    if (t_ties != nullptr && !dim.is_const()) dim = t_ties->InQuotients(dim);
  }
  return all;
}

}  // namespace ingot::compiler
