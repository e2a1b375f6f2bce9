// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "tests/support/recording_builder.h"

namespace ingot::compiler {
namespace {

using namespace ingot::support;  // NOLINT: the builder's one-letter makers
using ::testing::HasSubstr;

std::string BodyOf(const Result<Graph>& graph) {
  if (!graph) return graph.error().ToText();
  const std::string text = Print(*graph);
  return text.substr(text.find(") {\n") + 4);
}

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

/// x[:, start:end:step] of [2, size], as a recording has it after eager cut it to `length`.
Buffer Slice(int64_t size, RecordedArg start, RecordedArg end, int64_t length, int64_t step = 1) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {2, size});
  const uint32_t y = r.View("aten::slice.Tensor", Args(V(x), I(1), std::move(start), std::move(end), I(step)),
                            {2, length}, {size, step}, size - length);
  return r.Finish({y});
}

TEST(Positions, OfSlicesCountFromTheFrontAndEndWithTheTensor) {
  const auto slice = [](Buffer recording) {
    const std::string text = BodyOf(ImportRecording(recording));
    return text.substr(0, text.find(" :"));
  };
  EXPECT_EQ(slice(Slice(8, I(-3), I(kEnd), 3)), "  %0 = aten.slice.Tensor(%x, 1, 5, 8, 1)");
  EXPECT_EQ(slice(Slice(8, Nil(), I(-3), 5)), "  %0 = aten.slice.Tensor(%x, 1, 0, 5, 1)");
  EXPECT_EQ(slice(Slice(8, Nil(), Nil(), 8)), "  %0 = aten.slice.Tensor(%x, 1, 0, 8, 1)");
  EXPECT_EQ(slice(Slice(8, I(-100), I(2), 2)), "  %0 = aten.slice.Tensor(%x, 1, 0, 2, 1)");
  EXPECT_EQ(slice(Slice(8, I(6), I(100), 2)), "  %0 = aten.slice.Tensor(%x, 1, 6, 8, 1)");
  EXPECT_EQ(slice(Slice(8, I(100), I(200), 0)), "  %0 = aten.slice.Tensor(%x, 1, 8, 8, 1)");
  EXPECT_EQ(slice(Slice(8, I(5), I(2), 0)), "  %0 = aten.slice.Tensor(%x, 1, 5, 5, 1)");
  EXPECT_EQ(slice(Slice(8, I(-7), I(-1), 3, 2)), "  %0 = aten.slice.Tensor(%x, 1, 1, 7, 2)");
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(slice(Slice(8, I(kLowest), I(1), 1)), "  %0 = aten.slice.Tensor(%x, 1, 0, 1, 1)");
}

TEST(Positions, OfPartsAndElementsCountFromTheFront) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6});
  const uint32_t row = r.View("aten::select.int", Args(V(x), I(-2), I(-1)), {6}, {1}, 18);
  const uint32_t part = r.View("aten::narrow", Args(V(x), I(1), I(-2), I(2)), {4, 2}, {6, 1}, 4);
  r.InPlace("aten::neg_", Args(V(part)));
  EXPECT_EQ(BodyOf(ImportRecording(r.Finish({row, part}))), R"(  %0 = aten.select.int(%x, -2, 3) : f32[6]
  %1 = aten.narrow(%x, 1, 4, 2) : f32[4, 2] strides [6, 1]
  %2 = aten.neg(%1) : f32[4, 2]
  %3 = aten.slice_scatter(%x, %2, 1, 4, 6, 1) : f32[4, 6]
  %4 = aten.select.int(%3, -2, 3) : f32[6]
  %5 = ingot.shares(%4, 0) : f32[6]
  %6 = aten.narrow(%3, 1, 4, 2) : f32[4, 2] strides [6, 1]
  %7 = ingot.shares(%6, 0) : f32[4, 2] strides [6, 1]
  write %x = %3
  return %5, %7
}
)");
}

TEST(Positions, OutsideOfTheirTensorAreNoRecording) {
  for (const int64_t index : {4, -5}) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {4, 6});
    const uint32_t row = r.View("aten::select.int", Args(V(x), I(0), I(index)), {6}, {1}, 0);
    const Result<Graph> graph = ImportRecording(r.Finish({row}));
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code(), Code::kCorrupt);
  }
}

std::string Unified(const Buffer& a, const Buffer& b) {
  const Result<Graph> first = ImportRecording(a), second = ImportRecording(b);
  if (!first || !second) return "no graphs";
  const Result<Graph> both = Unify(*first, *second);
  if (!both) return both.error().ToText();
  const std::string text = BodyOf(both);
  return text.substr(0, text.find(" :"));
}

TEST(Positions, OfTwoSizesMeetInATemplate) {
  EXPECT_EQ(Unified(Slice(8, I(-3), I(kEnd), 3), Slice(12, I(-3), I(kEnd), 3)),
            "  %0 = aten.slice.Tensor(%x, 1, s0 - 3, s0, 1)");
  EXPECT_EQ(Unified(Slice(8, I(1), I(-1), 6), Slice(12, I(1), I(-1), 10)),
            "  %0 = aten.slice.Tensor(%x, 1, 1, s0 - 1, 1)");
  // The last half, by a number that Python worked out: -4 of 8 and -6 of 12.
  EXPECT_THAT(Unified(Slice(8, I(-4), I(kEnd), 4), Slice(12, I(-6), I(kEnd), 6)), HasSubstr("fit no polynomial"));
}

// One of the two is cut off where the tensor ends: they are no instances of one template.
TEST(Positions, CutOffAtOneSizeOnlyDoNotMeet) {
  EXPECT_THAT(Unified(Slice(8, Nil(), I(10), 8), Slice(12, Nil(), I(10), 10)), HasSubstr("fit no polynomial"));
  EXPECT_THAT(Unified(Slice(9, I(-10), I(8), 8), Slice(12, I(-10), I(8), 6)), HasSubstr("fit no polynomial"));
}

TEST(Positions, OfAsStridedBeginWithItsOperand) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {12});
  const uint32_t tail = r.View("aten::slice.Tensor", Args(V(x), I(0), I(4), I(12), I(1)), {8}, {1}, 4);
  const uint32_t windows =
      r.View("aten::as_strided", Args(V(tail), IntList({3, 4}), IntList({2, 1}), Nil()), {3, 4}, {2, 1}, 4);
  const uint32_t later =
      r.View("aten::as_strided", Args(V(tail), IntList({2, 2}), IntList({3, 1}), I(6)), {2, 2}, {3, 1}, 6);
  EXPECT_EQ(BodyOf(ImportRecording(r.Finish({windows, later}))), R"(  %0 = aten.slice.Tensor(%x, 0, 4, 12, 1) : f32[8]
  %1 = aten.as_strided(%0, [3, 4], [2, 1], none) : f32[3, 4] strides [2, 1]
  %2 = aten.view(%0, [8]) : f32[8]
  %3 = aten.slice.Tensor(%2, 0, 2, 8, 1) : f32[6]
  %4 = aten.as_strided(%3, [2, 2], [3, 1], none) : f32[2, 2] strides [3, 1]
  %5 = ingot.shares(%1, 0) : f32[3, 4] strides [2, 1]
  %6 = ingot.shares(%4, 0) : f32[2, 2] strides [3, 1]
  return %5, %6
}
)");
}

TEST(Positions, OfAsStridedOutsideOfItsOperandAreRefused) {
  for (const int64_t offset : {0, 9}) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {12});
    const uint32_t tail = r.View("aten::slice.Tensor", Args(V(x), I(0), I(4), I(12), I(1)), {8}, {1}, 4);
    const uint32_t part =
        r.View("aten::as_strided", Args(V(tail), IntList({2, 2}), IntList({2, 1}), I(offset)), {2, 2}, {2, 1}, offset);
    EXPECT_THAT(BodyOf(ImportRecording(r.Finish({part}))), HasSubstr("outside of its operand"));
  }
}

// tensor_split may name pieces that overlap or come in any order.
TEST(Positions, OfPiecesAreToldFromWhereTheyLie) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {6, 2});
  const uint32_t a = r.ViewOf(x, {5, 2}, {2, 1});
  const uint32_t b = r.ViewOf(x, {0, 2}, {2, 1}, 10);
  const uint32_t c = r.ViewOf(x, {4, 2}, {2, 1}, 4);
  r.Step("aten::tensor_split.indices", Args(V(x), IntList({5, 2}), I(0)), Args(ValueList({a, b, c}))).is_view = true;
  r.InPlace("aten::neg_", Args(V(c)));
  EXPECT_EQ(BodyOf(ImportRecording(r.Finish({a, b}))),
            R"(  %0, %1, %2 = aten.tensor_split.indices(%x, [5, 2], 0) : f32[5, 2], f32[0, 2], f32[4, 2]
  %3 = aten.neg(%2) : f32[4, 2]
  %4 = aten.slice_scatter(%x, %3, 0, 2, 6, 1) : f32[6, 2]
  %5 = aten.slice.Tensor(%4, 0, 0, 5, 1) : f32[5, 2]
  %6 = ingot.shares(%5, 0) : f32[5, 2]
  %7 = aten.slice.Tensor(%4, 0, 0, 0, 1) : f32[0, 2]
  %8 = ingot.shares(%7, 0) : f32[0, 2]
  write %x = %4
  return %6, %8
}
)");
}

}  // namespace
}  // namespace ingot::compiler
