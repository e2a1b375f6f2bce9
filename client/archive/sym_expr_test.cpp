// SPDX-License-Identifier: Apache-2.0
#include "client/archive/sym_expr.h"

#include <gtest/gtest.h>

#include "client/archive/scalar_ops.h"

namespace ingot::client {
namespace {

const std::vector<std::string> kNames = {"s77", "s0"};
constexpr std::string_view kS77 = "Symbol('s77', positive=True, integer=True)";
constexpr std::string_view kS0 = "Symbol('s0', integer=True)";

std::string TextOf(const std::string& text) {
  const auto dim = ParseSymExpr(text, kNames);
  return dim ? dim->ToText() : dim.error().ToText();
}

TEST(SymExpr, ReadsPolynomials) {
  const std::string a(kS77), b(kS0);
  EXPECT_EQ(TextOf("Integer(-12)"), "-12");
  EXPECT_EQ(TextOf(a), "s0");
  EXPECT_EQ(TextOf(b), "s1");
  EXPECT_EQ(TextOf("Mul(Integer(2), " + a + ")"), "2*s0");
  EXPECT_EQ(TextOf("Add(Mul(Integer(2), " + a + ", " + b + "), Integer(1))"), "2*s0*s1 + 1");
  EXPECT_EQ(TextOf("Pow(Add(" + a + ", Integer(1)), Integer(2))"), "s0*s0 + 2*s0 + 1");
}

TEST(SymExpr, ReadsQuotientsMinimaAndMaxima) {
  const std::string a(kS77), b(kS0);
  EXPECT_EQ(TextOf("FloorDiv(Add(" + a + ", Integer(1)), Integer(2))"), "floordiv(s0 + 1, 2)");
  EXPECT_EQ(TextOf("PythonMod(" + a + ", Integer(8))"), "s0 - 8*floordiv(s0, 8)");
  EXPECT_EQ(TextOf("Max(Integer(1), " + a + ")"), "max(s0, 1)");
  EXPECT_EQ(TextOf("Min(" + a + ", " + b + ")"), "min(s0, s1)");
}

TEST(SymExpr, RefusesWhatIsNone) {
  const auto code = [](const std::string& text) { return ParseSymExpr(text, kNames).error().code(); };
  const std::string a(kS77);
  EXPECT_EQ(code("FloorDiv(" + a + ", Integer(0))"), Code::kUnsupported);
  EXPECT_EQ(code("IntTrueDiv(" + a + ", Integer(2))"), Code::kUnsupported);
  EXPECT_EQ(code("Symbol('u0')"), Code::kUnsupported);
  EXPECT_EQ(code("Pow(" + a + ", Integer(-1))"), Code::kUnsupported);
  EXPECT_EQ(code("Pow(" + a + ", " + a + ")"), Code::kUnsupported);
  EXPECT_EQ(code("Pow(" + a + ", Integer(9))"), Code::kUnsupported);
  EXPECT_EQ(code("Integer(99999999999999999)"), Code::kCorrupt);
  EXPECT_EQ(code(""), Code::kCorrupt);
  std::string deep = a;
  for (int i = 0; i < 100; ++i) deep = "Add(" + deep + ")";
  EXPECT_EQ(code(deep), Code::kUnsupported);
}

TEST(SymExpr, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::string a(kS77), b(kS0);
  const std::string whole =
      "Add(Mul(Integer(2), " + a + "), Pow(" + b + ", Integer(3)), Max(FloorDiv(" + a + ", Integer(2)), Integer(7)))";
  ASSERT_TRUE(ParseSymExpr(whole, kNames));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseSymExpr(whole.substr(0, size), kNames)) << size;
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto dim = ParseSymExpr(flipped, kNames);
    if (dim) {
      EXPECT_LE(dim->SymbolCount(), kNames.size());
    }
  }
}

TEST(ScalarOps, FollowPython) {
  using c10::IValue;
  const auto run = [](std::string_view name, std::vector<IValue> args) { return EvaluateScalar(name, args); };
  EXPECT_EQ(run("_operator.floordiv", {int64_t{-7}, int64_t{2}})->toInt(), -4);
  EXPECT_EQ(run("_operator.mod", {int64_t{-7}, int64_t{3}})->toInt(), 2);
  EXPECT_EQ(run("_operator.mod", {int64_t{7}, int64_t{-3}})->toInt(), -2);
  EXPECT_EQ(run("_operator.pow", {int64_t{3}, int64_t{4}})->toInt(), 81);
  EXPECT_EQ(run("_operator.pow", {int64_t{4}, -0.5})->toDouble(), 0.5);
  EXPECT_EQ(run("_operator.truediv", {int64_t{1}, int64_t{4}})->toDouble(), 0.25);
  EXPECT_EQ(run("_operator.neg", {int64_t{5}})->toInt(), -5);
  EXPECT_TRUE(run("_operator.le", {int64_t{3}, 3.0})->toBool());
  EXPECT_FALSE(run("_operator.lt", {int64_t{3}, 3.0})->toBool());
  EXPECT_EQ(run("torch.sym_max", {int64_t{3}, int64_t{9}})->toInt(), 9);
  EXPECT_EQ(run("math.trunc", {-2.5})->toInt(), -2);
  EXPECT_EQ(run("math.floor", {-2.5})->toInt(), -3);
  EXPECT_EQ(run("torch.sym_float", {int64_t{3}})->toDouble(), 3.0);

  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run("_operator.add", {least, int64_t{-1}}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("_operator.neg", {least}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("_operator.floordiv", {least, int64_t{-1}}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("_operator.mod", {least, int64_t{-1}})->toInt(), 0);
  EXPECT_EQ(run("_operator.mod", {int64_t{1}, int64_t{0}}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("_operator.pow", {int64_t{10}, int64_t{60}}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("math.floor", {1e300}).error().code(), Code::kInvalid);
  EXPECT_EQ(run("_operator.call", {int64_t{1}}).error().code(), Code::kUnsupported);
  EXPECT_EQ(run("_operator.add", {int64_t{1}}).error().code(), Code::kUnsupported);
  EXPECT_EQ(run("_operator.add", {int64_t{1}, IValue()}).error().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ingot::client
