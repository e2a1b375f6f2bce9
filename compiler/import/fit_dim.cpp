// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/fit_dim.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace ingot::compiler {
namespace {

/// Values above this are no sizes; keeping below lets 128-bit products be exact.
constexpr int64_t kValueMax = int64_t{1} << 56;
/// Coefficients of a sum beyond this are coincidence, not structure.
constexpr int64_t kSumCoefficientMax = 1 << 20;
/// Sums that take more to write down than this are coincidence too.
constexpr int kSumCostMax = 28;

int DegreeMax(size_t symbols) { return symbols <= 8 ? 3 : symbols <= 24 ? 2 : 1; }

/// Of the lowest integer too, which has no negative.
uint64_t Magnitude(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value < 0 ? -bits : bits;
}

/// Bits of a coefficient beyond 1.
int Bits(int64_t value) { return std::bit_width(Magnitude(value) / 2); }

}  // namespace

DimFitter::DimFitter(std::vector<int64_t> first, std::vector<int64_t> second)
    : first_(std::move(first)), second_(std::move(second)) {
  monomials_.push_back({Dim(1)});
  AddMonomials(monomials_[0], 0, DegreeMax(first_.size()));
  std::stable_sort(monomials_.begin(), monomials_.end(), [](const Monomial& a, const Monomial& b) {
    return std::tie(a.degree, a.repeats) < std::tie(b.degree, b.repeats);
  });
}

void DimFitter::AddMonomials(const Monomial& base, size_t from, int degree_max) {
  if (base.degree == degree_max) return;
  const Monomial prefix = base;
  for (size_t i = from; i < first_.size(); ++i) {
    Monomial next = prefix;
    if (__builtin_mul_overflow(prefix.first, first_[i], &next.first) ||
        __builtin_mul_overflow(prefix.second, second_[i], &next.second) || Magnitude(next.first) > kValueMax ||
        Magnitude(next.second) > kValueMax) {
      continue;
    }
    next.dim = prefix.dim * Dim::Symbol(static_cast<uint16_t>(i));
    ++next.degree;
    next.repeats += prefix.degree > 0 && i == from;
    monomials_.push_back(next);
    AddMonomials(next, i, degree_max);
  }
}

bool DimFitter::Matches(const Dim& dim, int64_t first, int64_t second) const {
  return dim.Eval(first_) == first && dim.Eval(second_) == second;
}

std::optional<Dim> DimFitter::Fit(int64_t first, int64_t second, std::span<const Dim> hints) {
  if (first == second) return Dim(first);
  if (Magnitude(first) > kValueMax || Magnitude(second) > kValueMax || first == std::numeric_limits<int64_t>::min()) {
    return std::nullopt;
  }
  for (size_t i = 0; i < first_.size(); ++i) {
    if (first_[i] == first && second_[i] == second) return Dim::Symbol(static_cast<uint16_t>(i));
  }
  for (const Dim& hint : hints) {
    if (!hint.is_const() && Matches(hint, first, second)) return hint;
  }
  const auto [place, is_new] = known_.try_emplace({first, second});
  if (is_new) {
    place->second = FitMultiple(first, second);
    if (!place->second) place->second = FitSum(first, second);
  }
  return place->second;
}

/// k*m, the simplest m first; among equally simple ones the smallest k.
std::optional<Dim> DimFitter::FitMultiple(int64_t first, int64_t second) const {
  const Monomial* best = nullptr;
  int64_t best_factor = 0;
  for (const Monomial& m : monomials_) {
    if (m.degree == 0 || m.first == 0 || m.second == 0) continue;
    if (best && std::tie(best->degree, best->repeats) < std::tie(m.degree, m.repeats)) break;
    const int64_t factor = first / m.first;
    if (factor * m.first != first || second / m.second != factor || factor * m.second != second) {
      continue;
    }
    if (!best || Magnitude(factor) < Magnitude(best_factor)) best = &m, best_factor = factor;
  }
  if (!best) return std::nullopt;
  return Dim(best_factor) * best->dim;
}

/// k*m + l*n, n = 1 included: two equations, two unknowns. The cheapest wins, where a symbol more
/// costs as much as two bits of a coefficient: s0 + s1 rather than 17*s0 + 64.
std::optional<Dim> DimFitter::FitSum(int64_t first, int64_t second) const {
  std::optional<Dim> best;
  int best_cost = kSumCostMax + 1;
  for (size_t i = 0; i < monomials_.size(); ++i) {
    for (size_t j = i + 1; j < monomials_.size(); ++j) {
      const Monomial& m = monomials_[j];
      const Monomial& n = monomials_[i];
      const __int128 determinant =
          static_cast<__int128>(m.first) * n.second - static_cast<__int128>(n.first) * m.second;
      if (determinant == 0) continue;
      const __int128 k = static_cast<__int128>(first) * n.second - static_cast<__int128>(n.first) * second;
      const __int128 l = static_cast<__int128>(m.first) * second - static_cast<__int128>(first) * m.second;
      if (k % determinant != 0 || l % determinant != 0) continue;
      const __int128 wide_k = k / determinant, wide_l = l / determinant;
      if (wide_k > kSumCoefficientMax || wide_k < -kSumCoefficientMax || wide_l > kSumCoefficientMax ||
          wide_l < -kSumCoefficientMax) {
        continue;
      }
      const int64_t factor = static_cast<int64_t>(wide_k), other = static_cast<int64_t>(wide_l);
      const int symbols = 2 * (m.degree + n.degree) + m.repeats + n.repeats;
      const int cost = symbols + Bits(factor) + Bits(other);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = Dim(factor) * m.dim + Dim(other) * n.dim;
    }
  }
  return best;
}

}  // namespace ingot::compiler
