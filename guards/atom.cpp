// SPDX-License-Identifier: Apache-2.0
#include "guards/atom.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "guards/normalize.h"

namespace ingot::guards {
namespace {

using Kind = Atom::Kind;
using Terms = std::vector<Dim::Term>;

constexpr std::pair<std::string_view, AtomFunction> kFunctions[] = {
    {"floordiv", Dim::FloorDiv}, {"ceildiv", Dim::CeilDiv}, {"mod", Dim::Mod}, {"min", Dim::Min}, {"max", Dim::Max}};

uint32_t Saturated(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)); }

uint32_t DepthOf(const Dim& dim) {
  uint32_t depth = 0;
  for (const Dim::Term& term : dim.terms()) {
    for (const Factor& factor : term.factors) depth = std::max(depth, factor.is_symbol() ? 0 : factor.atom().depth);
  }
  return depth;
}

uint32_t WeightOf(const Dim& dim) {
  uint64_t weight = 0;
  for (const Dim::Term& term : dim.terms()) {
    ++weight;
    for (const Factor& factor : term.factors) weight += factor.is_symbol() ? 1 : factor.atom().weight;
  }
  return Saturated(weight);
}

/// Rewriting multiplies no coefficients of these beyond 64 bits.
bool IsSmall(const Dim& dim) {
  return std::ranges::all_of(dim.terms(),
                             [](const Dim::Term& term) { return term.coef <= kCoefMax && term.coef >= -kCoefMax; });
}

Dim Raw(Kind kind, const Dim& a, const Dim& b) { return Dim::Of(Factor(Atom(kind, a, b))); }

Dim Negative(const Dim& dim) { return dim * Dim(-1); }

int64_t CommonCoef(const Dim& dim, int64_t common) {
  for (const Dim::Term& term : dim.terms()) common = std::gcd(common, term.coef);
  return common;
}

/// Each coefficient divided and rounded down.
Dim ScaledDown(const Dim& dim, int64_t by) {
  Terms terms = dim.terms();
  for (Dim::Term& term : terms) term.coef = FloorDiv(term.coef, by);
  return Dim::FromTerms(std::move(terms));
}

/// What of a divides by n term by term. What is left of factors has one sign: theirs where that is one, or above 0.
/// The number left is none below 0.
Dim WholePart(const Dim& a, int64_t n) {
  bool has_above = false, has_below = false;
  Terms nearest, below;
  for (const Dim::Term& term : a.terms()) {
    const bool rounds_up = term.coef < 0 && !term.factors.empty();
    nearest.push_back({rounds_up ? term.coef / n : FloorDiv(term.coef, n), term.factors});
    below.push_back({FloorDiv(term.coef, n), term.factors});
    const int64_t left = term.coef - nearest.back().coef * n;
    has_above |= left > 0 && !term.factors.empty();
    has_below |= left < 0;
  }
  return Dim::FromTerms(has_above && has_below ? std::move(below) : std::move(nearest));
}

/// a // n of a quotient by a number, and a number: both divisors at once.
std::optional<Dim> OfQuotient(const Dim& a, int64_t n) {
  const Dim::Term& first = a.terms().front();
  if (a.terms().size() > 2 || first.coef != 1 || first.factors.size() != 1 || first.factors[0].is_symbol() ||
      (a.terms().size() == 2 && !a.terms()[1].factors.empty()))
    return std::nullopt;
  const Atom& inner = first.factors[0].atom();
  if (inner.kind != Kind::kFloorDiv || !inner.b.is_const()) return std::nullopt;
  const int64_t m = inner.b.const_value();
  int64_t both = 0, more = 0;
  if (__builtin_mul_overflow(m, n, &both) || __builtin_mul_overflow(a.constant(), m, &more)) return std::nullopt;
  if (!IsSmall(inner.a) || both > kCoefMax || more > kCoefMax || more < -kCoefMax) return std::nullopt;
  return MakeAtom(Kind::kFloorDiv, inner.a + Dim(more), Dim(both));
}

/// a // n, n above 1.
Dim ByNumber(const Dim& a, int64_t n) {
  const Dim whole = WholePart(a, n);
  const Dim rest = a - whole * Dim(n);
  if (rest.is_const()) return whole;
  if (!whole.is_zero()) return whole + ByNumber(rest, n);
  if (rest.terms().front().coef < 0) return Negative(ByNumber(Dim(n - 1) - rest, n));
  const int64_t common = CommonCoef(rest - Dim(rest.constant()), n);
  if (common > 1) return ByNumber(ScaledDown(rest, common), n / common);
  if (auto quotient = OfQuotient(rest, n)) return *std::move(quotient);
  return Raw(Kind::kFloorDiv, rest, Dim(n));
}

/// The product that every term of both has: a coefficient above 0, and factors.
Dim CommonProduct(const Dim& a, const Dim& b) {
  std::vector<Factor> common = a.terms().front().factors;
  for (const Dim* dim : {&a, &b}) {
    for (const Dim::Term& term : dim->terms()) {
      std::vector<Factor> both;
      std::ranges::set_intersection(common, term.factors, std::back_inserter(both));
      common = std::move(both);
    }
  }
  return Dim::FromTerms({{CommonCoef(b, CommonCoef(a, 0)), std::move(common)}});
}

/// a // b, neither of them small where not all of their numbers are.
Dim BySizes(const Dim& a, const Dim& b) {
  const Dim common = CommonProduct(a, b);
  if (!common.is_one()) {
    // Of more terms than a division looks at, what is in common stays.
    const auto x = a.DivideExactly(common), y = b.DivideExactly(common);
    return x && y ? MakeAtom(Kind::kFloorDiv, *x, *y) : Raw(Kind::kFloorDiv, a, b);
  }
  if (b.terms().front().coef < 0) return BySizes(Negative(a), Negative(b));
  // The terms that a divisor of one term goes into.
  Dim whole;
  for (const Dim::Term& term : a.terms()) {
    if (b.terms().size() > 1) break;
    if (const auto quotient = Dim::FromTerms({term}).DivideExactly(b)) whole = whole + *quotient;
  }
  if (!whole.is_zero()) return whole + MakeAtom(Kind::kFloorDiv, a - whole * b, b);
  return Raw(Kind::kFloorDiv, a, b);
}

Dim Quotient(const Dim& a, const Dim& b) {
  if (b.is_zero() || a.is_zero()) return Dim();
  if (a.is_const() && b.is_const()) return Dim(FloorDiv(a.const_value(), b.const_value()));
  if (!IsSmall(a) || !IsSmall(b)) return Raw(Kind::kFloorDiv, a, b);
  if (auto exact = a.DivideExactly(b)) return *std::move(exact);
  if (!b.is_const()) return BySizes(a, b);
  return b.const_value() < 0 ? ByNumber(Negative(a), -b.const_value()) : ByNumber(a, b.const_value());
}

/// Whether a comes first in a minimum or maximum: by what it is made of, which a change of sign leaves as it is. A
/// number comes last.
bool ComesFirst(const Dim& a, const Dim& b) {
  const auto less = [](const Dim::Term& x, const Dim::Term& y) { return x.factors < y.factors; };
  const auto without = [](const Dim& dim) {
    return std::span(dim.terms()).first(dim.terms().size() - (dim.constant() != 0));
  };
  const auto x = without(a), y = without(b);
  if (x.empty() || y.empty()) return y.empty();
  if (std::ranges::lexicographical_compare(x, y, less)) return true;
  return !std::ranges::lexicographical_compare(y, x, less) && a > b;
}

Dim Extreme(Kind kind, Dim a, Dim b) {
  const Dim gap = a - b;
  if (gap.is_const() && IsSmall(a) && IsSmall(b)) return (kind == Kind::kMin) == (gap.const_value() < 0) ? a : b;
  if (a.is_const() && b.is_const())
    return kind == Kind::kMin ? std::min(a.const_value(), b.const_value()) : std::max(a.const_value(), b.const_value());
  if (!IsSmall(a) || !IsSmall(b)) return a < b ? Raw(kind, a, b) : Raw(kind, b, a);
  if (!ComesFirst(a, b)) std::swap(a, b);
  Terms common;
  std::ranges::set_intersection(a.terms(), b.terms(), std::back_inserter(common),
                                [](const Dim::Term& x, const Dim::Term& y) {
                                  return x.factors.size() != y.factors.size() ? x.factors.size() > y.factors.size()
                                         : x.factors != y.factors             ? x.factors < y.factors
                                                                              : x.coef < y.coef;
                                });
  Dim before = Dim::FromTerms(std::move(common));
  before = before + Dim((a - before).constant());
  if (!before.is_zero()) return before + Extreme(kind, a - before, b - before);
  if (const int64_t scale = CommonCoef(b, CommonCoef(a, 0)); scale > 1)
    return Dim(scale) * Extreme(kind, ScaledDown(a, scale), ScaledDown(b, scale));
  if (a.terms().front().coef < 0)
    return Negative(Extreme(kind == Kind::kMin ? Kind::kMax : Kind::kMin, Negative(a), Negative(b)));
  return Raw(kind, a, b);
}

Result<Dim> Checked(Kind kind, const Dim& a, const Dim& b) {
  Dim made = MakeAtom(kind, a, b);
  if (IsModest(made)) return made;
  return Error(Code::kInvalid, "a size of too many quotients, minima and maxima");
}

Error ByZero(const Dim& a) { return Error(Code::kInvalid, "a size divides " + a.ToText() + " by 0"); }

}  // namespace

Atom::Atom(Kind kind, Dim x, Dim y)
    : kind(kind),
      a(std::move(x)),
      b(std::move(y)),
      depth(std::max(DepthOf(a), DepthOf(b)) + 1),
      weight(Saturated(uint64_t{1} + WeightOf(a) + WeightOf(b))) {}

Factor::Factor(Atom atom) : atom_(std::make_shared<const Atom>(std::move(atom))) {}

std::strong_ordering Factor::operator<=>(const Factor& other) const {
  if (is_symbol() != other.is_symbol()) return is_symbol() ? std::strong_ordering::less : std::strong_ordering::greater;
  if (is_symbol()) return symbol_ <=> other.symbol_;
  if (atom_ == other.atom_) return std::strong_ordering::equal;
  if (const auto order = atom_->kind <=> other.atom_->kind; order != 0) return order;
  if (const auto order = atom_->a <=> other.atom_->a; order != 0) return order;
  return atom_->b <=> other.atom_->b;
}

Dim MakeAtom(Kind kind, const Dim& a, const Dim& b) {
  return kind == Kind::kFloorDiv ? Quotient(a, b) : Extreme(kind, a, b);
}

Result<Dim> Dim::FloorDiv(const Dim& a, const Dim& b) {
  if (b.is_zero()) return ByZero(a);
  return Checked(Kind::kFloorDiv, a, b);
}

Result<Dim> Dim::CeilDiv(const Dim& a, const Dim& b) {
  if (b.is_zero()) return ByZero(a);
  TRY_ASSIGN(const Dim down, Checked(Kind::kFloorDiv, Negative(a), b));
  return Negative(down);
}

Result<Dim> Dim::Mod(const Dim& a, const Dim& b) {
  TRY_ASSIGN(const Dim quotient, FloorDiv(a, b));
  return a - b * quotient;
}

Result<Dim> Dim::Min(const Dim& a, const Dim& b) { return Checked(Kind::kMin, a, b); }
Result<Dim> Dim::Max(const Dim& a, const Dim& b) { return Checked(Kind::kMax, a, b); }

AtomFunction AtomFunctionOf(std::string_view name) {
  const auto* found = std::ranges::find(kFunctions, name, &std::pair<std::string_view, AtomFunction>::first);
  return found == std::end(kFunctions) ? nullptr : found->second;
}

std::string_view NameOf(Kind kind) { return kind == Kind::kFloorDiv ? "floordiv" : kind == Kind::kMin ? "min" : "max"; }

bool IsModest(const Dim& dim) {
  return std::ranges::all_of(dim.terms(), [](const Dim::Term& term) {
    return std::ranges::all_of(term.factors, [](const Factor& factor) {
      return factor.is_symbol() || (factor.atom().depth <= Atom::kDepthMax && factor.atom().weight <= Atom::kWeightMax);
    });
  });
}

}  // namespace ingot::guards
