// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/floored.h"

namespace ingot::compiler {
namespace {

constexpr size_t kSymbolsMax = 64;
constexpr size_t kFixedMax = 32;
constexpr size_t kDerivedMax = 32;
using Kind = guards::Guard::Kind;

bool Uses(const Dim& dim, uint16_t symbol) {
  return std::ranges::any_of(dim.terms(), [symbol](const Dim::Term& term) {
    return std::ranges::find(term.symbols, symbol) != term.symbols.end();
  });
}

/// Without the symbols that every term has: none of them is 0.
Dim WithoutCommon(const Dim& dim) {
  if (dim.terms().empty()) return dim;
  std::vector<uint16_t> common = dim.terms().front().symbols;
  for (const Dim::Term& term : dim.terms()) {
    std::vector<uint16_t> both;
    std::ranges::set_intersection(common, term.symbols, std::back_inserter(both));
    common = std::move(both);
  }
  return dim.DivideExactly(Dim::FromTerms({{1, common}})).value_or(dim);
}

/// A symbol and what it must be for `dim` to be 0.
std::optional<std::pair<uint16_t, Dim>> Solve(const Dim& dim) {
  const Dim zero = WithoutCommon(dim);
  std::optional<std::pair<uint16_t, Dim>> best;
  for (const Dim::Term& term : zero.terms()) {
    if (term.symbols.size() != 1 || (term.coef != 1 && term.coef != -1)) continue;
    const Dim rest = zero - Dim::FromTerms({term});
    if (Uses(rest, term.symbols[0])) continue;
    // The later symbol goes, so that the first stays the name of both.
    if (!best || best->first < term.symbols[0]) best = {term.symbols[0], rest * Dim(-term.coef)};
  }
  return best;
}

}  // namespace

Sizes::Sizes(std::vector<int64_t> values) : given_(std::move(values)), symbol_of_(given_.size()) {
  for (size_t place = 0; place < given_.size(); ++place) {
    if (given_[place] < 2) continue;
    const auto known = std::ranges::find(values_, given_[place]);
    if (known == values_.end() && values_.size() == kSymbolsMax) continue;
    symbol_of_[place] = static_cast<uint16_t>(known - values_.begin());
    if (known != values_.end()) continue;
    values_.push_back(given_[place]);
    now_.push_back(Dim::Symbol(*symbol_of_[place]));
  }
  BeginWalk();
}

/// Gives each size of a symbol that stands for several one of its own; false where there is one, or too many.
bool Sizes::Split(uint16_t symbol) {
  std::vector<size_t> places;
  for (size_t place = 0; place < symbol_of_.size(); ++place) {
    if (symbol_of_[place] == symbol) places.push_back(place);
  }
  if (places.size() < 2 || now_[symbol] != Dim::Symbol(symbol) || values_.size() + places.size() > kSymbolsMax)
    return false;
  for (size_t i = 1; i < places.size(); ++i) {
    symbol_of_[places[i]] = static_cast<uint16_t>(values_.size());
    now_.push_back(Dim::Symbol(static_cast<uint16_t>(values_.size())));
    values_.push_back(values_[symbol]);
  }
  return true;
}

void Sizes::BeginWalk() {
  changed_ = false;
  conditions_ = {};
  basic_.clear();
  seen_.clear();
  derived_.clear();
  Dims numbers;
  for (uint16_t i = 0; i < values_.size(); ++i) {
    const bool stays = now_[i] == Dim::Symbol(i);
    numbers.push_back(stays ? Dim::Symbol(static_cast<uint16_t>(basic_.size())) : Dim());
    if (!stays) continue;
    basic_.push_back(i);
    seen_.push_back(values_[i]);
  }
  numbered_.clear();
  for (const Dim& dim : now_) numbered_.push_back(dim.Substitute(numbers));
}

Dim Sizes::Of(size_t place) const { return symbol_of_[place] ? numbered_[*symbol_of_[place]] : Dim(given_[place]); }

Dim Sizes::Basic(const Dim& dim) const {
  Dims symbols;
  for (const uint16_t symbol : basic_) symbols.push_back(Dim::Symbol(symbol));
  return dim.Substitute(symbols).Substitute(now_);
}

void Sizes::Replace(uint16_t symbol, const Dim& by) {
  changed_ = true;
  if (by.is_const() && Split(symbol)) return;
  Dims all;
  for (uint16_t i = 0; i < values_.size(); ++i) all.push_back(i == symbol ? by : Dim::Symbol(i));
  for (Dim& dim : now_) dim = dim.Substitute(all);
}

bool Sizes::UsesDerived(const Dim& dim) const {
  return std::ranges::any_of(dim.terms(), [this](const Dim::Term& term) {
    return std::ranges::any_of(term.symbols, [this](uint16_t symbol) { return symbol >= basic_.size(); });
  });
}

Dim Sizes::Involved(const Dim& dim) const {
  Dim sum;
  for (const Dim::Term& term : dim.terms()) {
    for (const uint16_t symbol : term.symbols) {
      if (symbol < basic_.size()) {
        sum = sum + Dim::Symbol(basic_[symbol]);
      } else {
        const Derived& derived = derived_[symbol - basic_.size()];
        sum = sum + Involved(derived.a) + Involved(derived.b);
      }
    }
  }
  return sum;
}

std::optional<Dim> Sizes::Quotient(const Dim& a, const Dim& b) {
  const int64_t x = Seen(a), y = Seen(b);
  if (y < 1 || !AtLeastZero(b - Dim(1))) return std::nullopt;
  // Whoever calls makes a tensor of that size, so the quotient of what is below zero is said by one that is not.
  if (x < 0) {
    if (!AtLeastZero(Dim() - a - Dim(1))) return std::nullopt;
    const auto rounded_up = Quotient(b - Dim(1) - a, b);
    return rounded_up ? std::optional(Dim() - *rounded_up) : std::nullopt;
  }
  AtLeastZero(a);
  for (size_t i = 0; i < derived_.size(); ++i) {
    if (derived_[i].a == a && derived_[i].b == b) return Dim::Symbol(static_cast<uint16_t>(basic_.size() + i));
  }
  if (derived_.size() >= kDerivedMax) return std::nullopt;
  derived_.push_back({a, b, false});
  seen_.push_back(FloorDiv(x, y));
  const Dim symbol = Dim::Symbol(static_cast<uint16_t>(seen_.size() - 1));
  // What whoever asks about the symbol may know of it; it always holds.
  AtLeastZero(a - b * symbol);
  AtLeastZero(b * symbol + b - Dim(1) - a);
  return symbol;
}

bool Sizes::Tie(const Dim& a, const Dim& b) {
  if (Seen(a) != Seen(b)) return false;
  if (UsesDerived(a) || UsesDerived(b)) {
    if (!TieRemainders(a - b) && !changed_)
      FixBasic(Involved(a) + Involved(b), fmt::format("{} is {}, a quotient of sizes", a.ToText(), b.ToText()));
    return true;
  }
  const Dim zero = Basic(a - b);
  if (zero.is_zero()) return true;
  if (const auto solved = Solve(zero)) {
    Replace(solved->first, solved->second);
  } else if (!changed_) {
    FixBasic(zero, fmt::format("{} is {}", a.ToText(), b.ToText()));
  }
  return true;
}

Dims Sizes::ByRemainders(const std::vector<bool>& known) const {
  Dims by;
  for (uint16_t symbol = 0; symbol < seen_.size(); ++symbol) by.push_back(Dim::Symbol(symbol));
  for (size_t i = 0; i < derived_.size(); ++i) {
    if (!known[i]) continue;
    const auto& [a, b, is_known] = derived_[i];
    const auto quotient = static_cast<uint16_t>(basic_.size() + i);
    const Dim dividend = (a - Dim(FloorMod(Seen(a), b.const_value()))).Substitute(by);
    // A quotient of what others say already, or the dividend is said by the quotient.
    const auto whole = dividend.DivideExactly(b);
    const Dim rest = dividend - b * Dim::Symbol(quotient);
    const auto solved = whole ? std::optional(std::pair(quotient, *whole)) : Solve(rest);
    if (!solved) continue;
    Dims one;
    for (uint16_t s = 0; s < seen_.size(); ++s) one.push_back(s == solved->first ? solved->second : Dim::Symbol(s));
    for (Dim& dim : by) dim = dim.Substitute(one);
  }
  return by;
}

bool Sizes::TieRemainders(const Dim& zero) {
  if (!UsesDerived(zero)) return false;
  // What all of it is a multiple of need not be looked at.
  const auto left_by = [&](const std::vector<bool>& known) {
    return WithoutCommon(zero.Substitute(ByRemainders(known)));
  };
  std::vector<bool> known(derived_.size(), false);
  Dim left = left_by(known);
  for (size_t i = 0; i < derived_.size() && UsesDerived(left); ++i) {
    known[i] = derived_[i].b.is_const();
    left = left_by(known);
  }
  if (UsesDerived(left) || Seen(left) != 0) return false;
  for (size_t i = 0; i < derived_.size(); ++i) {
    if (!known[i]) continue;
    known[i] = false;
    if (left_by(known) == left) continue;
    known[i] = true;
  }
  if (!left.is_zero() && !changed_) Tie(left, Dim());
  for (size_t i = 0; i < derived_.size(); ++i) {
    if (!known[i]) continue;
    auto& [a, b, is_known] = derived_[i];
    is_known = true;
    Modulo(a, b.const_value(), FloorMod(Seen(a), b.const_value()));
  }
  return true;
}

Dim Sizes::InQuotients(const Dim& dim) const {
  std::vector<bool> known;
  for (const Derived& derived : derived_) known.push_back(derived.remainder_is_known);
  if (std::ranges::find(known, true) == known.end()) return dim;
  return dim.Substitute(ByRemainders(known));
}

bool Sizes::Decide(const Dim& dim) {
  const bool is_at_least = Seen(dim) >= 0;
  AtLeastZero(is_at_least ? dim : Dim(-1) - dim);
  return is_at_least;
}

void Sizes::Fix(const Dim& dim, const std::string& why) {
  // What has been tied in this walk may be what is missing: the next walk asks again.
  if (!dim.is_const() && !changed_) FixBasic(Involved(dim), why);
}

void Sizes::FixBasic(const Dim& basic, const std::string& why) {
  if (!basic.is_const() && fixed_.size() < kFixedMax && std::ranges::find(fixed_, why) == fixed_.end())
    fixed_.push_back(why);
  for (uint16_t i = 0; i < values_.size(); ++i) {
    if (Uses(basic, i)) Replace(i, Dim(values_[i]));
  }
}

void Sizes::FixAll(const std::string& why) {
  if (changed_) return;
  for (const Dim& dim : Dims(now_)) FixBasic(dim, why);
}

bool Sizes::AtLeastZero(const Dim& dim) {
  const bool holds = Seen(dim) >= 0;
  if (!dim.is_const() && holds && !conditions_.Add({.kind = Kind::kAtLeast, .value = dim}))
    Fix(dim, "a number beyond all sizes");
  return holds;
}

bool Sizes::NotEqual(const Dim& a, const Dim& b) {
  const Dim zero = a - b;
  if (!zero.is_const() && !conditions_.Add({.kind = Kind::kNotEqual, .value = zero}))
    Fix(zero, "a number beyond all sizes");
  return Seen(zero) != 0;
}

void Sizes::Modulo(const Dim& dim, int64_t modulus, int64_t remainder) {
  if (!conditions_.Add({.kind = Kind::kModulo, .value = dim, .modulus = modulus, .remainder = remainder}))
    Fix(dim, "a number beyond all sizes");
}

Result<guards::GuardSet> Sizes::Conditions() const {
  guards::GuardSet all = conditions_;
  for (uint16_t i = 0; i < basic_.size(); ++i) {
    TRY(all.Add({.kind = Kind::kAtLeast, .value = Dim::Symbol(i) - Dim(2)}));
  }
  if (!all.Holds(seen_)) return Error(Code::kCorrupt, "the recording contradicts what it says of its sizes");
  return all.Simplify();
}

}  // namespace ingot::compiler
