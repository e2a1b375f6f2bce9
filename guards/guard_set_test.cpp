// SPDX-License-Identifier: Apache-2.0
#include "guards/guard_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ingot::guards {
namespace {

using ::testing::HasSubstr;

GuardSet ParsedSet(std::string_view text) {
  const auto set = GuardSet::Parse(text);
  EXPECT_TRUE(set) << set.error().ToText();
  return set ? *set : GuardSet();
}
std::string Simple(std::string_view text) {
  const auto set = ParsedSet(text).Simplify();
  return set ? set->ToText() : set.error().message();
}
bool Holds(std::string_view text, std::vector<int64_t> symbols) { return ParsedSet(text).Holds(symbols); }

// What people write, and the one form in which it is kept.
TEST(GuardText, PrintsOneForm) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", ""},
      {"s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0", "s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0"},
      {"2 <= s0 < 5", "s0 >= 2 and s0 <= 4"},
      {"s0 > 2 and 7 > s1", "s0 >= 3 and s1 <= 6"},
      {"2*s0 >= 5", "s0 >= 3"},
      {"-3*s0 >= -10", "s0 <= 3"},
      {"4*s0 == 8", "s0 == 2"},
      {"4*s0 == 7", "1 == 0"},
      {"2*s0 != 3", ""},
      {"s0 - s1 == 0", "s1 == s0"},
      {"s0*s1 <= 100", "s0*s1 <= 100"},
      {"s0 - s1 >= 3", "s1 <= s0 - 3"},
      {"2*s0 % 8 == 0", "s0 % 4 == 0"},
      {"3*s0 % 8 == 1", "s0 % 8 == 3"},
      {"3*y.size(0) + 2*x.size(0) == 7", "2*x.size(0) == -3*y.size(0) + 7"},
      {"(3*y.size(0) + 2*x.size(0)) % 4 == 1", "(2*x.size(0) + 3*y.size(0)) % 4 == 1"},
      {"(s0 + s1 + 1) % 4 == 0", "(s0 + s1) % 4 == 3"},
      {"(s0 + 8) % 4 != 6", ""},
      {"s0 % 1 == 0", ""},
      {"s0 == 3 and s0 == 3", "s0 == 3"},
      {"x.size(0) == 4 and x.stride(1) == 1", "x.size(0) == 4 and x.stride(1) == 1"},
      {"x.rank == 2 and x.offset % 4 == 0", "x.rank == 2 and x.offset % 4 == 0"},
      {"x.size(0) == y.size(1)", "y.size(1) == x.size(0)"},
      {"y.size(1) == x.size(0)", "y.size(1) == x.size(0)"},
      {"x.dtype == bf16 and x.device == cuda:1", "x.dtype == bf16 and x.device == cuda:1"},
      {"apart(y, x)", "apart(y, x)"},
      {"flag==True and n == 3 and mode == 'it\\'s' and eps == 1e-05",
       "flag == True and n == 3 and mode == 'it\\'s' and eps == 1e-05"},
      {"'args[0]'.size(1) == s0 and 's3'.rank == 1", "'args[0]'.size(1) == s0 and 's3'.rank == 1"},
      {"size.size(0) == 1 and s0x.rank == 2", "size.size(0) == 1 and s0x.rank == 2"},
  };
  for (const auto& [given, kept] : kCases) {
    EXPECT_EQ(ParsedSet(given).ToText(), kept) << given;
    EXPECT_EQ(ParsedSet(kept).ToText(), kept);
  }
}

TEST(GuardText, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {"s0", "expected ==, !=, >=, <=, > or < at column 3"},
      {"s0 >= 2 or s1 == 1", "expected 'and' or the end at column 9"},
      {"s0 % 0 == 0", "a divisor from 1 to 2^31"},
      {"s0 + s1 % 2 == 0", "parentheses around the sum"},
      {"s0 % 2 >= 1", "a remainder compared with == or !="},
      {"s0 >= 9007199254740993", "a number up to 2^53"},
      {"s99999 == 1", "a symbol number up to 32767"},
      {"s0*4503599627370496*16 == 1", "2^53"},
      {"x.length == 2", ".rank, .size(dim)"},
      {"x.dtype == float32", "an element type such as f32"},
      {"mode == 'open", "a closing quote"},
      {"s0 >= 2 and", "the name of an input"},
  };
  for (const auto& [text, why] : kCases) {
    const auto set = GuardSet::Parse(text);
    ASSERT_FALSE(set) << text;
    EXPECT_EQ(set.error().code(), Code::kInvalid);
    EXPECT_THAT(set.error().message(), HasSubstr(why)) << text;
  }
}

// A store may hand over any prefix, and any bit may have flipped: refused, or a set that prints what it means.
TEST(GuardText, SurvivesTruncationAndFlippedBits) {
  const std::string whole =
      "s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0 and (s0 + 2*s1) % 3 != 1 and x.dtype == f32 and "
      "'a b'.stride(1) == s0*s1 and apart(x, 'a b') and mode == 'fast' and x.device == cpu";
  const auto check = [](const std::string& text) {
    const auto set = GuardSet::Parse(text);
    if (!set) return false;
    EXPECT_EQ(ParsedSet(set->ToText()).ToText(), set->ToText()) << text;
    return true;
  };
  ASSERT_TRUE(check(whole));
  size_t accepted = 0;
  for (size_t size = 0; size < whole.size(); ++size) accepted += check(whole.substr(0, size));
  EXPECT_LT(accepted, whole.size() / 2);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    check(damaged);
  }
}

TEST(GuardSet, HoldsForSymbols) {
  const char* kText = "s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0";
  EXPECT_TRUE(Holds(kText, {8, 16}));
  EXPECT_TRUE(Holds(kText, {512, 1024}));
  EXPECT_FALSE(Holds(kText, {0, 0}));
  EXPECT_FALSE(Holds(kText, {12, 24}));
  EXPECT_FALSE(Holds(kText, {8, 17}));
  EXPECT_FALSE(Holds(kText, {8}));  // s1 is not given.
  EXPECT_TRUE(Holds("", {}));
  EXPECT_FALSE(Holds("1 == 0", {1}));
  EXPECT_TRUE(Holds("s0 % 4 == 1", {-3}));  // As Python counts remainders.
  EXPECT_FALSE(Holds("s0*s0*s0 >= 0", {int64_t{1} << 40}));  // Leaves 64 bits: not known to hold.
}

TEST(GuardSet, HoldsForTensors) {
  const GuardSet set = ParsedSet(
      "x.dtype == f32 and x.rank == 2 and x.size(0) == s0 and x.stride(0) == 16 and "
      "x.stride(1) == 1 and x.offset % 4 == 0 and apart(x, y) and flag == True");
  const std::vector<int64_t> symbols = {3}, sizes = {3, 16}, one = {1, 16}, none = {0, 16};
  const std::vector<int64_t> strides = {16, 1}, turned = {1, 3};
  const std::string_view yes[] = {"True"}, no[] = {"False"};
  TensorView x{.sizes = sizes, .strides = strides, .offset = 4, .begin = 100, .end = 200};
  TensorView y{.begin = 200, .end = 300};
  const auto holds = [&](const std::vector<int64_t>& s, std::span<const std::string_view> scalars) {
    const TensorView tensors[] = {x, y};
    return set.Holds({s, tensors, scalars});
  };
  EXPECT_TRUE(holds(symbols, yes));
  EXPECT_FALSE(holds(symbols, no));
  EXPECT_FALSE(holds({4}, yes));
  x.strides = turned;
  EXPECT_FALSE(holds(symbols, yes));
  x.sizes = none;  // Nobody uses the strides of an empty tensor.
  EXPECT_TRUE(holds({0}, yes));
  x.sizes = one;
  EXPECT_FALSE(holds({1}, yes));  // Dimension 1 has 16 elements and needs its stride.
  x = {.sizes = sizes, .strides = strides, .offset = 4, .begin = 100, .end = 201};
  EXPECT_FALSE(holds(symbols, yes));
  const TensorView only_x[] = {x};
  EXPECT_FALSE(set.Holds({symbols, only_x, yes}));
}

TEST(GuardSet, ExplainsInWords) {
  const GuardSet tensor =
      ParsedSet("x.dtype == f32 and x.rank == 2 and x.size(0) == 10 and x.stride(1) == 1 and apart(x, y)");
  const std::vector<int64_t> sizes = {5, 4}, ten = {10, 4}, turned = {1, 10}, strides = {4, 1}, flat = {4};
  const auto explain = [&](const TensorView& x, const TensorView& y = {}) {
    const TensorView tensors[] = {x, y};
    return tensor.Explain({{}, tensors, {}});
  };
  EXPECT_EQ(explain({.sizes = sizes, .strides = strides}), "input 'x': size 5 at dim 0, this variant needs 10");
  EXPECT_EQ(explain({.sizes = ten, .strides = turned}), "input 'x': stride 10 at dim 1, this variant needs 1");
  EXPECT_EQ(explain({.dtype = DType::kF64, .sizes = ten}), "input 'x': dtype f64, this variant needs f32");
  EXPECT_EQ(explain({.sizes = flat, .strides = flat}), "input 'x': 1 dimensions, this variant needs 2");
  EXPECT_EQ(explain({.sizes = ten, .strides = strides, .begin = 0, .end = 9}, {.begin = 8, .end = 16}),
            "input 'x' shares memory with input 'y', which this variant writes");
  EXPECT_EQ(explain({.sizes = ten, .strides = strides}), "");

  const GuardSet range = ParsedSet("s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0");
  const auto at = [&](std::vector<int64_t> symbols) { return range.Explain(symbols); };
  EXPECT_EQ(at({8, 16}), "");
  EXPECT_EQ(at({21, 42}), "s0 is 21, this variant needs s0 % 8 == 0; nearest: 16 and 24");
  EXPECT_EQ(at({600, 1200}), "s0 is 600, this variant needs s0 <= 512; nearest: 512");
  EXPECT_EQ(at({8, 17}), "s0 is 8; s1 is 17, this variant needs s1 == 2*s0");
  const SymbolName names[] = {{"tokens", 1}};
  EXPECT_EQ(range.Explain(std::vector<int64_t>{21, 42}, names),
            "input 'tokens': size 21 at dim 1, this variant needs s0 % 8 == 0; nearest: 16 and 24");
  EXPECT_EQ(ParsedSet("mode == 'fast'").Explain(Call{}), "argument 'mode': missing, this variant needs 'fast'");
}

TEST(Simplify, DropsWhatOthersImply) {
  const std::pair<const char*, const char*> kCases[] = {
      {"s0 >= 2 and s0 >= 5 and s0 <= 9 and s0 <= 100", "s0 >= 5 and s0 <= 9"},
      {"s0 >= 4 and s0 <= 4", "s0 == 4"},
      {"s0 == 4 and s0 >= 1 and s0 % 2 == 0 and s1 >= s0", "s0 == 4 and s1 >= 4"},
      {"s0 >= 2 and s0 <= 512 and s0 % 8 == 0", "s0 >= 8 and s0 <= 512 and s0 % 8 == 0"},
      {"s0 % 8 == 4 and s0 % 4 == 0 and s0 % 2 != 1", "s0 % 8 == 4"},
      {"s1 == 2*s0 and s1 >= 5 and s1 % 2 == 0", "s1 == 2*s0 and s0 >= 3"},
      {"s0 >= 2 and s1 >= 3 and s0*s1 >= 6 and s0 + s1 != 4", "s0 >= 2 and s1 >= 3"},
      {"s0 >= 2 and s1 >= 3 and s0*s1 >= 7", "s0 >= 2 and s1 >= 3 and s0*s1 >= 7"},
      {"s0 >= 0 and s0 != 0 and s0 >= 1", "s0 >= 1"},
      {"s0 - s1 >= 2 and s0 - s1 >= 4", "s1 <= s0 - 4"},
      // The same stride may go unchecked in one guard and not in another: nothing follows from it.
      {"x.stride(0) == 4 and x.stride(0) >= 2", "x.stride(0) == 4 and x.stride(0) >= 2"},
      {"x.size(0) == s0 and x.size(0) >= 2 and s0 >= 2", "x.size(0) == s0 and s0 >= 2"},
  };
  for (const auto& [text, simple] : kCases) EXPECT_EQ(Simple(text), simple) << text;
}

TEST(Simplify, FindsContradictions) {
  for (const char* text : {"s0 >= 5 and s0 <= 3", "s0 == 4 and s0 % 8 == 0", "s0 % 4 == 1 and s0 % 6 == 2",
                           "s0 >= 9 and s0 <= 15 and s0 % 8 == 0", "s0 == 2 and s1 == s0 and s1 >= 3",
                           "s0 >= 1 and s1 >= 1 and s0*s1 <= 0", "s0 % 8 == 4 and s0 % 4 != 0", "1 == 0"}) {
    const auto set = ParsedSet(text).Simplify();
    ASSERT_FALSE(set) << text << " became " << set->ToText();
    EXPECT_THAT(set.error().message(), HasSubstr("guards contradict: ")) << text;
  }
  EXPECT_EQ(Simple("s0 >= 5 and s0 <= 3"), "guards contradict: s0 >= 5 and s0 <= 3");
}

std::string RandomText(std::mt19937& random) {
  const char* kRelations[] = {" == ", " != ", " >= ", " <= ", " > ", " < "};
  const auto number = [&](int most) { return std::to_string(random() % most); };
  const auto sum = [&] {
    std::string text = number(4) + "*s" + number(2);
    if (random() % 2) text += (random() % 2 ? " + " : " - ") + number(3) + "*s" + number(2);
    if (random() % 4 == 0) text += " + s0*s1";
    return text;
  };
  std::string text;
  for (size_t i = 1 + random() % 6; i > 0; --i) {
    if (!text.empty()) text += " and ";
    switch (random() % 4) {
      case 0: text += "s" + number(2) + kRelations[random() % 6] + number(12); break;
      case 1:
        text += "(" + sum() + ") % " + std::to_string(1 + random() % 6) + (random() % 3 ? " == " : " != ") + number(6);
        break;
      default: text += sum() + kRelations[random() % 6] + number(20) + (random() % 2 ? " + s1" : ""); break;
    }
  }
  return text;
}

// A simpler set accepts exactly the same values; a contradiction accepts none.
TEST(Simplify, KeepsTheMeaning) {
  constexpr uint32_t kSeed = 20250101;
  std::mt19937 random(kSeed);
  size_t contradictions = 0, shorter = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = RandomText(random);
    const GuardSet set = ParsedSet(text);
    ASSERT_EQ(ParsedSet(set.ToText()).ToText(), set.ToText()) << text;
    const auto simple = set.Simplify();
    contradictions += !simple;
    if (simple) shorter += simple->guards().size() < set.guards().size();
    for (int64_t a = -4; a < 16; ++a) {
      for (int64_t b = -4; b < 16; ++b) {
        const std::vector<int64_t> symbols = {a, b};
        ASSERT_EQ(set.Holds(symbols), simple && simple->Holds(symbols))
            << text << "\nkept as " << set.ToText() << "\nsimplified to "
            << (simple ? simple->ToText() : simple.error().message()) << "\nat " << a << ", " << b << "; " << kSeed;
      }
    }
  }
  EXPECT_GT(contradictions, 100u);
  EXPECT_GT(shorter, 200u);
}

TEST(GuardSet, SubstitutesPropertiesBySymbols) {
  const GuardSet set =
      ParsedSet("i0.size(0) >= 2 and i0.size(0) % 8 == 0 and i1.size(1) == 2*i0.size(0) and i1.size(0) == 5");
  const auto over = set.Substitute({}, [](const Property& p) {
    return p.input == 1 && p.dim == 0 ? Dim(5) : p.input == 1 ? Dim(2) * Dim::Symbol(0) : Dim::Symbol(0);
  });
  ASSERT_TRUE(over) << over.error().ToText();
  EXPECT_TRUE(over->IsOverSymbols());
  EXPECT_EQ(over->ToText(), "s0 >= 2 and s0 % 8 == 0");
}

}  // namespace
}  // namespace ingot::guards
