// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::guards {

/// One size, stride or offset: an integer polynomial over the symbols s0, s1, ... of a graph.
///
/// Kept canonical (terms sorted, no zero coefficient, equal products merged), so that == is
/// equality of polynomials. Text: "128", "s0", "4*s0*s1 + 128", "-s0 + 5".
class Dim {
 public:
  /// coef * product of symbols; `symbols` is sorted and repeats a symbol for a power.
  struct Term {
    int64_t coef = 0;
    std::vector<uint16_t> symbols;
    auto operator<=>(const Term&) const = default;
  };

  Dim() = default;                              ///< zero
  Dim(int64_t value);                           // NOLINT: a plain integer is a Dim
  static Dim Symbol(uint16_t index);
  /// Sorts and merges; any input is accepted.
  static Dim FromTerms(std::vector<Term> terms);

  bool is_const() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].symbols.empty()); }
  /// Only where is_const().
  int64_t const_value() const { return terms_.empty() ? 0 : terms_[0].coef; }
  bool is_one() const { return is_const() && const_value() == 1; }
  bool is_zero() const { return terms_.empty(); }
  const std::vector<Term>& terms() const { return terms_; }

  /// Value for the given symbol values; a symbol outside `symbols` counts as 0 (the verifier
  /// refuses such graphs before). Allocates nothing. Wraps on overflow.
  int64_t Eval(std::span<const int64_t> symbols) const;
  /// This with symbol i replaced by `by[i]`.
  Dim Substitute(std::span<const Dim> by) const;
  /// One more than the highest symbol used; 0 for a constant.
  uint16_t SymbolCount() const;
  /// q with q * divisor == *this, where such a polynomial exists.
  std::optional<Dim> DivideExactly(const Dim& divisor) const;

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
