// SPDX-License-Identifier: Apache-2.0
#include "guards/bounds.h"

#include <algorithm>
#include <optional>

#include "base/floored.h"
#include "guards/normalize.h"

namespace ingot::guards {
namespace {

constexpr int64_t kNoLow = Bounds::kNoLow, kNoHigh = Bounds::kNoHigh;
/// Polynomials looked at for the bounds of one.
constexpr int kWorkMax = 64;

/// A bound that leaves 64 bits is none.
int64_t Clamp(__int128 value) {
  return value <= kNoLow ? kNoLow : value >= kNoHigh ? kNoHigh : static_cast<int64_t>(value);
}

Bounds Product(const Bounds& a, const Bounds& b) {
  // Nothing is known of a product with an unknown side, whatever its sign.
  if (a.low == kNoLow || a.high == kNoHigh || b.low == kNoLow || b.high == kNoHigh) {
    if (a.low < 0 || b.low < 0) return {};
    const bool bounded = a.high != kNoHigh && b.high != kNoHigh;
    const int64_t high = bounded ? Clamp(static_cast<__int128>(a.high) * b.high) : kNoHigh;
    return {Clamp(static_cast<__int128>(a.low) * b.low), high};
  }
  const __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                              static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {Clamp(*std::min_element(corners, corners + 4)), Clamp(*std::max_element(corners, corners + 4))};
}

Bounds Scaled(const Bounds& bounds, int64_t by) {
  const Bounds turned = by < 0 ? Bounds{bounds.high, bounds.low} : bounds;
  const auto scale = [&](int64_t bound, int64_t unknown) {
    return bound == kNoLow || bound == kNoHigh ? unknown : Clamp(static_cast<__int128>(bound) * by);
  };
  return {scale(turned.low, kNoLow), scale(turned.high, kNoHigh)};
}

Bounds Sum(const Bounds& a, const Bounds& b) {
  const bool has_low = a.low != kNoLow && b.low != kNoLow, has_high = a.high != kNoHigh && b.high != kNoHigh;
  return {has_low ? Clamp(static_cast<__int128>(a.low) + b.low) : kNoLow,
          has_high ? Clamp(static_cast<__int128>(a.high) + b.high) : kNoHigh};
}

Bounds Both(const Bounds& a, const Bounds& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
Bounds Either(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

/// Of a // b: each end of the dividend by each end of a divisor above 0.
Bounds Quotient(const Bounds& a, const Bounds& b) {
  if (b.low < 1) return {};
  const auto end = [&](int64_t dividend, bool wants_low) {
    // Divided by more, a number comes nearer to 0, or to -1 from below.
    const int64_t by = (dividend >= 0) == wants_low ? b.high : b.low;
    if (by == kNoHigh) return dividend >= 0 ? int64_t{0} : int64_t{-1};
    return FloorDiv(dividend, by);
  };
  return {a.low == kNoLow ? kNoLow : end(a.low, true), a.high == kNoHigh ? kNoHigh : end(a.high, false)};
}

Bounds Extreme(Atom::Kind kind, const Bounds& a, const Bounds& b) {
  if (kind == Atom::Kind::kMin) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  return {std::max(a.low, b.low), std::max(a.high, b.high)};
}

/// value == factor * by + rest, neither of which has the factor.
struct Parts {
  Dim by, rest;
};
std::optional<Parts> PartsOf(const Dim& value, const Factor& factor) {
  Parts parts;
  for (const Dim::Term& term : value.terms()) {
    const auto at = std::ranges::find(term.factors, factor);
    Dim::Term left = term;
    if (at != term.factors.end()) left.factors.erase(left.factors.begin() + (at - term.factors.begin()));
    if (at != term.factors.end() && std::ranges::find(left.factors, factor) != left.factors.end()) return std::nullopt;
    Dim& to = at == term.factors.end() ? parts.rest : parts.by;
    to = to + Dim::FromTerms({std::move(left)});
  }
  return parts;
}

class Bounder {
 public:
  explicit Bounder(const SymbolBounds& symbols) : symbols_(symbols) {}

  Bounds Of(const Dim& value) {
    Bounds sum{0, 0};
    const Factor* atom = nullptr;
    for (const Dim::Term& term : value.terms()) {
      Bounds product{1, 1};
      for (const Factor& factor : term.factors) {
        product = Product(product, OfFactor(factor));
        if (!factor.is_symbol()) atom = &factor;
      }
      sum = Sum(sum, Scaled(product, term.coef));
    }
    // Alone, an atom is what it lies between already.
    const bool is_alone = value.terms().size() == 1 && value.terms()[0].factors.size() == 1;
    if (atom == nullptr || is_alone || ++work_ > kWorkMax) return sum;
    const auto parts = PartsOf(value, *atom);
    return parts ? Both(sum, Within(*parts, atom->atom())) : sum;
  }

 private:
  Bounds OfFactor(const Factor& factor) {
    if (factor.is_symbol()) {
      const auto known = symbols_.find(factor.symbol());
      return known == symbols_.end() ? Bounds() : known->second;
    }
    const Atom& atom = factor.atom();
    const Bounds a = Of(atom.a), b = Of(atom.b);
    return atom.kind == Atom::Kind::kFloorDiv ? Quotient(a, b) : Extreme(atom.kind, a, b);
  }

  /// value of by * x + rest; nothing is known where numbers are too large.
  Bounds At(const Parts& parts, const Dim& x) {
    const Result<Dim> product = Multiply(parts.by, x);
    const Result<Dim> sum = product ? guards::Sum(*product, parts.rest) : product;
    return sum ? Of(*sum) : Bounds();
  }

  /// By what the atom lies between.
  Bounds Within(const Parts& parts, const Atom& atom) {
    const Bounds by = Of(parts.by);
    const bool rises = by.low >= 0, falls = by.high <= 0;
    if (atom.kind != Atom::Kind::kFloorDiv) {
      const Bounds a = At(parts, atom.a), b = At(parts, atom.b);
      Bounds either = Either(a, b);
      const bool is_min = atom.kind == Atom::Kind::kMin;
      if (is_min ? rises : falls) either.high = std::min(a.high, b.high);
      if (is_min ? falls : rises) either.low = std::max(a.low, b.low);
      return either;
    }
    if (!rises && !falls) return {};
    const Bounds divisor = Of(atom.b);
    const Result<Dim> rest = divisor.low < 1 ? Error(Code::kInvalid, "") : Multiply(parts.rest, atom.b);
    if (!rest) return {};
    // divisor * atom is the dividend at most, and less by divisor - 1 at least.
    const Dim most = atom.a, least = atom.a - atom.b + Dim(1);
    const int64_t low = At({parts.by, *rest}, rises ? least : most).low;
    const int64_t high = At({parts.by, *rest}, rises ? most : least).high;
    if (divisor.low == divisor.high) {
      return {low == kNoLow ? kNoLow : -FloorDiv(-low, divisor.low),
              high == kNoHigh ? kNoHigh : FloorDiv(high, divisor.low)};
    }
    return {low > 0 ? 1 : low == 0 ? 0 : kNoLow, high < 0 ? -1 : high == 0 ? 0 : kNoHigh};
  }

  const SymbolBounds& symbols_;
  int work_ = 0;
};

}  // namespace

Bounds BoundsOf(const Dim& dim, const SymbolBounds& symbols) { return Bounder(symbols).Of(dim); }

Dim Decided(const Dim& dim, const SymbolBounds& symbols) {
  if (!dim.HasAtoms()) return dim;
  return dim.Replace([&](const Factor& factor) {
    if (factor.is_symbol()) return Dim::Of(factor);
    const Dim a = Decided(factor.atom().a, symbols), b = Decided(factor.atom().b, symbols);
    const Dim made = MakeAtom(factor.atom().kind, a, b);
    const Bounds bounds = BoundsOf(made, symbols);
    if (bounds.low == bounds.high) return Dim(bounds.low);
    if (factor.atom().kind == Atom::Kind::kFloorDiv) return made;
    const Bounds gap = BoundsOf(a - b, symbols);
    if (gap.high <= 0) return factor.atom().kind == Atom::Kind::kMin ? a : b;
    if (gap.low >= 0) return factor.atom().kind == Atom::Kind::kMin ? b : a;
    return made;
  });
}

}  // namespace ingot::guards
