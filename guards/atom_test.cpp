// SPDX-License-Identifier: Apache-2.0
#include "guards/atom.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "guards/bounds.h"
#include "guards/guard_set.h"

namespace ingot::guards {
namespace {

Dim S(uint16_t index) { return Dim::Symbol(index); }
Dim Of(std::string_view text) { return *Dim::Parse(text); }

/// A random computation, by Dim and by plain integers of 128 bits.
struct Computed {
  Dim dim;
  std::optional<__int128> value;  ///< none where a divisor was 0
};

__int128 FloorDiv128(__int128 x, __int128 y) {
  const __int128 quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

Computed Compute(std::mt19937& random, const std::vector<int64_t>& symbols, int depth) {
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<uint32_t>(count)); };
  if (depth == 0 || pick(5) == 0) {
    if (pick(3) == 0) {
      const int64_t number = pick(41) - 12;
      return {Dim(number), number};
    }
    const auto symbol = static_cast<uint16_t>(pick(static_cast<int>(symbols.size())));
    return {S(symbol), symbols[symbol]};
  }
  const Computed a = Compute(random, symbols, depth - 1), b = Compute(random, symbols, depth - 1);
  const auto both = [&](const auto& fn) {
    return a.value && b.value ? std::optional(fn(*a.value, *b.value)) : std::nullopt;
  };
  switch (pick(9)) {
    case 0: return {a.dim + b.dim, both([](__int128 x, __int128 y) { return x + y; })};
    case 1: return {a.dim - b.dim, both([](__int128 x, __int128 y) { return x - y; })};
    case 2: return {a.dim * b.dim, both([](__int128 x, __int128 y) { return x * y; })};
    case 3: return {*Dim::Min(a.dim, b.dim), both([](__int128 x, __int128 y) { return std::min(x, y); })};
    case 4: return {*Dim::Max(a.dim, b.dim), both([](__int128 x, __int128 y) { return std::max(x, y); })};
    default: break;
  }
  // A divisor that is a number as often as not.
  const int64_t number = pick(2) == 0 ? pick(12) + 1 : -pick(5) - 1;
  const Computed by = pick(3) == 0 ? b : Computed{Dim(number), number};
  const int way = pick(3);
  const Result<Dim> made = way == 0   ? Dim::FloorDiv(a.dim, by.dim)
                           : way == 1 ? Dim::CeilDiv(a.dim, by.dim)
                                      : Dim::Mod(a.dim, by.dim);
  if (!made) {
    EXPECT_TRUE(by.dim.is_zero()) << made.error().message();
    return a;
  }
  if (!a.value || !by.value || *by.value == 0) return {*made, std::nullopt};
  const __int128 x = *a.value, y = *by.value;
  return {*made, way == 0 ? FloorDiv128(x, y) : way == 1 ? -FloorDiv128(-x, y) : x - y * FloorDiv128(x, y)};
}

constexpr uint32_t kSeeds = 20000;

/// Symbols of any sign; sizes where `are_sizes`.
std::vector<int64_t> AnyValues(std::mt19937& random, bool are_sizes) {
  std::vector<int64_t> values(3);
  for (int64_t& value : values) value = static_cast<int64_t>(random() % 30) - (are_sizes ? 0 : 10);
  return values;
}

const auto kValueIn = [](const std::vector<int64_t>& values) {
  return [&values](uint16_t symbol) -> std::optional<int64_t> { return values[symbol]; };
};

TEST(Atom, EveryFormHasTheValueOfWhatItWasMadeOf) {
  size_t with_atoms = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const std::vector<int64_t> values = AnyValues(random, false);
    const Computed made = Compute(random, values, 4);
    const std::optional<int64_t> found = made.dim.EvalExactly(kValueIn(values));
    // Leaving out what dividend and divisor have in common may leave out a division by 0, never add one.
    if (!made.value) continue;
    ASSERT_TRUE(found) << seed << ": " << made.dim.ToText();
    ASSERT_TRUE(*found == *made.value) << seed << ": " << made.dim.ToText() << " is " << *found;
    ASSERT_EQ(made.dim.Eval(values), *found) << seed;
    with_atoms += made.dim.HasAtoms();
  }
  EXPECT_GT(with_atoms, kSeeds / 8);
}

TEST(Atom, TextGivesItBackAndFormsStay) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const Dim dim = Compute(random, AnyValues(random, false), 4).dim;
    const Result<Dim> parsed = Dim::Parse(dim.ToText());
    ASSERT_TRUE(parsed) << parsed.error().message();
    ASSERT_EQ(*parsed, dim) << parsed->ToText() << "\n" << dim.ToText();
    // Made again of the same parts, each atom is itself.
    ASSERT_EQ(dim.Substitute({}), dim) << dim.ToText();
  }
}

TEST(Atom, SubstitutingIsEvaluating) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const std::vector<int64_t> values = AnyValues(random, false);
    const Dim dim = Compute(random, values, 4).dim;
    const std::vector<Dim> numbers(values.begin(), values.end());
    const std::optional<int64_t> value = dim.EvalExactly(kValueIn(values));
    if (!value) continue;
    ASSERT_EQ(dim.Substitute(numbers), Dim(*value)) << seed << ": " << dim.ToText();
    const Dim one[] = {Dim(values[0]), S(1), S(2) + Dim(1)};
    const std::vector<int64_t> less = {0, values[1], values[2] - 1};
    const std::optional<int64_t> in_part = dim.Substitute(one).EvalExactly(kValueIn(less));
    ASSERT_TRUE(in_part && *in_part == *value) << seed << ": " << dim.ToText();
  }
}

TEST(Atom, BoundsHoldAndDecidingKeepsTheValue) {
  size_t bounded = 0, decided = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const std::vector<int64_t> values = AnyValues(random, false);
    SymbolBounds symbols;
    for (uint16_t s = 0; s < values.size(); ++s) {
      const auto below = static_cast<int64_t>(random() % 12), above = static_cast<int64_t>(random() % 12);
      if (random() % 4 != 0) symbols[s].low = values[s] - below;
      if (random() % 4 != 0) symbols[s].high = values[s] + above;
    }
    const Dim dim = Compute(random, values, 4).dim;
    const std::optional<int64_t> value = dim.EvalExactly(kValueIn(values));
    if (!value) continue;
    const Bounds bounds = BoundsOf(dim, symbols);
    ASSERT_TRUE(bounds.low <= *value && *value <= bounds.high)
        << seed << ": " << dim.ToText() << " is " << *value << " of [" << bounds.low << ", " << bounds.high << "]";
    bounded += !dim.is_const() && bounds.low != Bounds::kNoLow && bounds.high != Bounds::kNoHigh;
    const Dim simple = Decided(dim, symbols);
    const std::optional<int64_t> same = simple.EvalExactly(kValueIn(values));
    ASSERT_TRUE(same && *same == *value) << seed << ": " << dim.ToText() << " became " << simple.ToText();
    decided += simple != dim;
  }
  EXPECT_GT(bounded, kSeeds / 4);
  EXPECT_GT(decided, kSeeds / 100);
}

TEST(Atom, WhatIsPlainlyNotNegativeIsNone) {
  size_t plain = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const std::vector<int64_t> values = AnyValues(random, true);
    const Dim dim = Compute(random, values, 3).dim;
    if (!dim.HasAtoms() || !dim.IsPlainlyNotNegative()) continue;
    ++plain;
    ASSERT_GE(dim.Eval(values), 0) << seed << ": " << dim.ToText();
  }
  EXPECT_GT(plain, kSeeds / 20);
}

TEST(Atom, GuardsHoldAsTheirNumbersDoAndSimplifyingKeepsThat) {
  for (uint32_t seed = 0; seed < kSeeds / 4; ++seed) {
    std::mt19937 random(seed);
    GuardSet set;
    for (size_t i = random() % 4 + 1; i > 0; --i) {
      Guard guard{.kind = Guard::Kind::kAtLeast, .text = ""};
      guard.value = Compute(random, AnyValues(random, true), 3).dim;
      const uint32_t way = random() % 4;
      if (way == 0) guard.kind = Guard::Kind::kEqual;
      if (way == 1) guard.kind = Guard::Kind::kNotEqual;
      if (way == 2) {
        guard.kind = Guard::Kind::kModulo;
        guard.modulus = static_cast<int64_t>(random() % 6) + 1;
        guard.remainder = static_cast<int64_t>(random() % 6) % guard.modulus;
      }
      GuardSet one;
      if (!one.Add(guard) || !set.Add(guard)) continue;
      const std::vector<int64_t> values = AnyValues(random, true);
      const std::optional<int64_t> value = guard.value.EvalExactly(kValueIn(values));
      if (!value) continue;
      const bool holds = guard.kind == Guard::Kind::kAtLeast    ? *value >= 0
                         : guard.kind == Guard::Kind::kEqual    ? *value == 0
                         : guard.kind == Guard::Kind::kNotEqual ? *value != 0
                                                                : FloorMod(*value, guard.modulus) == guard.remainder;
      ASSERT_EQ(one.Holds(values), holds) << seed << ": " << guard.value.ToText() << " as " << one.ToText();
    }
    const Result<GuardSet> again = GuardSet::Parse(set.ToText());
    ASSERT_TRUE(again) << set.ToText() << ": " << again.error().message();
    ASSERT_EQ(*again, set) << set.ToText();
    const Result<GuardSet> simple = set.Simplify();
    for (int i = 0; i < 40; ++i) {
      const std::vector<int64_t> values = AnyValues(random, true);
      const bool exact = std::ranges::all_of(
          set.guards(), [&](const Guard& g) { return g.value.EvalExactly(kValueIn(values)).has_value(); });
      if (!exact) continue;
      ASSERT_EQ(set.Holds(values), simple && simple->Holds(values))
          << seed << ": " << set.ToText() << "\n"
          << (simple ? simple->ToText() : simple.error().message());
    }
  }
}

TEST(Atom, PrintsInOneForm) {
  EXPECT_EQ(Dim::FloorDiv(S(0), Dim(2))->ToText(), "floordiv(s0, 2)");
  EXPECT_EQ(Dim::FloorDiv(S(0) - Dim(8), Dim(8))->ToText(), "floordiv(s0, 8) - 1");
  EXPECT_EQ(Dim::FloorDiv(Dim(10) * S(0) + Dim(7), Dim(4))->ToText(), "2*s0 + floordiv(s0 + 1, 2) + 1");
  EXPECT_EQ(Dim::FloorDiv(S(0) * Dim(-1), Dim(4))->ToText(), "-floordiv(s0 + 3, 4)");
  EXPECT_EQ(Dim::CeilDiv(S(0), Dim(4))->ToText(), "floordiv(s0 + 3, 4)");
  EXPECT_EQ(Dim::Mod(S(0), Dim(8))->ToText(), "s0 - 8*floordiv(s0, 8)");
  EXPECT_EQ(Dim::FloorDiv(Dim(2) * S(0) + Dim(1), Dim(4))->ToText(), "floordiv(s0, 2)");
  EXPECT_EQ(Dim::FloorDiv(Of("floordiv(s0 - 1, 2)"), Dim(2))->ToText(), "floordiv(s0 + 3, 4) - 1");
  EXPECT_EQ(Dim::FloorDiv(S(0) * S(1), S(1) * S(2))->ToText(), "floordiv(s0, s2)");
  EXPECT_EQ(Dim::FloorDiv(S(0) * S(1) + S(2), S(1))->ToText(), "s0 + floordiv(s2, s1)");
  EXPECT_EQ(Dim::FloorDiv(Dim(6) * S(0), Dim(-3))->ToText(), "-2*s0");
  EXPECT_EQ(Dim::Min(S(0) + Dim(1), Dim(65))->ToText(), "min(s0, 64) + 1");
  EXPECT_EQ(*Dim::Min(Dim(64), S(0)), *Dim::Min(S(0), Dim(64)));
  EXPECT_EQ(Dim::Max(Dim(2) * S(0), Dim(2) * S(1))->ToText(), "2*max(s0, s1)");
  EXPECT_EQ(Dim::Min(Dim(-1) * S(0), Dim(-1) * S(1))->ToText(), "-max(s0, s1)");
  EXPECT_EQ(Dim::Min(S(0) * S(1) + S(2), S(0) * S(1) + Dim(4))->ToText(), "s0*s1 + min(s2, 4)");
  EXPECT_EQ(*Dim::Max(S(0) + Dim(4), S(0)), S(0) + Dim(4));
  EXPECT_EQ(Of("ceildiv(s0, 4)*mod(s0, 3)"), *Dim::CeilDiv(S(0), Dim(4)) * *Dim::Mod(S(0), Dim(3)));
}

// A window's steps of steps are those of both at once.
TEST(Atom, QuotientsOfQuotientsAreOne) {
  Dim size = S(0);
  for (int i = 0; i < 5; ++i) size = *Dim::FloorDiv(size - Dim(1), Dim(2)) + Dim(1);
  EXPECT_EQ(size.ToText(), "floordiv(s0 + 31, 32)");
}

TEST(Atom, ManyTermsAndLargeNumbersStayAsTheyAre) {
  std::string many = "s0*s1";
  for (int i = 2; i <= 66; ++i) many += " + s0*s" + std::to_string(i);
  const Dim quotient = Of("floordiv(" + many + ", s0)");
  const std::vector<int64_t> ones(67, 1);
  EXPECT_EQ(quotient.Eval(ones), 66);
  EXPECT_EQ(Of(quotient.ToText()), quotient);
  EXPECT_EQ(Of("floordiv(4294967296*s0, s0 + 4294967296)").Eval(std::vector<int64_t>{0}), 0);
  EXPECT_EQ(Of("floordiv(floordiv(s0 + 9223372036854775807, 2) + 1, 2)").Eval(std::vector<int64_t>{0}),
            int64_t{1} << 61);
  EXPECT_EQ(Of("floordiv(floordiv(s0 - 9223372036854775807, 2) - 1, 2)").Eval(std::vector<int64_t>{0}),
            -(int64_t{1} << 61) - 1);
}

TEST(Atom, FollowsPythonBelowZero) {
  EXPECT_EQ(*Dim::FloorDiv(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(*Dim::FloorDiv(Dim(7), Dim(-2)), Dim(-4));
  EXPECT_EQ(*Dim::CeilDiv(Dim(-7), Dim(2)), Dim(-3));
  EXPECT_EQ(*Dim::Mod(Dim(-7), Dim(8)), Dim(1));
  EXPECT_EQ(*Dim::Mod(Dim(7), Dim(-8)), Dim(-1));
}

TEST(Atom, EqualitiesWithWhatIsLeftOverAreRemainders) {
  const auto text = [](std::string_view guard) { return GuardSet::Parse(guard)->ToText(); };
  EXPECT_EQ(text("mod(s0, 4) == 1"), "s0 % 4 == 1");
  EXPECT_EQ(text("s0 != 2*floordiv(s0, 2)"), "s0 % 2 != 0");
  EXPECT_EQ(text("8*ceildiv(s0, 8) - s0 == 3"), "s0 % 8 == 5");
  EXPECT_EQ(text("mod(s0, 4) == 4"), "1 == 0");
  EXPECT_EQ(text("mod(s0, 4) != 4"), "");
  EXPECT_EQ(text("floordiv(s0, 4) >= 2 and 3 >= floordiv(s0 + 1, 4)"), "s0 >= 8 and s0 <= 14");
}

TEST(Atom, RefusesToDivideByZeroAndWhatIsTooDeep) {
  const Result<Dim> by_zero = Dim::FloorDiv(S(0), S(1) - S(1));
  ASSERT_FALSE(by_zero);
  EXPECT_EQ(by_zero.error().code(), Code::kInvalid);
  EXPECT_EQ(by_zero.error().message(), "a size divides s0 by 0");
  EXPECT_FALSE(Dim::Mod(S(0), Dim(0)));
  EXPECT_FALSE(Dim::CeilDiv(S(0), Dim(0)));
  EXPECT_FALSE(GuardSet::Parse("floordiv(s0, 0) == 1"));
  // Of sizes that turn out to be 0: no trap, and no guard holds.
  const std::vector<int64_t> none = {5, 0};
  EXPECT_EQ(Of("floordiv(s0, s1)").Eval(none), 0);
  EXPECT_FALSE(GuardSet::Parse("floordiv(s0, s1) >= 0")->Holds(none));
  Dim deep = S(0);
  size_t steps = 0;
  for (Result<Dim> next = deep; next && steps < 100; ++steps) {
    deep = *next;
    next = Dim::FloorDiv(deep * deep + S(1), S(2) + Dim(static_cast<int64_t>(steps)));
  }
  EXPECT_LT(steps, 20u);
  std::string nested;
  for (int i = 0; i < 50000; ++i) nested += "min(";
  EXPECT_FALSE(Dim::Parse(nested));
  EXPECT_FALSE(GuardSet::Parse(nested + " >= 0"));
}

/// That a divisor is not 0 is a condition of its own, which stays.
TEST(Atom, RewritesAsIfNoDivisorWereZero) {
  EXPECT_EQ(Of("floordiv(s0*s1, s1)"), S(0));
  const auto simple = [](std::string_view text) { return GuardSet::Parse(text)->Simplify()->ToText(); };
  EXPECT_EQ(simple("max(floordiv(s0, s1), 3) >= 2"), "");
  EXPECT_EQ(simple("max(floordiv(s0, s1), 3) >= 2 and s1 >= 1"), "s1 >= 1");
}

TEST(Atom, TextCutOffOrWithABitTurnedIsReadOrRefused) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::string text = Compute(random, AnyValues(random, false), 4).dim.ToText();
    const auto check = [](const std::string& given) {
      const Result<Dim> dim = Dim::Parse(given);
      if (dim) {
        ASSERT_EQ(*Dim::Parse(dim->ToText()), *dim) << given;
      }
      const Result<GuardSet> set = GuardSet::Parse(given + " >= 2");
      if (set) {
        ASSERT_EQ(*GuardSet::Parse(set->ToText()), *set) << given;
      }
    };
    for (size_t end = 0; end < text.size(); ++end) check(text.substr(0, end));
    for (size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string turned = text;
      turned[bit / 8] = static_cast<char>(turned[bit / 8] ^ (1 << bit % 8));
      check(turned);
    }
  }
}

TEST(Atom, BoundsSeeWhatIsLeftOver) {
  const SymbolBounds symbols = {{0, {2, Bounds::kNoHigh}}, {1, {8, 15}}};
  const auto of = [&](std::string_view text) { return BoundsOf(Of(text), symbols); };
  EXPECT_EQ(of("mod(s0, 4)"), (Bounds{0, 3}));
  EXPECT_EQ(of("s0 - floordiv(s0, 2)"), (Bounds{1, Bounds::kNoHigh}));
  EXPECT_EQ(of("s0 - min(s0, 64)"), (Bounds{0, Bounds::kNoHigh}));
  EXPECT_EQ(of("max(s0, 64) - 64"), (Bounds{0, Bounds::kNoHigh}));
  EXPECT_EQ(of("min(s0, 64)"), (Bounds{2, 64}));
  EXPECT_EQ(of("floordiv(s1, 8)"), (Bounds{1, 1}));
  EXPECT_EQ(of("8*ceildiv(s0, 8) - s0"), (Bounds{0, 7}));
  EXPECT_EQ(Decided(Of("s0*floordiv(s1, 8) + max(s1, s0 + 1)"), {{0, {2, 7}}, {1, {8, 15}}}), S(0) + S(1));
}

}  // namespace
}  // namespace ingot::guards
