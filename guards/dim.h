// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::guards {

struct Atom;

/// What a product is made of: a symbol, or an atom, which is a number computed of sizes by more than sums and
/// products (guards/atom.h). Symbols come before atoms.
class Factor {
 public:
  Factor(uint16_t symbol) : symbol_(symbol) {}  // NOLINT: a symbol's number is a factor
  explicit Factor(Atom atom);

  bool is_symbol() const { return atom_ == nullptr; }
  /// Only where is_symbol().
  uint16_t symbol() const { return symbol_; }
  /// Only where it is none.
  const Atom& atom() const { return *atom_; }
  /// As Dim::Eval.
  int64_t Eval(std::span<const int64_t> symbols) const;

  bool operator==(const Factor& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Factor& other) const;

 private:
  uint16_t symbol_ = 0;
  std::shared_ptr<const Atom> atom_;
};

/// One size, stride or offset: an integer polynomial over the symbols s0, s1, ... of a graph, and over quotients,
/// minima and maxima of such polynomials.
///
/// Kept canonical (terms sorted, no zero coefficient, equal products merged), so that == is
/// equality of polynomials. Text: "128", "s0", "4*s0*s1 + 128", "-s0 + 5", "2*floordiv(s0 + 1, 2)", "min(s0, 64)".
class Dim {
 public:
  /// coef * product of factors; `factors` is sorted and repeats a factor for a power.
  struct Term {
    int64_t coef = 0;
    std::vector<Factor> factors;
    auto operator<=>(const Term&) const = default;
  };

  Dim() = default;                              ///< zero
  Dim(int64_t value);                           // NOLINT: a plain integer is a Dim
  static Dim Symbol(uint16_t index);
  static Dim Of(Factor factor);
  /// Sorts and merges; any input is accepted.
  static Dim FromTerms(std::vector<Term> terms);

  bool is_const() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].factors.empty()); }
  /// Only where is_const().
  int64_t const_value() const { return terms_.empty() ? 0 : terms_[0].coef; }
  bool is_one() const { return is_const() && const_value() == 1; }
  bool is_zero() const { return terms_.empty(); }
  const std::vector<Term>& terms() const { return terms_; }
  /// The symbol that it is, where it is one and nothing else.
  std::optional<uint16_t> lone_symbol() const {
    const bool is_one = terms_.size() == 1 && terms_[0].coef == 1 && terms_[0].factors.size() == 1;
    if (!is_one || !terms_[0].factors[0].is_symbol()) return std::nullopt;
    return terms_[0].factors[0].symbol();
  }
  /// The number among the terms.
  int64_t constant() const { return terms_.empty() || !terms_.back().factors.empty() ? 0 : terms_.back().coef; }
  bool HasAtoms() const;
  /// Every factor is a symbol that is 0 or more, or an atom of such, and no coefficient is below 0: so is the value.
  bool IsPlainlyNotNegative() const;

  /// Value for the given symbol values; a symbol outside `symbols` counts as 0 (the verifier
  /// refuses such graphs before), and so does a quotient by 0. Allocates nothing. Wraps on overflow.
  int64_t Eval(std::span<const int64_t> symbols) const;
  /// The value where everything it is made of stays within 64 bits and no divisor is 0. `value_of(symbol)` is an
  /// optional number.
  template <typename F>
  std::optional<int64_t> EvalExactly(const F& value_of) const;
  /// This with symbol i replaced by `by[i]`, within atoms too.
  Dim Substitute(std::span<const Dim> by) const;
  /// This with each factor replaced; atoms are given as they are.
  template <typename F>
  Dim Replace(const F& by) const {
    Dim sum;
    for (const Term& term : terms_) {
      Dim product(term.coef);
      for (const Factor& factor : term.factors) product = product * by(factor);
      sum = sum + product;
    }
    return sum;
  }
  /// fn(symbol) for each symbol, within atoms too, as often as it is there.
  template <typename F>
  void ForEachSymbol(const F& fn) const;
  /// fn(factor) for each factor that is an atom, inner ones first.
  template <typename F>
  void ForEachAtom(const F& fn) const;
  bool Uses(uint16_t symbol) const;
  /// One more than the highest symbol used; 0 for a constant.
  uint16_t SymbolCount() const;
  /// q with q * divisor == *this, where such a polynomial exists.
  std::optional<Dim> DivideExactly(const Dim& divisor) const;

  /// Python's a // b, for all numbers (they may be below 0). kInvalid: b is 0, or the result is beyond Atom's limits.
  static Result<Dim> FloorDiv(const Dim& a, const Dim& b);
  /// a / b rounded up.
  static Result<Dim> CeilDiv(const Dim& a, const Dim& b);
  /// Python's a % b, written by the quotient: a - b * (a // b), so that the two add up to a.
  static Result<Dim> Mod(const Dim& a, const Dim& b);
  static Result<Dim> Min(const Dim& a, const Dim& b);
  static Result<Dim> Max(const Dim& a, const Dim& b);

  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  bool operator==(const Dim& other) const = default;
  auto operator<=>(const Dim& other) const = default;

  std::string ToText() const;
  /// kInvalid with the offending text.
  static Result<Dim> Parse(std::string_view text);

 private:
  std::vector<Term> terms_;
};

using Dims = std::vector<Dim>;

/// Product of all dims; 1 for none.
Dim Product(std::span<const Dim> dims);
/// Row-major strides of `sizes` in elements, as torch computes them for contiguous tensors
/// (a size of 0 counts as 1).
Dims ContiguousStrides(std::span<const Dim> sizes);
/// Dense strides of `sizes` with the dims nested in memory as in a tensor of such sizes and strides, all numbers.
Dims NestedStrides(std::span<const Dim> sizes, std::span<const Dim> like_sizes, std::span<const Dim> like_strides);

}  // namespace ingot::guards

#include "guards/atom.h"
