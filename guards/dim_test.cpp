// SPDX-License-Identifier: Apache-2.0
#include "guards/dim.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "guards/dtype.h"

namespace ingot::guards {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Dim Sym(uint16_t index) { return Dim::Symbol(index); }

/// A polynomial of up to five small terms over s0 to s3.
Dim RandomDim(std::mt19937& random) {
  std::vector<Dim::Term> terms(random() % 6);
  for (Dim::Term& term : terms) {
    term.coef = static_cast<int64_t>(random() % 21) - 10;
    for (size_t i = random() % 4; i > 0; --i) {
      term.factors.push_back(static_cast<uint16_t>(random() % 4));
    }
  }
  return Dim::FromTerms(std::move(terms));
}

TEST(Dim, PrintsInOneCanonicalForm) {
  EXPECT_EQ(Dim().ToText(), "0");
  EXPECT_EQ(Dim(128).ToText(), "128");
  EXPECT_EQ(Dim(-1).ToText(), "-1");
  EXPECT_EQ(Sym(0).ToText(), "s0");
  EXPECT_EQ((Dim(128) + Sym(1) * Dim(4) * Sym(0)).ToText(), "4*s0*s1 + 128");
  EXPECT_EQ((Dim(5) - Sym(0)).ToText(), "-s0 + 5");
  EXPECT_EQ((Sym(0) - Dim(1)).ToText(), "s0 - 1");
  EXPECT_EQ((Sym(2) * Sym(2)).ToText(), "s2*s2");
  EXPECT_EQ(Dim(kMin).ToText(), "-9223372036854775808");
}

TEST(Dim, EqualityIsThatOfPolynomials) {
  EXPECT_EQ(Sym(0) + Sym(1), Sym(1) + Sym(0));
  EXPECT_EQ((Sym(0) + Dim(1)) * (Sym(0) - Dim(1)), Sym(0) * Sym(0) - Dim(1));
  EXPECT_EQ(Sym(0) - Sym(0), Dim(0));
  EXPECT_TRUE((Sym(0) - Sym(0)).is_zero());
  EXPECT_NE(Sym(0), Sym(1));
  EXPECT_EQ(Sym(0) * Dim(0), Dim());
}

TEST(Dim, FromTermsSortsMergesAndDropsZeros) {
  EXPECT_EQ(Dim::FromTerms({{2, {1, 0}}, {3, {}}, {-2, {0, 1}}, {1, {}}}), Dim(4));
  EXPECT_EQ(Dim::FromTerms({{0, {7}}, {0, {}}}), Dim());
  EXPECT_EQ(Dim::FromTerms({{1, {0}}, {-1, {0}}, {1, {0}}}), Sym(0));
}

TEST(Dim, KnowsConstants) {
  EXPECT_TRUE(Dim().is_const());
  EXPECT_EQ(Dim().const_value(), 0);
  EXPECT_TRUE(Dim(1).is_one());
  EXPECT_FALSE(Sym(0).is_const());
  EXPECT_FALSE(Sym(0).is_one());
  EXPECT_EQ(Sym(4).SymbolCount(), 5);
  EXPECT_EQ(Dim(9).SymbolCount(), 0);
  EXPECT_EQ((Sym(1) * Sym(6) + Sym(3)).SymbolCount(), 7);
}

TEST(Dim, EvalTakesMissingSymbolsAsZeroAndWraps) {
  const int64_t values[] = {3, 5};
  EXPECT_EQ((Dim(4) * Sym(0) * Sym(1) + Dim(128)).Eval(values), 188);
  EXPECT_EQ((Sym(2) + Dim(1)).Eval(values), 1);
  const int64_t big[] = {kMax};
  EXPECT_EQ((Sym(0) + Dim(1)).Eval(big), kMin);
  EXPECT_EQ((Sym(0) * Dim(2)).Eval(big), -2);
}

TEST(Dim, SubstituteReplacesOnlyWhatItIsGiven) {
  const Dim by[] = {Sym(1) + Dim(1), Dim(7)};
  EXPECT_EQ((Sym(0) * Sym(0) + Sym(1)).Substitute(by), Sym(1) * Sym(1) + Dim(2) * Sym(1) + Dim(8));
  EXPECT_EQ(Sym(5).Substitute(by), Sym(5));
}

TEST(Dim, DivideExactlyFindsTheQuotientOrNothing) {
  EXPECT_EQ((Dim(12) * Sym(0)).DivideExactly(Dim(4)), Dim(3) * Sym(0));
  EXPECT_EQ((Sym(0) * Sym(1) + Sym(1)).DivideExactly(Sym(1)), Sym(0) + Dim(1));
  EXPECT_EQ(Dim(7).DivideExactly(Dim(2)), std::nullopt);
  EXPECT_EQ(Sym(0).DivideExactly(Sym(1)), std::nullopt);
  EXPECT_EQ((Sym(0) + Dim(1)).DivideExactly(Sym(0)), std::nullopt);
  EXPECT_EQ(Sym(0).DivideExactly(Dim(0)), std::nullopt);
  EXPECT_EQ(Dim(0).DivideExactly(Sym(0)), Dim(0));
}

// Among them the one division of 64-bit integers whose result does not fit.
TEST(Dim, DivideExactlyFindsNothingWhereNumbersLeave64Bits) {
  EXPECT_EQ(Dim(kMin).DivideExactly(Dim(-1)), std::nullopt);
  const Dim large(int64_t{1} << 32);
  EXPECT_EQ((large * Sym(0)).DivideExactly(Sym(0) + large), std::nullopt);
  EXPECT_EQ((Sym(0) * Sym(1) + Dim(kMin)).DivideExactly(Sym(0) + Dim(1)), std::nullopt);
}

TEST(Dim, ArithmeticAgreesWithEval) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Dim a = RandomDim(random);
    const Dim b = RandomDim(random);
    int64_t values[4];
    for (int64_t& value : values) value = static_cast<int64_t>(random() % 41) - 20;
    EXPECT_EQ((a + b).Eval(values), a.Eval(values) + b.Eval(values));
    EXPECT_EQ((a - b).Eval(values), a.Eval(values) - b.Eval(values));
    EXPECT_EQ((a * b).Eval(values), a.Eval(values) * b.Eval(values));
    EXPECT_EQ((a + b) - b, a);
    if (!b.is_zero()) {
      EXPECT_EQ((a * b).DivideExactly(b), a) << a.ToText() << " | " << b.ToText();
    }
    const Dim by[] = {a, b, Dim(3), Sym(1)};
    const int64_t mapped[] = {a.Eval(values), b.Eval(values), 3, values[1]};
    EXPECT_EQ(a.Substitute(by).Eval(values), a.Eval(mapped));
  }
}

TEST(ParseDim, GivesBackWhatWasPrinted) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const Dim dim = RandomDim(random);
    const Result<Dim> parsed = Dim::Parse(dim.ToText());
    ASSERT_TRUE(parsed) << dim.ToText() << ": " << parsed.error().ToText();
    EXPECT_EQ(*parsed, dim) << dim.ToText();
  }
  for (const int64_t value : {kMin, kMax, int64_t{0}}) {
    EXPECT_EQ(*Dim::Parse(Dim(value).ToText()), Dim(value));
  }
}

TEST(ParseDim, AcceptsAnyOrderAndSpacing) {
  EXPECT_EQ(*Dim::Parse("128+s1*4*s0"), Dim(4) * Sym(0) * Sym(1) + Dim(128));
  EXPECT_EQ(*Dim::Parse("  - s0  +  5 "), Dim(5) - Sym(0));
  EXPECT_EQ(*Dim::Parse("s0 - s0"), Dim());
}

TEST(ParseDim, RefusesEverythingElseAndQuotesIt) {
  for (const char* text : {"",
                           " ",
                           "-",
                           "s",
                           "x",
                           "s0 +",
                           "+ s0",
                           "s0 s1",
                           "4*",
                           "*4",
                           "--1",
                           "4**s0",
                           "s-1",
                           "1.5",
                           "0x10",
                           "s0 + + 1",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "99999999999999999999",
                           "s65535",
                           "(s0)"}) {
    const Result<Dim> parsed = Dim::Parse(text);
    ASSERT_FALSE(parsed) << text << " was read as " << parsed->ToText();
    EXPECT_EQ(parsed.error().code(), Code::kInvalid);
    EXPECT_NE(parsed.error().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

// Whatever the text, parsing ends, and what it accepts prints as something it accepts.
TEST(ParseDim, SurvivesRandomText) {
  constexpr std::string_view kLetters = "s0123456789*+- x";
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += kLetters[random() % kLetters.size()];
    const Result<Dim> parsed = Dim::Parse(text);
    if (!parsed) continue;
    EXPECT_EQ(*Dim::Parse(parsed->ToText()), *parsed) << text;
  }
}

TEST(ContiguousStrides, AreThoseOfTorch) {
  EXPECT_EQ(ContiguousStrides(Dims{Dim(2), Dim(3), Dim(4)}), (Dims{Dim(12), Dim(4), Dim(1)}));
  EXPECT_EQ(ContiguousStrides(Dims{Sym(0), Sym(1), Dim(8)}), (Dims{Dim(8) * Sym(1), Dim(8), Dim(1)}));
  EXPECT_EQ(ContiguousStrides(Dims{Dim(2), Dim(0), Dim(4)}), (Dims{Dim(4), Dim(4), Dim(1)}));
  EXPECT_TRUE(ContiguousStrides({}).empty());
  EXPECT_EQ(Product(Dims{Sym(0), Dim(3)}), Dim(3) * Sym(0));
  EXPECT_EQ(Product({}), Dim(1));
}

TEST(DType, NamesAndSizesGoTogether) {
  for (uint8_t i = 0; i < 12; ++i) {
    const DType type = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(NameOf(type)), type);
    EXPECT_EQ(IsFloat(type) + IsInteger(type) + IsComplex(type) + (type == DType::kBool), 1);
  }
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kC128), 16u);
  EXPECT_EQ(DTypeFromName("float32"), std::nullopt);
}

}  // namespace
}  // namespace ingot::guards
