// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "guards/guard_set.h"
#include "guards/normalize.h"

namespace ingot::guards {
namespace {

using Kind = Guard::Kind;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int kRoundsMax = 16;
/// Terms that are multiplied or added while equalities are put in: polynomials that grow into each other stay as they
/// are.
constexpr int64_t kWorkMax = int64_t{1} << 19;

/// Bounds of a number, inclusive; kMin and kMax: none is known.
struct Range {
  int64_t low = kMin;
  int64_t high = kMax;
};

/// A bound that is unknown, or that leaves 64 bits, stays unknown.
int64_t Clamp(__int128 value) { return value <= kMin ? kMin : value >= kMax ? kMax : static_cast<int64_t>(value); }

Range Product(const Range& a, const Range& b) {
  // Nothing is known of a product with an unknown side, whatever its sign.
  if (a.low == kMin || a.high == kMax || b.low == kMin || b.high == kMax) {
    if (a.low >= 0 && b.low >= 0) {
      const bool bounded = a.high != kMax && b.high != kMax;
      const int64_t high = bounded ? Clamp(static_cast<__int128>(a.high) * b.high) : kMax;
      return {Clamp(static_cast<__int128>(a.low) * b.low), high};
    }
    return {};
  }
  const __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                              static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {Clamp(*std::min_element(corners, corners + 4)), Clamp(*std::max_element(corners, corners + 4))};
}

Range Scaled(const Range& range, int64_t by) {
  const Range turned = by < 0 ? Range{range.high, range.low} : range;
  const auto scale = [&](int64_t bound, int64_t unknown) {
    return bound == kMin || bound == kMax ? unknown : Clamp(static_cast<__int128>(bound) * by);
  };
  return {scale(turned.low, kMin), scale(turned.high, kMax)};
}

int64_t ConstantOf(const Dim& value) {
  return !value.is_zero() && value.terms().back().symbols.empty() ? value.terms().back().coef : 0;
}

/// The one variable of `v + c` or `-v + c`.
std::optional<uint16_t> LoneVariable(const Dim& value) {
  const auto& terms = value.terms();
  if (terms.empty() || terms.size() > 2 || terms[0].symbols.size() != 1) return std::nullopt;
  if (terms.size() == 2 && !terms[1].symbols.empty()) return std::nullopt;
  if (terms[0].coef != 1 && terms[0].coef != -1) return std::nullopt;
  return terms[0].symbols[0];
}

/// A variable that an equality gives as a polynomial of the others: v == expression.
std::optional<std::pair<uint16_t, Dim>> Solve(const Dim& value) {
  std::optional<std::pair<uint16_t, Dim>> found;
  for (const Dim::Term& term : value.terms()) {
    if (term.symbols.size() != 1 || (term.coef != 1 && term.coef != -1)) continue;
    const uint16_t variable = term.symbols[0];
    const auto uses = std::ranges::count_if(
        value.terms(), [&](const Dim::Term& t) { return std::ranges::find(t.symbols, variable) != t.symbols.end(); });
    if (uses != 1 || (found && found->first > variable)) continue;
    const Dim rest = value - Dim::FromTerms({term});
    found = {variable, term.coef == 1 ? rest * Dim(-1) : rest};
  }
  return found;
}

}  // namespace

/// Rounds of rewriting over a copy of the guards until nothing changes.
class Simplifier {
 public:
  explicit Simplifier(const GuardSet& set) : set_(set), guards_(set.guards_) {}

  Result<GuardSet> Run() {
    for (int round = 0; round < kRoundsMax; ++round) {
      const std::vector<Guard> before = guards_;
      TRY(SubstituteEqualities());
      TRY(MergeRemainders());
      TRY(MergeBounds());
      ReadRanges();
      TRY(TightenByRemainders());
      TRY(DropImplied());
      if (guards_ == before) break;
    }
    GuardSet out = set_;
    out.guards_ = guards_;
    return out;
  }

 private:
  Error Contradict(const Guard& a, const Guard& b) const {
    return Error(Code::kInvalid, "guards contradict: " + set_.ToText(a) + " and " + set_.ToText(b));
  }
  Error Impossible(const Guard& guard) const {
    return Error(Code::kInvalid, "guards contradict: " + set_.ToText(guard) + " and the others");
  }

  /// Strides sometimes say nothing (guard.h): such guards prove nothing either.
  bool IsUsable(const Guard& guard) const {
    if (!guard.IsNumeric()) return false;
    for (const Dim::Term& term : guard.value.terms()) {
      for (const uint16_t v : term.symbols) {
        if (v >= Guard::kFirstProperty && set_.properties_[v - Guard::kFirstProperty].kind == Property::Kind::kStride) {
          return false;
        }
      }
    }
    return true;
  }

  /// Puts `guard`, normalised, in place i; an always true one goes. False when it went.
  Result<bool> Replace(size_t i, Guard guard) {
    const Guard before = guards_[i];
    auto normal = Normalize(std::move(guard));
    if (!normal) return true;  // Too large to rewrite: it stays as it was.
    if (normal->has_value() && IsNever(**normal)) return Impossible(before);
    const auto is_there = [&] { return std::ranges::find(guards_, **normal) != guards_.end(); };
    if (!normal->has_value() || (**normal != before && is_there())) {
      guards_.erase(guards_.begin() + static_cast<long>(i));
      return false;
    }
    guards_[i] = std::move(**normal);
    return true;
  }

  Status SubstituteEqualities() {
    std::vector<Guard> done;  // What stands there twice is found at the first place again.
    for (size_t from = 0; from < guards_.size(); ++from) {
      if (IsNever(guards_[from])) return Impossible(guards_[from]);
      if (std::ranges::find(done, guards_[from]) != done.end()) continue;
      if (guards_[from].kind != Kind::kEqual || !IsUsable(guards_[from]) || work_ > kWorkMax) continue;
      const Guard equality = guards_[from];
      const auto solved = Solve(equality.value);
      if (!solved) continue;
      done.push_back(equality);
      for (size_t i = 0; i < guards_.size();) {
        if (guards_[i] == equality || !IsUsable(guards_[i])) {
          ++i;
          continue;
        }
        TRY_ASSIGN(const bool stays, Replace(i, WithVariable(guards_[i], solved->first, solved->second)));
        i += stays ? 1 : 0;
      }
      from = static_cast<size_t>(std::ranges::find(guards_, equality) - guards_.begin());
    }
    return {};
  }

  Guard WithVariable(Guard guard, uint16_t variable, const Dim& by) {
    const auto is_there = [variable](const Dim::Term& term) {
      return std::ranges::find(term.symbols, variable) != term.symbols.end();
    };
    if (std::ranges::none_of(guard.value.terms(), is_there)) return guard;
    Dim sum;
    for (const Dim::Term& term : guard.value.terms()) {
      Dim product(term.coef);
      for (const uint16_t v : term.symbols) {
        const Dim factor = v == variable ? by : Dim::Symbol(v);
        work_ += static_cast<int64_t>(product.terms().size() * factor.terms().size());
        const Result<Dim> next = Multiply(product, factor);
        if (!next || work_ > kWorkMax) return guard;
        product = *next;
      }
      work_ += static_cast<int64_t>(sum.terms().size() + product.terms().size());
      const Result<Dim> next = Sum(sum, product);
      if (!next) return guard;
      sum = *next;
    }
    guard.value = std::move(sum);
    return guard;
  }

  Status MergeRemainders() {
    for (size_t i = 0; i < guards_.size(); ++i) {
      if (guards_[i].kind != Kind::kModulo || !IsUsable(guards_[i])) continue;
      const Guard a = guards_[i];
      for (size_t j = 0; j < guards_.size();) {
        const Guard& b = guards_[j];
        const bool other = b.kind == Kind::kModulo || b.kind == Kind::kNotModulo;
        if (i == j || !other || b.value != a.value) {
          ++j;
          continue;
        }
        const int64_t common = std::gcd(a.modulus, b.modulus);
        const bool meets = (a.remainder - b.remainder) % common == 0;
        if (b.kind == Kind::kModulo && !meets) return Contradict(a, b);
        const bool finer = a.modulus % b.modulus == 0;
        if (b.kind == Kind::kNotModulo && meets && finer) return Contradict(a, b);
        const bool implied = b.kind == Kind::kModulo ? finer : !meets;
        if (!implied) {
          ++j;
          continue;
        }
        guards_.erase(guards_.begin() + static_cast<long>(j));
        if (j < i) --i;
      }
    }
    return {};
  }

  /// Of bounds on one polynomial the tightest stays; two that meet are an equality.
  Status MergeBounds() {
    for (size_t i = 0; i < guards_.size(); ++i) {
      if (guards_[i].kind != Kind::kAtLeast || !IsUsable(guards_[i])) continue;
      for (size_t j = i + 1; j < guards_.size();) {
        if (guards_[j].kind != Kind::kAtLeast) {
          ++j;
          continue;
        }
        const Dim gap = guards_[i].value - guards_[j].value;
        const Dim width = guards_[i].value + guards_[j].value;
        if (gap.is_const()) {
          if (gap.const_value() > 0) guards_[i] = guards_[j];
        } else if (width.is_const()) {
          if (width.const_value() < 0) return Contradict(guards_[i], guards_[j]);
          if (width.const_value() > 0) {
            ++j;
            continue;
          }
          guards_[i].kind = Kind::kEqual;
          if (guards_[i].value.terms().front().coef < 0) guards_[i].value = guards_[i].value * Dim(-1);
        } else {
          ++j;
          continue;
        }
        guards_.erase(guards_.begin() + static_cast<long>(j));
        if (guards_[i].kind == Kind::kEqual) break;
      }
    }
    return {};
  }

  void ReadRanges() {
    ranges_.clear();
    for (const Guard& guard : guards_) {
      if (guard.kind != Kind::kAtLeast || !IsUsable(guard)) continue;
      const auto variable = LoneVariable(guard.value);
      if (!variable) continue;
      Range& range = ranges_[*variable];
      if (guard.value.terms()[0].coef > 0) {
        range.low = std::max(range.low, -ConstantOf(guard.value));
      } else {
        range.high = std::min(range.high, ConstantOf(guard.value));
      }
    }
  }

  /// s0 >= 3 and s0 % 8 == 0: s0 >= 8.
  Status TightenByRemainders() {
    for (size_t i = 0; i < guards_.size(); ++i) {
      const Guard& bound = guards_[i];
      const auto variable = bound.kind == Kind::kAtLeast && IsUsable(bound) ? LoneVariable(bound.value) : std::nullopt;
      if (!variable) continue;
      for (const Guard& rest : guards_) {
        if (rest.kind != Kind::kModulo || rest.value != Dim::Symbol(*variable)) continue;
        const bool is_low = bound.value.terms()[0].coef > 0;
        const int64_t at = is_low ? -ConstantOf(bound.value) : ConstantOf(bound.value);
        const int64_t over = ((at - rest.remainder) % rest.modulus + rest.modulus) % rest.modulus;
        if (over == 0) continue;
        const int64_t to = is_low ? at + (rest.modulus - over) : at - over;
        Guard tight = bound;
        tight.value = is_low ? Dim::Symbol(*variable) - Dim(to) : Dim(to) - Dim::Symbol(*variable);
        TRY_ASSIGN(const bool stays, Replace(i, std::move(tight)));
        if (!stays) --i;
        break;
      }
    }
    return MergeBounds();
  }

  Range RangeOf(const Dim& value) const {
    Range sum{0, 0};
    for (const Dim::Term& term : value.terms()) {
      Range product{1, 1};
      for (const uint16_t v : term.symbols) {
        const auto known = ranges_.find(v);
        product = Product(product, known == ranges_.end() ? Range() : known->second);
      }
      product = Scaled(product, term.coef);
      const bool is_low = sum.low != kMin && product.low != kMin, is_high = sum.high != kMax && product.high != kMax;
      sum.low = is_low ? Clamp(static_cast<__int128>(sum.low) + product.low) : kMin;
      sum.high = is_high ? Clamp(static_cast<__int128>(sum.high) + product.high) : kMax;
    }
    return sum;
  }

  /// Guards that the bounds of their variables decide.
  Status DropImplied() {
    ReadRanges();
    for (size_t i = 0; i < guards_.size();) {
      const Guard& guard = guards_[i];
      const bool defines = guard.kind == Kind::kAtLeast && LoneVariable(guard.value).has_value();
      if (!IsUsable(guard) || defines || guard.kind > Kind::kAtLeast) {
        ++i;
        continue;
      }
      const Range range = RangeOf(guard.value);
      const bool without_zero = range.low > 0 || range.high < 0;
      const bool never = guard.kind == Kind::kAtLeast ? range.high < 0 : guard.kind == Kind::kEqual && without_zero;
      if (never) return Impossible(guard);
      const bool always = guard.kind == Kind::kAtLeast ? range.low >= 0 : guard.kind == Kind::kNotEqual && without_zero;
      if (always) {
        guards_.erase(guards_.begin() + static_cast<long>(i));
      } else {
        ++i;
      }
    }
    return {};
  }

  const GuardSet& set_;
  std::vector<Guard> guards_;
  std::map<uint16_t, Range> ranges_;
  int64_t work_ = 0;
};

Result<GuardSet> GuardSet::Simplify() const { return Simplifier(*this).Run(); }

}  // namespace ingot::guards
