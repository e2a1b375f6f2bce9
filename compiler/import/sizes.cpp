// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/floored.h"
#include "compiler/import/import.h"
#include "guards/bounds.h"

namespace ingot::compiler {
namespace {

constexpr size_t kFixedMax = 32;
constexpr size_t kRemaindersMax = 32;
constexpr int64_t kRemainderModulusMax = int64_t{1} << 20;
using Kind = guards::Guard::Kind;

/// Without the symbols that every term has: none of them is 0.
Dim WithoutCommon(const Dim& dim) {
  if (dim.terms().empty()) return dim;
  std::vector<guards::Factor> common;
  std::ranges::copy_if(dim.terms().front().factors, std::back_inserter(common), &guards::Factor::is_symbol);
  for (const Dim::Term& term : dim.terms()) {
    std::vector<guards::Factor> both;
    std::ranges::set_intersection(common, term.factors, std::back_inserter(both));
    common = std::move(both);
  }
  return dim.DivideExactly(Dim::FromTerms({{1, common}})).value_or(dim);
}

/// A symbol and what it must be for `dim` to be 0.
std::optional<std::pair<uint16_t, Dim>> Solve(const Dim& dim) {
  const Dim zero = WithoutCommon(dim);
  std::optional<std::pair<uint16_t, Dim>> best;
  for (const Dim::Term& term : zero.terms()) {
    if (term.factors.size() != 1 || !term.factors[0].is_symbol() || (term.coef != 1 && term.coef != -1)) continue;
    const uint16_t symbol = term.factors[0].symbol();
    const Dim rest = zero - Dim::FromTerms({term});
    if (rest.Uses(symbol)) continue;
    // The later symbol goes, so that the first stays the name of both.
    if (!best || best->first < symbol) best = {symbol, rest * Dim(-term.coef)};
  }
  return best;
}

/// The first quotient by a number of what holds none.
std::optional<guards::Atom> InnerQuotient(const Dim& dim) {
  std::optional<guards::Atom> found;
  dim.ForEachAtom([&](const guards::Factor& factor) {
    const guards::Atom& atom = factor.atom();
    const bool is_it = atom.kind == guards::Atom::Kind::kFloorDiv && atom.b.is_const() && !atom.a.HasAtoms();
    if (is_it && !found) found = atom;
  });
  return found;
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
  remainders_.clear();
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

Dim Sizes::Involved(const Dim& dim) const {
  Dim sum;
  dim.ForEachSymbol([&](uint16_t symbol) { sum = sum + Dim::Symbol(basic_[symbol]); });
  return sum;
}

bool Sizes::Tie(const Dim& a, const Dim& b) {
  if (Seen(a) != Seen(b)) return false;
  const Dim zero = Basic(a - b);
  if (zero.is_zero() || DecideExtremes(a - b)) return true;
  // A size of its own may be a quotient of another one.
  if (const auto solved = Solve(zero)) {
    Replace(solved->first, solved->second);
  } else if (!(zero.HasAtoms() && TieRemainders(a - b)) && !changed_) {
    FixBasic(Involved(a) + Involved(b), fmt::format("{} is {}", a.ToText(), b.ToText()));
  }
  return true;
}

Dims Sizes::ByRemainders(const std::vector<Remainder>& known, bool by_sizes) const {
  Dims by, quotients;
  for (uint16_t symbol = 0; symbol < seen_.size(); ++symbol) by.push_back(Dim::Symbol(symbol));
  quotients = by;
  for (const auto& [value, modulus] : known) {
    const auto quotient = static_cast<uint16_t>(quotients.size());
    quotients.push_back(guards::MakeAtom(guards::Atom::Kind::kFloorDiv, value, Dim(modulus)));
    const Dim zero = value.Substitute(by) - Dim(FloorMod(Seen(value), modulus)) - Dim(modulus) * Dim::Symbol(quotient);
    Dims one;
    for (uint16_t s = 0; s <= quotient; ++s) one.push_back(Dim::Symbol(s));
    if (const auto solved = Solve(zero)) one[solved->first] = solved->second;
    for (Dim& dim : by) dim = dim.Substitute(one);
  }
  for (Dim& dim : by) {
    if (by_sizes) dim = dim.Substitute(quotients);
  }
  return by;
}

bool Sizes::TieRemainders(const Dim& zero) {
  if (!zero.HasAtoms()) return false;
  std::vector<Remainder> known = remainders_;
  Dim left = WithoutCommon(zero.Substitute(ByRemainders(known, false)));
  while (const auto quotient = InnerQuotient(left)) {
    const int64_t divisor = quotient->b.const_value();
    if (divisor < 1 || divisor > kRemainderModulusMax) return false;
    // Over quotients that are symbols by now, as one over sizes.
    Dims sizes;
    for (uint16_t symbol = 0; symbol < seen_.size(); ++symbol) sizes.push_back(Dim::Symbol(symbol));
    for (const auto& [value, modulus] : known)
      sizes.push_back(guards::MakeAtom(guards::Atom::Kind::kFloorDiv, value, Dim(modulus)));
    const Dim value = (quotient->a - Dim(quotient->a.constant())).Substitute(sizes);
    const auto same = std::ranges::find(known, value, &Remainder::value);
    const int64_t modulus = std::lcm(same == known.end() ? int64_t{1} : same->modulus, divisor);
    if (known.size() >= kRemaindersMax || modulus > kRemainderModulusMax || !guards::IsModest(value)) return false;
    if (same != known.end() && same->modulus == modulus) return false;
    if (same == known.end()) {
      known.push_back({value, modulus});
    } else {
      same->modulus = modulus;
    }
    left = WithoutCommon(zero.Substitute(ByRemainders(known, false)));
  }
  if (left.HasAtoms() || left.SymbolCount() > seen_.size() || Seen(left) != 0) return false;
  if (!left.is_zero() && !changed_) Tie(left, Dim());
  remainders_ = std::move(known);
  for (const auto& [value, modulus] : remainders_) Modulo(value, modulus, FloorMod(Seen(value), modulus));
  return true;
}

Dim Sizes::InQuotients(const Dim& dim) const {
  return remainders_.empty() ? dim : dim.Substitute(ByRemainders(remainders_, true));
}

Dim Sizes::Extreme(guards::Atom::Kind kind, const Dim& a, const Dim& b) {
  const Dim made = guards::MakeAtom(kind, a, b);
  bool is_decided = !guards::IsModest(made);
  Basic(made).ForEachAtom(
      [&](const guards::Factor& factor) { is_decided |= std::ranges::find(decided_, factor) != decided_.end(); });
  if (!is_decided) return made;
  const bool takes_a = (kind == guards::Atom::Kind::kMin) == (Seen(a) <= Seen(b));
  AtLeastZero((kind == guards::Atom::Kind::kMin) == takes_a ? b - a : a - b);
  return takes_a ? a : b;
}

bool Sizes::DecideExtremes(const Dim& dim) {
  bool found = false;
  Basic(dim).ForEachAtom([&](const guards::Factor& factor) {
    const bool is_known = std::ranges::find(decided_, factor) != decided_.end();
    if (factor.atom().kind == guards::Atom::Kind::kFloorDiv || is_known) return;
    decided_.push_back(factor);
    found = true;
  });
  changed_ |= found;
  return found;
}

bool Sizes::Decide(const Dim& dim) {
  const bool is_at_least = Seen(dim) >= 0;
  AtLeastZero(is_at_least ? dim : Dim(-1) - dim);
  return is_at_least;
}

void Sizes::Fix(const Dim& dim, const std::string& why) {
  // What has been tied in this walk may be what is missing: the next walk asks again.
  if (DecideExtremes(dim)) return;
  if (!dim.is_const() && !changed_) FixBasic(Involved(dim), why);
}

void Sizes::FixBasic(const Dim& basic, const std::string& why) {
  if (!basic.is_const() && fixed_.size() < kFixedMax && std::ranges::find(fixed_, why) == fixed_.end())
    fixed_.push_back(why);
  for (uint16_t i = 0; i < values_.size(); ++i) {
    if (basic.Uses(i)) Replace(i, Dim(values_[i]));
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

void Sizes::Within(const Dim& dim, int64_t most) {
  const auto seen = dim.EvalExactly(
      [this](uint16_t s) { return s < seen_.size() ? std::optional<int64_t>(seen_[s]) : std::nullopt; });
  if (!seen || *seen > most || *seen < -most) return Fix(dim, "an integer beyond 2^52");
  AtLeastZero(Dim(most) - dim);
  AtLeastZero(dim + Dim(most));
}

bool Sizes::IsNeverNegative(const Dim& dim) const {
  guards::SymbolBounds sizes;
  dim.ForEachSymbol([&](uint16_t symbol) { sizes[symbol].low = 2; });
  return guards::BoundsOf(dim, sizes).low >= 0;
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
  // What is computed of others is the size of an input too: a quotient of two may be 0 or 1.
  for (const Dim& size : numbered_) TRY(all.Add({.kind = Kind::kAtLeast, .value = size - Dim(2)}));
  if (!all.Holds(seen_)) return Error(Code::kCorrupt, "the recording contradicts what it says of its sizes");
  return all.Simplify();
}

}  // namespace ingot::compiler
