// SPDX-License-Identifier: Apache-2.0
#include "guards/normalize.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "base/floored.h"

namespace ingot::guards {
namespace {

using Terms = std::vector<Dim::Term>;

bool WithinLimits(const Dim& value) {
  if (value.terms().size() > kTermsMax) return false;
  for (const Dim::Term& term : value.terms()) {
    if (term.coef > kCoefMax || term.coef < -kCoefMax) return false;
  }
  return IsModest(value);
}

Error TooLarge() { return Error(Code::kInvalid, "a guard holds numbers up to 2^53 in up to 64 terms"); }

int64_t CommonFactor(const Dim& value, int64_t factor = 0) {
  for (const Dim::Term& term : value.terms()) {
    if (!term.factors.empty()) factor = std::gcd(factor, term.coef);
  }
  return factor;
}

Dim ScaleDown(const Dim& value, int64_t factor) {
  Terms terms = value.terms();
  for (Dim::Term& term : terms) term.coef = FloorDiv(term.coef, factor);
  return Dim::FromTerms(std::move(terms));
}

std::optional<Guard> Decide(bool holds) { return holds ? std::nullopt : std::optional<Guard>(Never()); }

/// What an equality with what a division by a number leaves over asks of the dividend: a - 4*(a // 4) == 1 is a % 4
/// == 1.
std::optional<Guard> AsRemainder(const Guard& guard) {
  for (const Dim::Term& term : guard.value.terms()) {
    if (term.factors.size() != 1 || term.factors[0].is_symbol()) continue;
    const Atom& atom = term.factors[0].atom();
    const bool divides = atom.kind == Atom::Kind::kFloorDiv && atom.b.is_const();
    const int64_t modulus = divides ? atom.b.const_value() : 0;
    if (modulus < 1 || modulus > kModulusMax || (term.coef != modulus && term.coef != -modulus)) continue;
    const Dim left = atom.a - Dim::FromTerms({{modulus, term.factors}});
    const Dim rest = term.coef < 0 ? guard.value - left : guard.value + left;
    if (!rest.is_const()) continue;
    const int64_t remainder = term.coef < 0 ? -rest.const_value() : rest.const_value();
    Guard made = guard;
    made.kind = guard.kind == Guard::Kind::kEqual ? Guard::Kind::kModulo : Guard::Kind::kNotModulo;
    made.value = atom.a;
    made.modulus = modulus;
    made.remainder = remainder;
    return made;
  }
  return std::nullopt;
}

std::optional<Guard> NormalModulo(Guard guard);

std::optional<Guard> NormalEquality(Guard guard) {
  const bool equal = guard.kind == Guard::Kind::kEqual;
  if (guard.value.is_const()) return Decide(guard.value.is_zero() == equal);
  const int64_t factor = CommonFactor(guard.value);
  if (guard.value.constant() % factor != 0) return Decide(!equal);
  guard.value = ScaleDown(guard.value, guard.value.terms().front().coef < 0 ? -factor : factor);
  if (const auto remainder = AsRemainder(guard)) {
    if (remainder->remainder < 0 || remainder->remainder >= remainder->modulus) return Decide(!equal);
    return NormalModulo(*remainder);
  }
  return guard;
}

/// What is 0 or more where a quotient by a number, plus or minus a number, is: a // 4 >= k is a >= 4*k, and a // 4 <= k
/// is a <= 4*k + 3.
std::optional<Dim> BoundOnDividend(const Dim& value) {
  const Dim::Term& first = value.terms().front();
  if (!(value - Dim(value.constant()) - Dim::FromTerms({first})).is_zero() || first.factors.size() != 1)
    return std::nullopt;
  if (first.factors[0].is_symbol() || (first.coef != 1 && first.coef != -1)) return std::nullopt;
  const Atom& atom = first.factors[0].atom();
  if (atom.kind != Atom::Kind::kFloorDiv || !atom.b.is_const()) return std::nullopt;
  const Result<Dim> bound = Multiply(Dim(value.constant()), atom.b);
  if (!bound) return std::nullopt;
  return first.coef == 1 ? atom.a + *bound : *bound + atom.b - Dim(1) - atom.a;
}

std::optional<Guard> NormalBound(Guard guard) {
  if (guard.value.is_const()) return Decide(guard.value.const_value() >= 0);
  // Only the constant is rounded: the factor divides all other coefficients.
  guard.value = ScaleDown(guard.value, CommonFactor(guard.value));
  if (std::optional<Dim> dividend = BoundOnDividend(guard.value); dividend && WithinLimits(*dividend)) {
    guard.value = *std::move(dividend);
    return NormalBound(std::move(guard));
  }
  return guard;
}

/// x with a * x % m == 1; a and m have no common factor.
int64_t InverseOf(int64_t a, int64_t m) {
  int64_t x = 0, y = 1, r = m, s = a;
  while (s != 0) {
    const int64_t q = r / s;
    std::tie(x, y) = std::pair(y, x - q * y);
    std::tie(r, s) = std::pair(s, r - q * s);
  }
  return FloorMod(x, m);
}

std::optional<Guard> NormalModulo(Guard guard) {
  const bool equal = guard.kind == Guard::Kind::kModulo;
  int64_t m = guard.modulus;
  int64_t remainder = FloorMod(guard.remainder - guard.value.constant(), m);
  Terms terms;
  for (const Dim::Term& term : guard.value.terms()) {
    if (!term.factors.empty() && term.coef % m != 0) terms.push_back({FloorMod(term.coef, m), term.factors});
  }
  guard.value = Dim::FromTerms(std::move(terms));
  if (guard.value.is_zero()) return Decide((remainder == 0) == equal);
  const int64_t factor = CommonFactor(guard.value, m);
  if (remainder % factor != 0) return Decide(!equal);
  guard.value = ScaleDown(guard.value, factor);
  m /= factor;
  remainder /= factor;
  if (m == 1) return Decide(equal);
  // Only of one term: which of several comes first is no property of the condition.
  const int64_t lead = guard.value.terms().front().coef;
  if (guard.value.terms().size() == 1 && std::gcd(lead, m) == 1) {
    guard.value = Dim::FromTerms({{1, guard.value.terms().front().factors}});
    remainder = remainder * InverseOf(lead, m) % m;  // Both are below 2^31.
  }
  guard.modulus = m;
  guard.remainder = remainder;
  return guard;
}

}  // namespace

Guard Never() { return {.kind = Guard::Kind::kEqual, .value = Dim(1)}; }

Result<Dim> Sum(const Dim& a, const Dim& b) {
  if (!WithinLimits(a) || !WithinLimits(b)) return TooLarge();
  Dim sum = a + b;
  if (!WithinLimits(sum)) return TooLarge();
  return sum;
}

Result<Dim> Multiply(const Dim& a, const Dim& b) {
  if (!WithinLimits(a) || !WithinLimits(b) || a.terms().size() * b.terms().size() > kTermsMax) return TooLarge();
  Dim product;
  for (const Dim::Term& x : a.terms()) {
    for (const Dim::Term& y : b.terms()) {
      Dim::Term term{0, x.factors};
      if (__builtin_mul_overflow(x.coef, y.coef, &term.coef)) return TooLarge();
      if (term.factors.size() + y.factors.size() > kTermsMax) return TooLarge();
      term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
      TRY_ASSIGN(product, Sum(product, Dim::FromTerms({std::move(term)})));
    }
  }
  return product;
}

Result<Dim> Replaced(const Dim& dim, const std::function<Dim(uint16_t)>& by, int64_t& work) {
  Dim sum;
  for (const Dim::Term& term : dim.terms()) {
    Dim product(term.coef);
    for (const Factor& factor : term.factors) {
      Dim next;
      if (factor.is_symbol()) {
        next = by(factor.symbol());
      } else {
        TRY_ASSIGN(const Dim a, Replaced(factor.atom().a, by, work));
        TRY_ASSIGN(const Dim b, Replaced(factor.atom().b, by, work));
        next = MakeAtom(factor.atom().kind, a, b);
      }
      work -= static_cast<int64_t>(product.terms().size() * next.terms().size());
      if (work < 0) return TooLarge();
      TRY_ASSIGN(product, Multiply(product, next));
    }
    work -= static_cast<int64_t>(sum.terms().size() + product.terms().size());
    TRY_ASSIGN(sum, Sum(sum, product));
  }
  return sum;
}

Result<Dim> Replaced(const Dim& dim, const std::function<Dim(uint16_t)>& by) {
  int64_t work = std::numeric_limits<int64_t>::max();
  return Replaced(dim, by, work);
}

Result<std::optional<Guard>> Normalize(Guard guard) {
  if (guard.kind == Guard::Kind::kApart) {
    if (guard.input == guard.other) return std::optional<Guard>(Never());
    if (guard.input > guard.other) std::swap(guard.input, guard.other);
  }
  if (!guard.IsNumeric()) return std::optional<Guard>(std::move(guard));
  if (!WithinLimits(guard.value)) return TooLarge();
  switch (guard.kind) {
    case Guard::Kind::kEqual:
    case Guard::Kind::kNotEqual: return NormalEquality(std::move(guard));
    case Guard::Kind::kAtLeast: return NormalBound(std::move(guard));
    default: break;
  }
  if (guard.modulus < 1 || guard.modulus > kModulusMax) {
    return Error(Code::kInvalid, "a guard divides by 1 to 2^31, found " + std::to_string(guard.modulus));
  }
  if (guard.remainder > kCoefMax || guard.remainder < -kCoefMax) return TooLarge();
  return NormalModulo(std::move(guard));
}

}  // namespace ingot::guards
