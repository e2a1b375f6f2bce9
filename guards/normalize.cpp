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
  return true;
}

Error TooLarge() { return Error(Code::kInvalid, "a guard holds numbers up to 2^53 in up to 64 terms"); }

int64_t ConstantOf(const Dim& value) {
  return !value.is_zero() && value.terms().back().symbols.empty() ? value.terms().back().coef : 0;
}

int64_t CommonFactor(const Dim& value, int64_t factor = 0) {
  for (const Dim::Term& term : value.terms()) {
    if (!term.symbols.empty()) factor = std::gcd(factor, term.coef);
  }
  return factor;
}

Dim ScaleDown(const Dim& value, int64_t factor) {
  Terms terms = value.terms();
  for (Dim::Term& term : terms) term.coef = FloorDiv(term.coef, factor);
  return Dim::FromTerms(std::move(terms));
}

std::optional<Guard> Decide(bool holds) { return holds ? std::nullopt : std::optional<Guard>(Never()); }

std::optional<Guard> NormalEquality(Guard guard) {
  const bool equal = guard.kind == Guard::Kind::kEqual;
  if (guard.value.is_const()) return Decide(guard.value.is_zero() == equal);
  const int64_t factor = CommonFactor(guard.value);
  if (ConstantOf(guard.value) % factor != 0) return Decide(!equal);
  guard.value = ScaleDown(guard.value, guard.value.terms().front().coef < 0 ? -factor : factor);
  return guard;
}

std::optional<Guard> NormalBound(Guard guard) {
  if (guard.value.is_const()) return Decide(guard.value.const_value() >= 0);
  // Only the constant is rounded: the factor divides all other coefficients.
  guard.value = ScaleDown(guard.value, CommonFactor(guard.value));
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
  int64_t remainder = FloorMod(guard.remainder - ConstantOf(guard.value), m);
  Terms terms;
  for (const Dim::Term& term : guard.value.terms()) {
    if (!term.symbols.empty() && term.coef % m != 0) terms.push_back({FloorMod(term.coef, m), term.symbols});
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
    guard.value = Dim::FromTerms({{1, guard.value.terms().front().symbols}});
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
      Dim::Term term{0, x.symbols};
      if (__builtin_mul_overflow(x.coef, y.coef, &term.coef)) return TooLarge();
      if (term.symbols.size() + y.symbols.size() > kTermsMax) return TooLarge();
      term.symbols.insert(term.symbols.end(), y.symbols.begin(), y.symbols.end());
      TRY_ASSIGN(product, Sum(product, Dim::FromTerms({std::move(term)})));
    }
  }
  return product;
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
