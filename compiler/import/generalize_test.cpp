// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/generalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/ir/text.h"
#include "tests/support/recording_builder.h"

namespace ingot::compiler {
namespace {

using namespace ingot::support;  // NOLINT: the words of the builder
using guards::DType;
using proto::SizeOp;
using proto::SizeRelation;
using ::testing::HasSubstr;
using ::testing::Not;

struct Found {
  std::string text, range, error;
};

Found GeneralizationOf(const Buffer& bytes) {
  const Result<Generalized> generalized = Generalize(bytes);
  if (!generalized) return {"", "", generalized.error().ToText()};
  return {Print(generalized->graph), generalized->range.ToText(), ""};
}

TEST(Generalize, TiesSizesToNumbersTheProgramWrote) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6, 8});
  const uint32_t all = r.Expr(SizeOp::Mul, r.Expr(SizeOp::Size, x, 0), r.Expr(SizeOp::Size, x, 1));
  const uint32_t flat = r.View("aten::view", Args(V(x), IntList({24, 8})), {24, 8}, {8, 1});
  r.Sized(1, 0, all);
  const uint32_t y = r.Fresh(DType::kF32, {24, 8});
  r.Step("aten::relu", Args(V(flat)), Args(V(y)));
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_EQ(found.error, "");
  EXPECT_THAT(found.text, HasSubstr("%x: f32[s0, s1, 8]"));
  EXPECT_THAT(found.text, HasSubstr("aten.relu(%0) : f32[s0*s1, 8]"));
  EXPECT_EQ(found.range, "s0 >= 2 and s1 >= 2");
}

TEST(Generalize, TakesGuardsOverAsConditions) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12, 8});
  const uint32_t rows = r.Expr(SizeOp::Size, x, 0), columns = r.Expr(SizeOp::Size, x, 1);
  r.SizeGuard(SizeRelation::Less, r.Expr(SizeOp::Number, 10), rows);
  r.SizeGuard(SizeRelation::NotEqual, columns, r.Expr(SizeOp::Number, 5));
  const uint32_t y = r.Fresh(DType::kF32, {12, 8});
  r.Step("aten::relu", Args(V(x)), Args(V(y)));
  EXPECT_EQ(GeneralizationOf(r.Finish({y})).range, "s0 >= 11 and s1 >= 2 and s1 != 5");
}

/// Eager treats an input of 0 or 1 elements otherwise, whatever its size is computed of.
TEST(Generalize, KeepsSizesThatAreTiedToOthersAboveOne) {
  const auto range = [](int64_t size, SizeOp op, int64_t number) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {32}), y = r.Input("y", DType::kF32, {size});
    const uint32_t made = r.Expr(op, r.Expr(SizeOp::Size, x, 0), r.Expr(SizeOp::Number, number));
    r.SizeGuard(SizeRelation::Equal, r.Expr(SizeOp::Size, y, 0), made);
    const uint32_t z = r.Fresh(DType::kF32, {32});
    r.Step("aten::relu", Args(V(x)), Args(V(z)));
    return GeneralizationOf(r.Finish({z})).range;
  };
  EXPECT_EQ(range(8, SizeOp::FloorDiv, 4), "s0 >= 8");
  EXPECT_EQ(range(27, SizeOp::Sub, 5), "s0 >= 7");
}

/// No remainder by their common multiple is a condition, nor a 64-bit number.
TEST(Generalize, FixesWhatHugeDivisorsTie) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {35});
  const uint32_t size = r.Expr(SizeOp::Size, x, 0), five = r.Expr(SizeOp::Number, 5);
  const uint32_t fives = r.Expr(SizeOp::Mul, five, r.Expr(SizeOp::FloorDiv, size, five));
  const uint32_t huge = r.Expr(SizeOp::FloorDiv, size, r.Expr(SizeOp::Number, (int64_t{1} << 61) - 1));
  r.SizeGuard(SizeRelation::Equal, r.Expr(SizeOp::Add, fives, huge), size);
  const uint32_t y = r.Fresh(DType::kF32, {35});
  r.Step("aten::relu", Args(V(x)), Args(V(y)));
  EXPECT_THAT(GeneralizationOf(r.Finish({y})).error, HasSubstr("no size may differ"));
}

/// Python computes without an end: a number that an operator takes stays one that 64 bits and a double hold.
TEST(Generalize, AsksThatNumbersStayExact) {
  const auto scaled = [](int64_t rows, const std::function<uint32_t(RecordingBuilder&, uint32_t)>& number,
                         int64_t value) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {rows, 3});
    const uint32_t made = number(r, r.Expr(SizeOp::Size, x, 0));
    const uint32_t y = r.Fresh(DType::kF32, {rows, 3});
    r.Step("aten::mul.Scalar", Args(V(x), NumberOf(value)), Args(V(y)));
    r.Sized(1, 0, made);
    return GeneralizationOf(r.Finish({y}));
  };
  const auto cube = [](RecordingBuilder& r, uint32_t n) { return r.Expr(SizeOp::Mul, r.Expr(SizeOp::Mul, n, n), n); };
  const auto times = [](int64_t by) {
    return [by](RecordingBuilder& r, uint32_t n) { return r.Expr(SizeOp::Mul, n, r.Expr(SizeOp::Number, by)); };
  };
  EXPECT_EQ(scaled(7, cube, 343).range, "s0 >= 2 and s1 >= 2 and s0*s0*s0 <= 4503599627370496");
  EXPECT_EQ(scaled(7, times(1'000'000'000'000), 7'000'000'000'000).range, "s0 >= 2 and s1 >= 2 and s0 <= 4503");
  EXPECT_EQ(scaled(7, times(3), 21).range, "s0 >= 2 and s1 >= 2");
  // No condition says of a larger number that it fits: it is the one that was seen.
  const Found large = scaled(7, times(1'000'000'000'000'000'000), 7'000'000'000'000'000'000);
  EXPECT_THAT(large.text, HasSubstr("%x: f32[7, s0]"));
  EXPECT_THAT(large.text, HasSubstr("number 7000000000000000000"));
  // What nothing remains of, a coefficient beyond 64 bits is not taken for.
  const auto vanishing = [&](RecordingBuilder& r, uint32_t n) {
    const uint32_t none = r.Expr(SizeOp::Sub, n, r.Expr(SizeOp::Number, 7));
    const uint32_t some = r.Expr(SizeOp::Mul, none, r.Expr(SizeOp::Number, int64_t{1} << 62));
    return r.Expr(SizeOp::Mul, some, r.Expr(SizeOp::Number, 8));
  };
  EXPECT_THAT(scaled(7, vanishing, 0).text, HasSubstr("%x: f32[7, s0]"));
}

TEST(Generalize, FixesWhatNobodyFollows) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12, 8});
  r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.Fresh(DType::kF32, {12, 8});
  r.Step("my_ops::unknown", Args(V(x)), Args(V(y))).is_opaque = true;
  EXPECT_THAT(GeneralizationOf(r.Finish({y})).error, HasSubstr("no size may differ: my_ops.unknown"));
}

/// One row of a slice has no gap, two have one: what keeps the layout of an operand looks for it, and for the order.
TEST(Generalize, KeepsSizesOfOneApartWhereLayoutsDependOnThem) {
  const auto generalize = [](int64_t rows, Ints strides, bool is_turned = false) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {rows + 1, 6});
    r.Expr(SizeOp::Size, x, 0);
    const auto from = [&](uint32_t of, int64_t dim, int64_t begin, Ints sizes, int64_t offset) {
      return r.View("aten::slice.Tensor", Args(V(of), I(dim), I(begin), I(INT64_MAX), I(1)), sizes, {6, 1}, offset);
    };
    const uint32_t part = from(from(x, 0, 1, {rows, 6}, 6), 1, 3, {rows, 3}, 9);
    const uint32_t turned = is_turned ? r.View("aten::t", Args(V(part)), {3, rows}, {1, 6}, 9) : part;
    const uint32_t y = r.Fresh(DType::kF32, is_turned ? Ints{3, rows} : Ints{rows, 3}, std::move(strides));
    r.Step("aten::neg", Args(V(turned)), Args(V(y)));
    return GeneralizationOf(r.Finish({y}));
  };
  EXPECT_THAT(generalize(1, {6, 1}).text, HasSubstr("%x: f32[2, s0]"));
  EXPECT_EQ(generalize(2, {3, 1}).range, "s0 >= 2 and s1 >= 4");
  EXPECT_THAT(generalize(2, {3, 1}).text, HasSubstr("aten.neg(%1) : f32[s0 - 1, s1 - 3]"));
  EXPECT_THAT(generalize(1, {1, 1}, true).text, HasSubstr("%x: f32[2, s0]"));
  EXPECT_THAT(generalize(2, {1, 3}, true).range, HasSubstr("s0 >= 3"));
}

TEST(Generalize, ServesNumbersThatFitTheTypeTheyAreConvertedTo) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kU8, {4, 7});
  const uint32_t rows = r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.Fresh(DType::kU8, {4, 7});
  r.Step("aten::clamp", Args(V(x), I(4), Nil()), Args(V(y)));
  r.Sized(1, 0, rows);
  EXPECT_THAT(GeneralizationOf(r.Finish({y})).range, HasSubstr("s0 <= 255"));
}

/// Such a step makes no node, and yet asked for what an operator of its name asks for.
TEST(Generalize, HoldsSizesThatAnOperatorAskedForAndGaveItsOperandBack) {
  const auto generalize = [](const std::string& op, auto more) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {6, 4});
    r.Expr(SizeOp::Size, x, 0);
    std::vector<RecordedArg> args = Args(V(x));
    more(args);
    r.Step(op, std::move(args), Args(V(x)));
    const uint32_t y = r.Fresh(DType::kF32, {6, 4});
    r.Step("aten::relu", Args(V(x)), Args(V(y)));
    return GeneralizationOf(r.Finish({y}));
  };
  const auto nothing = [](std::vector<RecordedArg>&) {};
  const auto sizes = [](std::vector<RecordedArg>& args) { args.push_back(IntList({6, 4})); };
  EXPECT_THAT(generalize("aten::sum_to_size", sizes).error, HasSubstr("no size may differ: aten.sum_to_size"));
  EXPECT_THAT(generalize("aten::operator_that_nobody_knows", nothing).error, HasSubstr("no size may differ"));
  EXPECT_EQ(generalize("aten::atleast_2d", nothing).range, "s0 >= 2 and s1 >= 2");
  EXPECT_EQ(generalize("aten::positive", nothing).range, "s0 >= 2 and s1 >= 2");
}

TEST(Generalize, TiesSizesOfTensorsThatAreBroadcastToWhatTheyAre) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {6, 4}), z = r.Input("z", DType::kF32, {6, 4});
  const uint32_t w = r.Weight("w", DType::kF32, {4});
  r.Expr(SizeOp::Size, x, 0);
  r.Step("aten::broadcast_tensors", Args(ValueList({x, z})), Args(ValueList({x, z})));
  const uint32_t y = r.Fresh(DType::kF32, {6, 4}), sum = r.Fresh(DType::kF32, {4});
  r.Step("aten::relu", Args(V(x)), Args(V(y)));
  r.Step("aten::sum.dim_IntList", Args(V(z), IntList({0}), B(false), Nil()), Args(V(sum)));
  const Found found = GeneralizationOf(r.Finish({y, sum, w}));
  EXPECT_THAT(found.text, HasSubstr("%x: f32[s0, s1]"));
  EXPECT_THAT(found.text, HasSubstr("%z: f32[s0, s1]"));
}

TEST(Generalize, HoldsASizeThatARepeatWasTold) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {6, 4});
  r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.Fresh(DType::kF32, {12, 4});
  r.Step("aten::repeat_interleave.self_int", Args(V(x), I(2), I(0), I(12)), Args(V(y)));
  EXPECT_THAT(GeneralizationOf(r.Finish({y})).text, HasSubstr("%x: f32[6, s0]"));
}

TEST(Generalize, MakesQuotientsSizes) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {1, 3, 12, 14});
  const uint32_t w = r.Weight("w", DType::kF32, {8, 3, 3, 3});
  r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.Fresh(DType::kF32, {1, 8, 6, 7});
  r.Step("aten::conv2d", Args(V(x), V(w), Nil(), IntList({2, 2}), IntList({1, 1}), IntList({1, 1}), I(1)), Args(V(y)));
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_THAT(found.text, HasSubstr(": f32[1, 8, floordiv(s0 + 1, 2), floordiv(s1 + 1, 2)]"));
}

TEST(Generalize, FollowsQuotientsBelowZero) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {5, 12});
  const uint32_t rest = r.Expr(SizeOp::Mod, r.Expr(SizeOp::Number, -6), r.Expr(SizeOp::Size, x, 0));  // 4
  const uint32_t y = r.Fresh(DType::kF32, {5, 12});
  r.Step("aten::mul.Scalar", Args(V(x), NumberOf(int64_t{4})), Args(V(y)));
  r.Sized(1, 0, rest);
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_THAT(found.text, HasSubstr("aten.mul.Scalar(%x, number -s0*floordiv(-6, s0) - 6)"));
}

TEST(Generalize, SplitsADimThatDivides) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {5, 12});
  const uint32_t rows = r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.View("aten::view", Args(V(x), IntList({5, -1, 4})), {5, 3, 4}, {12, 4, 1});
  r.Sized(1, 0, rows);
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_THAT(found.text, HasSubstr(": f32[s0, floordiv(s1, 4), 4]"));
  EXPECT_THAT(found.range, HasSubstr("s1 % 4 == 0"));
}

TEST(Generalize, LeavesRemaindersOpenUntilTheyAreCompared) {
  const auto generalized = [](bool is_compared) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {5, 12});
    const uint32_t four = r.Expr(SizeOp::Number, 4);
    const uint32_t rest = r.Expr(SizeOp::Mod, r.Expr(SizeOp::Size, x, 0), four);
    if (is_compared) r.SizeGuard(SizeRelation::Equal, rest, r.Expr(SizeOp::Number, 1));
    const uint32_t y = r.Fresh(DType::kF32, {5, 12});
    r.Step("aten::mul.Scalar", Args(V(x), NumberOf(int64_t{1})), Args(V(y)));
    r.Sized(1, 0, rest);
    return GeneralizationOf(r.Finish({y}));
  };
  EXPECT_THAT(generalized(false).text, HasSubstr("aten.mul.Scalar(%x, number s0 - 4*floordiv(s0, 4))"));
  EXPECT_THAT(generalized(false).range, Not(HasSubstr("%")));
  EXPECT_THAT(generalized(true).range, HasSubstr("s0 % 4 == 1"));
}

TEST(Generalize, TiesWhatAViewSplitsToTheNumbersItSplitsInto) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {2, 5, 8});
  const uint32_t rows = r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.View("aten::view", Args(V(x), IntList({2, -1, 2, 4})), {2, 5, 2, 4}, {40, 8, 4, 1});
  r.Sized(1, 0, rows);
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_THAT(found.text, HasSubstr("%x: f32[s0, s1, 8]"));
  EXPECT_THAT(found.text, HasSubstr(": f32[s0, s1, 2, 4]"));
}

TEST(Generalize, AViewThatTookAllFixesItsBounds) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {3, 2});
  r.Expr(SizeOp::Size, x, 0);
  const uint32_t y = r.Fresh(DType::kF32, {3, 2});
  r.Step("aten::clone", Args(V(x), Nil()), Args(V(y)));
  const uint32_t last = r.View("aten::slice.Tensor", Args(V(y), I(1), I(-2), I(INT64_MAX), I(1)), {3, 2}, {2, 1});
  r.InPlace("aten::add_.Tensor", Args(V(last), NumberOf(int64_t{1}), NumberOf(int64_t{1})));
  const Found found = GeneralizationOf(r.Finish({y}));
  EXPECT_EQ(found.error, "");
  EXPECT_THAT(found.text, HasSubstr("%x: f32[s0, 2]"));
}

TEST(Generalize, RefusesWhatContradictsItself) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12, 8});
  const uint32_t rows = r.Expr(SizeOp::Size, x, 0);
  r.SizeGuard(SizeRelation::Less, rows, r.Expr(SizeOp::Number, 10));
  EXPECT_THAT(GeneralizationOf(r.Finish({x})).error, HasSubstr("contradict"));
}

TEST(Generalize, RefusesTermsThatNameLaterOnes) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12, 8});
  const uint32_t term = r.Expr(SizeOp::Add, 1, 0);
  r.SizeGuard(SizeRelation::Less, term, term);
  EXPECT_THAT(GeneralizationOf(r.Finish({x})).error, HasSubstr("later"));
}

TEST(Generalize, NeedsARecordingThatFollowsItsSizes) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12, 8});
  EXPECT_THAT(GeneralizationOf(r.Finish({x})).error, HasSubstr("does not follow its sizes"));
}

}  // namespace
}  // namespace ingot::compiler
