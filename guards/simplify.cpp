// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>

#include "guards/bounds.h"
#include "guards/guard_set.h"
#include "guards/normalize.h"

namespace ingot::guards {
namespace {

using GuardKind = Guard::Kind;
constexpr int kRoundsMax = 16;
/// Terms that are multiplied or added while equalities are put in: polynomials that grow into each other stay as they
/// are.
constexpr int64_t kTermsTriedMax = int64_t{1} << 19;

/// The one variable of `v + c` or `-v + c`.
std::optional<uint16_t> LoneVariable(const Dim& value) {
  const auto& terms = value.terms();
  if (terms.empty() || terms.size() > 2 || terms[0].factors.size() != 1) return std::nullopt;
  if (terms.size() == 2 && !terms[1].factors.empty()) return std::nullopt;
  if (!terms[0].factors[0].is_symbol() || (terms[0].coef != 1 && terms[0].coef != -1)) return std::nullopt;
  return terms[0].factors[0].symbol();
}

/// A variable that an equality gives as a polynomial of the others: v == expression.
std::optional<std::pair<uint16_t, Dim>> Solve(const Dim& value) {
  std::optional<std::pair<uint16_t, Dim>> found;
  for (const Dim::Term& term : value.terms()) {
    if (term.factors.size() != 1 || !term.factors[0].is_symbol() || (term.coef != 1 && term.coef != -1)) continue;
    const uint16_t variable = term.factors[0].symbol();
    const Dim rest = value - Dim::FromTerms({term});
    if (rest.Uses(variable) || (found && found->first > variable)) continue;
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
      TRY(DecideAtoms());
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
    bool usable = true;
    guard.value.ForEachSymbol([&](uint16_t v) {
      usable &=
          v < Guard::kFirstProperty || set_.properties_[v - Guard::kFirstProperty].kind != Property::Kind::kStride;
    });
    return usable;
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
      if (guards_[from].kind != GuardKind::kEqual || !IsUsable(guards_[from]) || work_ < 0) continue;
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
    if (!guard.value.Uses(variable)) return guard;
    const auto replaced = Replaced(guard.value, [&](uint16_t v) { return v == variable ? by : Dim::Symbol(v); }, work_);
    if (replaced) guard.value = *replaced;
    return guard;
  }

  Status MergeRemainders() {
    for (size_t i = 0; i < guards_.size(); ++i) {
      if (guards_[i].kind != GuardKind::kModulo || !IsUsable(guards_[i])) continue;
      const Guard a = guards_[i];
      for (size_t j = 0; j < guards_.size();) {
        const Guard& b = guards_[j];
        const bool other = b.kind == GuardKind::kModulo || b.kind == GuardKind::kNotModulo;
        if (i == j || !other || b.value != a.value) {
          ++j;
          continue;
        }
        const int64_t common = std::gcd(a.modulus, b.modulus);
        const bool meets = (a.remainder - b.remainder) % common == 0;
        if (b.kind == GuardKind::kModulo && !meets) return Contradict(a, b);
        const bool finer = a.modulus % b.modulus == 0;
        if (b.kind == GuardKind::kNotModulo && meets && finer) return Contradict(a, b);
        const bool implied = b.kind == GuardKind::kModulo ? finer : !meets;
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
      if (guards_[i].kind != GuardKind::kAtLeast || !IsUsable(guards_[i])) continue;
      for (size_t j = i + 1; j < guards_.size();) {
        if (guards_[j].kind != GuardKind::kAtLeast) {
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
          guards_[i].kind = GuardKind::kEqual;
          if (guards_[i].value.terms().front().coef < 0) guards_[i].value = guards_[i].value * Dim(-1);
        } else {
          ++j;
          continue;
        }
        guards_.erase(guards_.begin() + static_cast<long>(j));
        if (guards_[i].kind == GuardKind::kEqual) break;
      }
    }
    return {};
  }

  void ReadRanges() {
    ranges_.clear();
    for (const Guard& guard : guards_) {
      if (guard.kind != GuardKind::kAtLeast || !IsUsable(guard)) continue;
      const auto variable = LoneVariable(guard.value);
      if (!variable) continue;
      Bounds& range = ranges_[*variable];
      if (guard.value.terms()[0].coef > 0) {
        range.low = std::max(range.low, -guard.value.constant());
      } else {
        range.high = std::min(range.high, guard.value.constant());
      }
    }
  }

  /// s0 >= 3 and s0 % 8 == 0: s0 >= 8.
  Status TightenByRemainders() {
    for (size_t i = 0; i < guards_.size(); ++i) {
      const Guard& bound = guards_[i];
      const auto variable =
          bound.kind == GuardKind::kAtLeast && IsUsable(bound) ? LoneVariable(bound.value) : std::nullopt;
      if (!variable) continue;
      for (const Guard& rest : guards_) {
        if (rest.kind != GuardKind::kModulo || rest.value != Dim::Symbol(*variable)) continue;
        const bool is_low = bound.value.terms()[0].coef > 0;
        const int64_t at = is_low ? -bound.value.constant() : bound.value.constant();
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

  /// Quotients, minima and maxima that the bounds of their variables decide.
  Status DecideAtoms() {
    ReadRanges();
    for (size_t i = 0; i < guards_.size();) {
      bool stays = true;
      if (IsUsable(guards_[i]) && guards_[i].value.HasAtoms()) {
        Guard decided = guards_[i];
        decided.value = Decided(decided.value, ranges_);
        TRY_ASSIGN(stays, Replace(i, std::move(decided)));
      }
      i += stays ? 1 : 0;
    }
    return {};
  }

  /// Guards that the bounds of their variables decide.
  Status DropImplied() {
    ReadRanges();
    for (size_t i = 0; i < guards_.size();) {
      const Guard& guard = guards_[i];
      const bool defines = guard.kind == GuardKind::kAtLeast && LoneVariable(guard.value).has_value();
      if (!IsUsable(guard) || defines || guard.kind > GuardKind::kAtLeast) {
        ++i;
        continue;
      }
      const Bounds range = BoundsOf(guard.value, ranges_);
      const bool without_zero = range.low > 0 || range.high < 0;
      const bool never =
          guard.kind == GuardKind::kAtLeast ? range.high < 0 : guard.kind == GuardKind::kEqual && without_zero;
      if (never) return Impossible(guard);
      const bool always =
          guard.kind == GuardKind::kAtLeast ? range.low >= 0 : guard.kind == GuardKind::kNotEqual && without_zero;
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
  SymbolBounds ranges_;
  int64_t work_ = kTermsTriedMax;
};

Result<GuardSet> GuardSet::Simplify() const { return Simplifier(*this).Run(); }

}  // namespace ingot::guards
