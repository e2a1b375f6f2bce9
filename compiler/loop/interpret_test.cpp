// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/interpret.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

Kernel Read(std::string_view text) {
  auto kernel = Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  return kernel ? *kernel : Kernel();
}

/// Runs a one-row kernel from x to y, both f32[n], with s0 = n.
std::vector<float> Map(std::string_view body, std::vector<float> x, size_t results) {
  const Kernel kernel = Read(
      "kernel k symbols 1 {\n  param p0: in f32[s0]\n  param p1: out f32[s0 "
      "+ 1]\n  rows []\n" +
      std::string(body) + "}\n");
  std::vector<float> y(x.size() + 1, -77);
  void* buffers[] = {x.data(), y.data()};
  const int64_t symbols[] = {static_cast<int64_t>(x.size())};
  const Status status = Interpret(kernel, buffers, symbols, 0, 1);
  EXPECT_TRUE(status) << status.error().ToText();
  y.resize(results);
  return y;
}

TEST(Interpret, SoftmaxOfEachRow) {
  const Kernel kernel = Read(R"(kernel softmax symbols 1 {
  param p0: in f32[3*s0]
  param p1: out f32[3*s0]
  buffer b0: f32[3]
  rows [s0]
  loop [3] {
    %0 = load p0 [3*i0 + j] : f32
    %1 = reduce_max %0 : f32
  }
  loop [3] {
    %2 = load p0 [3*i0 + j] : f32
    %3 = sub %2, %1 : f32
    %4 = exp %3 : f32
    %5 = reduce_sum %4 : f32
    store b0 [j] = %4
  }
  loop [3] {
    %7 = load b0 [j] : f32
    %8 = div %7, %5 : f32
    store p1 [3*i0 + j] = %8
  }
}
)");
  std::vector<float> x = {1, 2, 3, 1000, 1000, 1000}, y(6, -1);
  void* buffers[] = {x.data(), y.data()};
  const int64_t symbols[] = {2};
  ASSERT_TRUE(Interpret(kernel, buffers, symbols, 1, 2));
  EXPECT_EQ(y[0], -1) << "row 0 was not asked for";
  EXPECT_FLOAT_EQ(y[3], 1.0f / 3);
  ASSERT_TRUE(Interpret(kernel, buffers, symbols, 0, 2));
  EXPECT_FLOAT_EQ(y[2], std::exp(0.0f) / (1 + std::exp(-1.0f) + std::exp(-2.0f)));
  EXPECT_FALSE(Interpret(kernel, buffers, symbols, 0, 3)) << "there are two rows";
}

TEST(Interpret, ReductionsOfNothingGiveTheirIdentity) {
  constexpr std::string_view kBody = R"(
  loop [s0] {
    %0 = load p0 [j] : f32
    %1 = reduce_max %0 : f32
  }
  row {
    store p1 [0] = %1
  }
)";
  EXPECT_EQ(Map(kBody, {}, 1)[0], -kInf);
  EXPECT_EQ(Map(kBody, {-5, -3}, 1)[0], -3);
  EXPECT_TRUE(std::isnan(Map(kBody, {1, kNan, 2}, 1)[0]));
}

TEST(Interpret, MaximumNumberPassesNanOver) {
  constexpr std::string_view kBody = R"(
  loop [s0] {
    %0 = load p0 [j] : f32
    %1 = reduce_max_number %0 : f32
  }
  row {
    store p1 [0] = %1
  }
)";
  EXPECT_EQ(Map(kBody, {1, kNan, 2}, 1)[0], 2);
  EXPECT_EQ(Map(kBody, {kNan, kNan}, 1)[0], -kInf);
  EXPECT_EQ(Map(kBody, {}, 1)[0], -kInf);
}

TEST(Interpret, ArgMaxTakesTheFirstGreatestAndNanWins) {
  constexpr std::string_view kBody = R"(
  loop [s0] {
    %0 = load p0 [j] : f32
    %1 = reduce_argmax %0 : i64
  }
  row {
    %2 = cast %1 : f32
    store p1 [0] = %2
  }
)";
  EXPECT_EQ(Map(kBody, {1, 4, 4, 2}, 1)[0], 1);
  EXPECT_EQ(Map(kBody, {1, 4, kNan, kNan}, 1)[0], 2);
  EXPECT_EQ(Map(kBody, {-kInf, -kInf}, 1)[0], 0);
}

TEST(Interpret, ScansGiveWhatTheirReductionMakesOfThePlacesSoFar) {
  const auto scanned = [](std::string_view op, std::vector<float> x) {
    const std::string body = "  loop [s0] {\n    %0 = load p0 [j] : f32\n    %1 = " + std::string(op) +
                             " %0 : f32\n    store p1 [j] = %1\n  }\n";
    const size_t count = x.size();
    return Map(body, std::move(x), count);
  };
  EXPECT_EQ(scanned("scan_sum", {1, 2, -4, 0.5}), (std::vector<float>{1, 3, -1, -0.5}));
  EXPECT_EQ(scanned("scan_prod", {1, 2, -4, 0.5}), (std::vector<float>{1, 2, -8, -4}));
  EXPECT_EQ(scanned("scan_max", {1, 0, 3, 2}), (std::vector<float>{1, 1, 3, 3}));
  EXPECT_EQ(scanned("scan_min", {1, 2, -4, kInf}), (std::vector<float>{1, 1, -4, -4}));
  EXPECT_TRUE(std::isnan(scanned("scan_max", {1, kNan, 3})[2]));
  EXPECT_EQ(scanned("scan_sum", {16777216, 1, 1}), (std::vector<float>{16777216, 16777216, 16777218}))
      << "rounded at each place, not from place to place";
}

TEST(Interpret, PredicatesGuardLoadsAndStores) {
  constexpr std::string_view kBody = R"(
  loop [s0] {
    %0 = index [j] : i64
    %1 = const 1 : i64
    %2 = ge %0, %1 : bool
    %3 = load p0 [j + (-1)] if %2 : f32
    store p1 [j] = %3
  }
)";
  EXPECT_EQ(Map(kBody, {5, 6, 7}, 3), (std::vector<float>{0, 5, 6}));
}

TEST(Interpret, RefusesRowBuffersBeyondItsMemory) {
  for (const std::string extent : {"9223372036854775807", "16777217", "-1"}) {
    const Kernel kernel = Read("kernel k symbols 0 {\n  buffer b0: f32[" + extent + "]\n  rows []\n}\n");
    const Status status = Interpret(kernel, {}, {}, 0, 1);
    ASSERT_FALSE(status) << extent;
    EXPECT_EQ(status.error().code(), Code::kInvalid);
  }
}

TEST(Interpret, RefusesAccessOutsideTheBuffer) {
  const Kernel kernel = Read(R"(kernel k symbols 0 {
  param p0: in f32[2]
  rows []
  loop [3] {
    %0 = load p0 [j] : f32
  }
}
)");
  float x[3] = {};
  void* buffers[] = {x};
  const Status status = Interpret(kernel, buffers, {}, 0, 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().ToText(),
            "internal: kernel k: instruction 0, a load, accesses element 2 of p0, which has 2");
}

/// What a gather by `index` from {10, 20, 30} gives; 0 where it refuses.
float GatherOne(const std::string& check, int32_t index) {
  const Kernel kernel = Read(R"(kernel gather symbols 0 {
  param p0: in f32[3]
  param p1: in i32[1]
  param p2: out f32[1]
  rows []
  row {
    %0 = load p1 [0] : i32
    %1 = cast %0 )" + check + R"( : i64
    %2 = load p0 [%1] : f32
    store p2 [0] = %2
  }
}
)");
  float table[] = {10, 20, 30}, out = 0;
  void* buffers[] = {table, &index, &out};
  const Status status = Interpret(kernel, buffers, {}, 0, 1);
  EXPECT_EQ(status.has_value(), out != 0);
  return out;
}

TEST(Interpret, GatherWrapsNegativesAndRefusesTheRest) {
  EXPECT_EQ(GatherOne("check (3)", 2), 30);
  EXPECT_EQ(GatherOne("check (3)", -1), 30);
  EXPECT_EQ(GatherOne("check (3)", -3), 10);
  for (const int32_t bad : {3, -4}) EXPECT_EQ(GatherOne("check (3)", bad), 0) << bad;
}

TEST(Interpret, GatherWithinRefusesNegatives) {
  EXPECT_EQ(GatherOne("within (3)", 2), 30);
  EXPECT_EQ(GatherOne("within (3)", 0), 10);
  for (const int32_t bad : {3, -1, -3}) EXPECT_EQ(GatherOne("within (3)", bad), 0) << bad;
  EXPECT_EQ(GatherOne("within (0)", 0), 0) << "nothing lies within nothing";
}

TEST(Interpret, SumsSmallNumbersExactly) {
  constexpr std::string_view kBody = R"(
  loop [s0] {
    %0 = load p0 [j] : f32
    %1 = reduce_sum %0 : f32
  }
  row {
    store p1 [0] = %1
  }
)";
  std::vector<float> x(100001, 1e-4f);
  x[0] = 1e4f;
  EXPECT_FLOAT_EQ(Map(kBody, x, 1)[0], 10010.0f);
}

TEST(Scalar, HalfAndBFloatRoundTripEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(HalfToFloat(half))) {
      ASSERT_EQ(FloatToHalf(HalfToFloat(half)), half) << bits;
    }
    if (!std::isnan(BFloatToFloat(half))) {
      ASSERT_EQ(FloatToBFloat(BFloatToFloat(half)), half) << bits;
    }
  }
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(kNan))));
  EXPECT_TRUE(std::isnan(BFloatToFloat(FloatToBFloat(kNan))));
}

TEST(Scalar, Float8RoundsToTheNearestOfAllItsNumbers) {
  for (const DType type : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto byte = static_cast<uint8_t>(bits);
      const float value = Float8ToFloat(byte, type);
      if (std::isnan(value)) {
        EXPECT_EQ(FloatToFloat8(value, type), (byte & 0x80) | 0x7f);
        continue;
      }
      ASSERT_EQ(FloatToFloat8(value, type), byte);
      const float next = Float8ToFloat(static_cast<uint8_t>(byte + 1), type);
      if (!std::isfinite(value) || !std::isfinite(next) || (byte & 0x7f) == 0x7f) continue;
      const float middle = (value + next) / 2;
      EXPECT_EQ(FloatToFloat8(middle, type), bits % 2 == 0 ? byte : byte + 1) << bits;
      EXPECT_EQ(FloatToFloat8(std::nextafter(middle, value), type), byte) << bits;
      EXPECT_EQ(FloatToFloat8(std::nextafter(middle, next), type), byte + 1) << bits;
    }
  }
  EXPECT_EQ(FloatToFloat8(464.0f, DType::kF8E4M3), 0x7e);
  EXPECT_EQ(FloatToFloat8(1e9f, DType::kF8E4M3), 0x7e);
  EXPECT_EQ(FloatToFloat8(INFINITY, DType::kF8E4M3), 0x7e);
  EXPECT_EQ(FloatToFloat8(-61440.0f, DType::kF8E5M2), 0xfc);
  EXPECT_EQ(FloatToFloat8(61439.0f, DType::kF8E5M2), 0x7b);
}

TEST(Scalar, NarrowFloatsRoundHalfToEven) {
  EXPECT_EQ(FloatToHalf(2049.0f), FloatToHalf(2048.0f));
  EXPECT_EQ(FloatToHalf(2051.0f), FloatToHalf(2052.0f));
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.0f, -25)), 0);
  EXPECT_EQ(FloatToHalf(std::ldexp(3.0f, -26)), 1);
  EXPECT_EQ(FloatToBFloat(257.0f), FloatToBFloat(256.0f));
  EXPECT_EQ(FloatToBFloat(259.0f), FloatToBFloat(260.0f));
}

double Eval2(ScalarOp op, double a, double b) {
  const Scalar args[] = {{a, 0}, {b, 0}};
  return EvalScalar(op, DType::kF32, args).f;
}
int64_t EvalInt(ScalarOp op, DType type, int64_t a, int64_t b) {
  const Scalar args[] = {{0, a}, {0, b}};
  return EvalScalar(op, type, args).i;
}

double FloorDiv64(double a, double b) {
  const Scalar args[] = {{a, 0}, {b, 0}};
  return EvalScalar(ScalarOp::kFloorDiv, DType::kF64, args).f;
}

TEST(Scalar, FloorDivComesFromTheExactRemainder) {
  // Ten times the double nearest 0.1 is a little more than 1, though 1 / 0.1 rounds to 10.
  EXPECT_EQ(FloorDiv64(1, 0.1), 9);
  EXPECT_EQ(FloorDiv64(-1, 0.1), -10);
  EXPECT_EQ(FloorDiv64(6, 0.1), 59);
  EXPECT_EQ(FloorDiv64(7.5, -2), -4);
  EXPECT_EQ(FloorDiv64(5, -INFINITY), -1);
  EXPECT_EQ(FloorDiv64(5, INFINITY), 0);
  EXPECT_EQ(FloorDiv64(-1, 0.0), -INFINITY);
  EXPECT_TRUE(std::isnan(FloorDiv64(INFINITY, 2)));
  EXPECT_TRUE(std::signbit(FloorDiv64(-0.0, 3)));
  // Each step rounds to a float, which is one less here than rounding once at the end.
  EXPECT_EQ(Eval2(ScalarOp::kFloorDiv, -0x1.3c0dc6p+15, -0x1.c8e8p-8), 5802614);
}

TEST(Scalar, FollowsTorchOnEdges) {
  EXPECT_TRUE(std::isnan(Eval2(ScalarOp::kMax, 1, kNan)));
  EXPECT_TRUE(std::isnan(Eval2(ScalarOp::kMin, kNan, 1)));
  EXPECT_EQ(Eval2(ScalarOp::kRem, -7, 3), 2);
  EXPECT_EQ(Eval2(ScalarOp::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(Eval2(ScalarOp::kRound, 2.5, 0), 2);
  EXPECT_EQ(EvalInt(ScalarOp::kRem, DType::kI64, -7, 3), 2);
  EXPECT_EQ(EvalInt(ScalarOp::kFloorDiv, DType::kI64, -7, 2), -4);
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, DType::kI64, -7, 2), -3);
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, DType::kI64, 7, 0), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, DType::kI64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(EvalInt(ScalarOp::kAdd, DType::kU8, 250, 10), 4);
  EXPECT_EQ(EvalInt(ScalarOp::kMul, DType::kI8, 64, 2), -128);
  EXPECT_EQ(EvalInt(ScalarOp::kPow, DType::kI64, 3, 4), 81);
  EXPECT_EQ(EvalInt(ScalarOp::kNot, DType::kBool, 1, 0), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kShr, DType::kI32, -8, 40), -1);
  EXPECT_EQ(CastScalar({2.9, 0}, DType::kF32, DType::kI32).i, 2);
  EXPECT_EQ(CastScalar({0.5, 0}, DType::kF32, DType::kBool).i, 1);
  EXPECT_EQ(CastScalar({kNan, 0}, DType::kF32, DType::kBool).i, 1);
}

}  // namespace
}  // namespace ingot::compiler::loop
