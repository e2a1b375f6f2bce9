// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/floored.h"
#include "base/result.h"
#include "guards/dim.h"

namespace ingot::guards {

/// A number made of two polynomials that is no polynomial itself. Made by MakeAtom alone.
struct Atom {
  enum class Kind : uint8_t {
    kFloorDiv,  ///< Python's a // b; 0 where b is 0
    kMin,
    kMax,
  };
  /// Atoms within atoms, and terms and factors of all of them: beyond these, text, graphs and recordings are refused.
  static constexpr uint32_t kDepthMax = 16;
  static constexpr uint32_t kWeightMax = 1024;

  Atom(Kind kind, Dim a, Dim b);

  Kind kind;
  Dim a, b;
  uint32_t depth;  ///< 1 where none is within
  uint32_t weight;  ///< numbers and symbols it takes to write it down
};

/// The number, in the one form that it has as far as that can be told: a polynomial where it is one. A quotient by the
/// number 0 is 0, as in Eval.
///
/// What a divisor goes into is no part of the atom ((s0 - 8) // 8 is s0 // 8 - 1), a quotient of a quotient is one
/// quotient, what both have in common stands before the atom or is left out, and coefficients are above 0 where they
/// may be: -s0 // 4 is -((s0 + 3) // 4), min(-s0, -s1) is -max(s0, s1). All of that holds for all numbers where no
/// divisor is 0: s0*s1 // s1 is s0, also at s1 == 0. Who divides by a size asks that it is not 0.
Dim MakeAtom(Atom::Kind kind, const Dim& a, const Dim& b);

/// What text calls Dim's functions: floordiv, ceildiv, mod, min, max; none for another word.
using AtomFunction = Result<Dim> (*)(const Dim& a, const Dim& b);
AtomFunction AtomFunctionOf(std::string_view name);
std::string_view NameOf(Atom::Kind kind);

/// Atoms within are none of them beyond the limits above.
bool IsModest(const Dim& dim);

// -- templates of Dim ---------------------------------------------------------------------------

template <typename F>
std::optional<int64_t> Dim::EvalExactly(const F& value_of) const {
  const auto of_atom = [&](const Atom& atom) -> std::optional<int64_t> {
    const std::optional<int64_t> a = atom.a.EvalExactly(value_of);
    const std::optional<int64_t> b = a ? atom.b.EvalExactly(value_of) : std::nullopt;
    if (!b) return std::nullopt;
    if (atom.kind != Atom::Kind::kFloorDiv) return (atom.kind == Atom::Kind::kMin) == (*a < *b) ? a : b;
    if (*b == 0 || (*b == -1 && *a == INT64_MIN)) return std::nullopt;
    return ingot::FloorDiv(*a, *b);
  };
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.coef;
    for (const Factor& factor : term.factors) {
      const std::optional<int64_t> value = factor.is_symbol() ? value_of(factor.symbol()) : of_atom(factor.atom());
      if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

template <typename F>
void Dim::ForEachSymbol(const F& fn) const {
  for (const Term& term : terms_) {
    for (const Factor& factor : term.factors) {
      if (factor.is_symbol()) {
        fn(factor.symbol());
        continue;
      }
      factor.atom().a.ForEachSymbol(fn);
      factor.atom().b.ForEachSymbol(fn);
    }
  }
}

template <typename F>
void Dim::ForEachAtom(const F& fn) const {
  for (const Term& term : terms_) {
    for (const Factor& factor : term.factors) {
      if (factor.is_symbol()) continue;
      factor.atom().a.ForEachAtom(fn);
      factor.atom().b.ForEachAtom(fn);
      fn(factor);
    }
  }
}

}  // namespace ingot::guards
