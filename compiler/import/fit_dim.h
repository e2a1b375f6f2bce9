// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "guards/dim.h"

namespace ingot::compiler {

using guards::Dim;
using guards::Dims;

/// Finds the polynomial over the symbols that has one given value at each of two samples.
///
/// Two samples leave many answers, so the simplest wins: what the caller hints at, a symbol, a
/// multiple of a product of symbols, then sums. A wrong guess costs a template that later sizes
/// do not match; it is never executed, because each size is proved by a recording.
class DimFitter {
 public:
  /// Values of s0, s1, ... in the two samples.
  DimFitter(std::vector<int64_t> first, std::vector<int64_t> second);

  /// A constant where the values are equal; nullopt where nothing simple fits. A hint is taken
  /// if it has both values.
  std::optional<Dim> Fit(int64_t first, int64_t second, std::span<const Dim> hints = {});
  /// Whether the polynomial has these values.
  bool Matches(const Dim& dim, int64_t first, int64_t second) const;

 private:
  struct Monomial {
    Dim dim;
    int64_t first = 1, second = 1;
    int degree = 0;
    int repeats = 0;  ///< symbols beyond the first of each: s0*s0 has one
  };
  void AddMonomials(const Monomial& base, size_t from, int degree_max);
  std::optional<Dim> FitMultiple(int64_t first, int64_t second) const;
  std::optional<Dim> FitSum(int64_t first, int64_t second) const;

  std::vector<int64_t> first_, second_;
  std::vector<Monomial> monomials_;  ///< simplest first; the first is 1
  std::map<std::pair<int64_t, int64_t>, std::optional<Dim>> known_;
};

}  // namespace ingot::compiler
