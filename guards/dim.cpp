// SPDX-License-Identifier: Apache-2.0
#include "guards/dim.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/floored.h"

namespace ingot::guards {
namespace {

// Polynomials meet wrap-around only in graphs that are refused later; unsigned keeps it defined.
int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// a / b where nothing remains and it is a 64-bit number; b is not 0.
std::optional<int64_t> DivideWhole(int64_t a, int64_t b) {
  // The smallest integer by -1 traps in hardware.
  if ((b == -1 && a == INT64_MIN) || a % b != 0) return std::nullopt;
  return a / b;
}

/// a - term * by, for one term, where no number leaves 64 bits.
std::optional<Dim> LessExactly(const Dim& a, const Dim& term, const Dim& by) {
  for (const Dim::Term& one : by.terms()) {
    int64_t coef = 0;
    if (__builtin_mul_overflow(one.coef, term.terms().front().coef, &coef)) return std::nullopt;
  }
  const Dim product = term * by;
  for (const Dim::Term& one : product.terms()) {
    const auto at = std::ranges::find(a.terms(), one.factors, &Dim::Term::factors);
    int64_t left = 0;
    if (__builtin_sub_overflow(at == a.terms().end() ? 0 : at->coef, one.coef, &left)) return std::nullopt;
  }
  return a - product;
}

// Terms of higher degree first, then by symbol; the constant comes last.
bool ComesBefore(const Dim::Term& a, const Dim::Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return a.factors < b.factors;
}

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_.push_back({value, {}});
}

Dim Dim::Symbol(uint16_t index) { return FromTerms({{1, {index}}}); }

Dim Dim::FromTerms(std::vector<Term> terms) {
  for (Term& term : terms) std::sort(term.factors.begin(), term.factors.end());
  std::sort(terms.begin(), terms.end(), ComesBefore);
  Dim dim;
  for (Term& term : terms) {
    if (!dim.terms_.empty() && dim.terms_.back().factors == term.factors) {
      dim.terms_.back().coef = WrapAdd(dim.terms_.back().coef, term.coef);
    } else {
      if (!dim.terms_.empty() && dim.terms_.back().coef == 0) dim.terms_.pop_back();
      dim.terms_.push_back(std::move(term));
    }
  }
  if (!dim.terms_.empty() && dim.terms_.back().coef == 0) dim.terms_.pop_back();
  return dim;
}

Dim Dim::Of(Factor factor) { return FromTerms({{1, {std::move(factor)}}}); }

int64_t Factor::Eval(std::span<const int64_t> symbols) const {
  if (is_symbol()) return symbol_ < symbols.size() ? symbols[symbol_] : 0;
  const int64_t a = atom_->a.Eval(symbols), b = atom_->b.Eval(symbols);
  if (atom_->kind == Atom::Kind::kFloorDiv) return b == 0 ? 0 : FloorDiv(a, b);
  return atom_->kind == Atom::Kind::kMin ? std::min(a, b) : std::max(a, b);
}

int64_t Dim::Eval(std::span<const int64_t> symbols) const {
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.coef;
    for (const Factor& factor : term.factors) product = WrapMul(product, factor.Eval(symbols));
    sum = WrapAdd(sum, product);
  }
  return sum;
}

Dim Dim::Substitute(std::span<const Dim> by) const {
  return Replace([&](const Factor& factor) {
    if (!factor.is_symbol()) {
      return MakeAtom(factor.atom().kind, factor.atom().a.Substitute(by), factor.atom().b.Substitute(by));
    }
    return factor.symbol() < by.size() ? by[factor.symbol()] : Of(factor);
  });
}

bool Dim::HasAtoms() const {
  return std::ranges::any_of(terms_, [](const Term& t) { return !t.factors.empty() && !t.factors.back().is_symbol(); });
}

bool Dim::IsPlainlyNotNegative() const {
  const auto is_plain = [](const Factor& factor) {
    if (factor.is_symbol()) return true;
    const Atom& atom = factor.atom();
    const bool a = atom.a.IsPlainlyNotNegative(), b = atom.b.IsPlainlyNotNegative();
    return atom.kind == Atom::Kind::kMax ? a || b : a && b;
  };
  return std::ranges::all_of(
      terms_, [&](const Term& term) { return term.coef >= 0 && std::ranges::all_of(term.factors, is_plain); });
}

bool Dim::Uses(uint16_t symbol) const {
  bool uses = false;
  ForEachSymbol([&](uint16_t one) { uses |= one == symbol; });
  return uses;
}

uint16_t Dim::SymbolCount() const {
  uint16_t count = 0;
  ForEachSymbol([&](uint16_t symbol) { count = std::max<uint16_t>(count, symbol + 1); });
  return count;
}

std::optional<Dim> Dim::DivideExactly(const Dim& divisor) const {
  if (divisor.is_zero()) return std::nullopt;
  // Long division by the leading term; each step removes the leading term of the rest.
  const Term& lead = divisor.terms_.front();
  Dim rest = *this;
  Dim quotient;
  for (size_t step = 0; !rest.is_zero(); ++step) {
    const Term& top = rest.terms_.front();
    const std::optional<int64_t> coef = DivideWhole(top.coef, lead.coef);
    if (step > 64 || !coef) return std::nullopt;
    if (!std::includes(top.factors.begin(), top.factors.end(), lead.factors.begin(), lead.factors.end())) {
      return std::nullopt;
    }
    Term term{*coef, {}};
    std::set_difference(top.factors.begin(), top.factors.end(), lead.factors.begin(), lead.factors.end(),
                        std::back_inserter(term.factors));
    const Dim factor = FromTerms({std::move(term)});
    quotient = quotient + factor;
    std::optional<Dim> left = LessExactly(rest, factor, divisor);
    if (!left) return std::nullopt;
    rest = *std::move(left);
  }
  return quotient;
}

Dim Dim::operator+(const Dim& other) const {
  if (is_const() && other.is_const()) return Dim(WrapAdd(const_value(), other.const_value()));
  std::vector<Term> terms = terms_;
  terms.insert(terms.end(), other.terms_.begin(), other.terms_.end());
  return FromTerms(std::move(terms));
}

Dim Dim::operator-(const Dim& other) const { return *this + other * Dim(-1); }

Dim Dim::operator*(const Dim& other) const {
  if (is_const() && other.is_const()) return Dim(WrapMul(const_value(), other.const_value()));
  std::vector<Term> terms;
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
      Term product{WrapMul(a.coef, b.coef), a.factors};
      product.factors.insert(product.factors.end(), b.factors.begin(), b.factors.end());
      terms.push_back(std::move(product));
    }
  }
  return FromTerms(std::move(terms));
}

Dim Product(std::span<const Dim> dims) {
  Dim product(1);
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

Dims ContiguousStrides(std::span<const Dim> sizes) {
  Dims strides(sizes.size());
  Dim stride(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!sizes[i].is_zero()) stride = stride * sizes[i];
  }
  return strides;
}

Dims NestedStrides(std::span<const Dim> sizes, std::span<const Dim> like_sizes, std::span<const Dim> like_strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, {}, [&](size_t i) { return std::pair(like_strides[i].const_value(), like_sizes[i].const_value()); });
  Dims strides(sizes.size());
  Dim stride(1);
  for (const size_t i : order) {
    strides[i] = stride;
    stride = stride * sizes[i];
  }
  return strides;
}

}  // namespace ingot::guards
