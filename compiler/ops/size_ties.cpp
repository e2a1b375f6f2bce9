// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/size_ties.h"

#include "base/floored.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

thread_local SizeTies* t_ties = nullptr;

}  // namespace

SizeTies::SizeTies() : outer_(t_ties) { t_ties = this; }
SizeTies::~SizeTies() { t_ties = outer_; }

bool SameSize(const Dim& a, const Dim& b) {
  return a == b || (t_ties != nullptr && t_ties->Tie(a, b));
}

std::optional<Dim> FloorQuotient(const Dim& a, const Dim& b) {
  if (b.is_const() && b.const_value() < 1) return std::nullopt;
  if (b.is_one()) return a;
  if (a.is_const() && b.is_const()) {
    return Dim(FloorDiv(a.const_value(), b.const_value()));
  }
  if (auto exact = a.DivideExactly(b)) return exact;
  // What a number goes into is no part of the quotient: (s - 8) // 8 is s // 8 - 1.
  Dim whole;
  if (b.is_const()) {
    std::vector<Dim::Term> wholes;
    for (const Dim::Term& term : a.terms()) wholes.push_back({FloorDiv(term.coef, b.const_value()), term.symbols});
    whole = Dim::FromTerms(std::move(wholes));
  }
  const Dim rest = a - whole * b;
  if (b.is_const() && rest.is_const()) return whole;
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
