// SPDX-License-Identifier: Apache-2.0
//
// Every elementwise operation and cast over every combination of the values where formulas go wrong: NaN, infinities,
// zeros of both signs, denormals, the ends of the types and what lies beyond the integers.

#include <limits>

#include <fmt/format.h>

#include "compiler/loop/ops.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::OpClass;
using loop::ParamMode;
using loop::Scalar;
using loop::ScalarOp;

constexpr DType kAll[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
                          DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

std::vector<Scalar> SpecialFloats() {
  using Float = std::numeric_limits<float>;
  std::vector<Scalar> values = {{NAN, 0}};
  for (const double magnitude : {0.0,
                                 0x1p-149,
                                 double{Float::min()},
                                 0x1p-24,
                                 0.25,
                                 0.5,
                                 1.0,
                                 1.5,
                                 2.0,
                                 2.5,
                                 3.0,
                                 88.7,
                                 127.5,
                                 128.0,
                                 255.5,
                                 256.0,
                                 32768.5,
                                 65504.0,
                                 65536.5,
                                 0x1p23 + 0.5,
                                 0x1p24 + 1,
                                 0x1p31 - 1,
                                 0x1p31,
                                 0x1p31 + 0.5,
                                 0x1p32 + 3,
                                 0x1p53 + 1,
                                 0x1p63,
                                 0x1p64,
                                 1e30,
                                 double{Float::max()},
                                 double{Float::infinity()}}) {
    values.push_back({magnitude, 0});
    values.push_back({-magnitude, 0});
  }
  return values;
}

std::vector<Scalar> SpecialIntegers(DType t) {
  const int64_t bits = t == DType::kBool ? 1 : 8 * static_cast<int64_t>(guards::SizeOf(t));
  const bool is_signed = t != DType::kU8 && t != DType::kBool;
  const auto highest = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
  std::vector<Scalar> values;
  for (const int64_t v : std::initializer_list<int64_t>{0, 1, 2, 3, 7, bits - 1, bits, highest - 1, highest}) {
    values.push_back({0, v & highest});
    if (is_signed) values.push_back({0, -v});
  }
  if (is_signed) values.push_back({0, -highest - 1});
  return values;
}

std::vector<Scalar> Specials(DType t) { return guards::IsFloat(t) ? SpecialFloats() : SpecialIntegers(t); }

bool HasSameSign(double a, double b) { return std::signbit(a) == std::signbit(b); }

/// Bits, except those of a NaN; a rounded result may be off by its last digits, but not in kind.
void ExpectSame(DType dtype, bool is_exact, Scalar got, Scalar want) {
  if (!guards::IsFloat(dtype)) {
    EXPECT_EQ(got.i, want.i);
  } else if (std::isnan(want.f) || std::isnan(got.f)) {
    EXPECT_EQ(std::isnan(got.f), std::isnan(want.f)) << got.f << " instead of " << want.f;
  } else if (is_exact) {
    EXPECT_TRUE(got.f == want.f && HasSameSign(got.f, want.f)) << got.f << " instead of " << want.f;
  } else {
    EXPECT_EQ(std::isinf(got.f), std::isinf(want.f)) << got.f << " instead of " << want.f;
    if (std::isfinite(want.f)) {
      EXPECT_NEAR(got.f, want.f, (dtype == DType::kF32 ? 0x1p-21 : 0x1p-50) * std::fabs(want.f) + 0x1p-148);
    }
  }
}

struct Operand {
  DType dtype;
  std::vector<Scalar> values;
};

/// out[j] = op(operands...) over all their combinations, interpreted and compiled.
void Check(ScalarOp op, DType result, const std::vector<Operand>& operands, bool is_exact) {
  size_t count = 1;
  for (const Operand& operand : operands) count *= operand.values.size();
  KernelMaker maker({Dim(1)}, 0);
  std::vector<uint32_t> inputs;
  const Dim extent(static_cast<int64_t>(count));
  for (const Operand& operand : operands) inputs.push_back(maker.Param(operand.dtype, ParamMode::kIn, extent));
  const uint32_t out = maker.Param(result, ParamMode::kOut, extent);
  maker.Loop(extent);
  std::vector<loop::Id> args;
  for (const uint32_t input : inputs) args.push_back(maker.Load(input, KernelMaker::At({0, 1})));
  maker.Store(out, KernelMaker::At({0, 1}), maker.Op(op, result, args));

  std::mt19937_64 unused(1);
  TestBuffers start;
  size_t stride = 1;
  for (const Operand& operand : operands) {
    TestBuffer& buffer = start.emplace_back(operand.dtype, static_cast<int64_t>(count), unused, false);
    const size_t size = guards::SizeOf(operand.dtype);
    for (size_t i = 0; i < count; ++i) {
      loop::WriteElement(&buffer.bytes[i * size], operand.dtype, operand.values[i / stride % operand.values.size()]);
    }
    stride *= operand.values.size();
  }
  start.emplace_back(result, static_cast<int64_t>(count), unused, false);
  const TestKernel test(maker.kernel);
  const TestBuffers oracle = After(start, [&](auto& p) { ASSERT_TRUE(loop::Interpret(maker.kernel, p, {}, 0, 1)); });
  for (const CompiledKernel& compiled : test.compiled()) {
    const TestBuffers found = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, {}, 0, 1), 0); });
    for (size_t i = 0; i < count; ++i) {
      ExpectSame(result, is_exact, found.back().At(i), oracle.back().At(i));
      if (!::testing::Test::HasFailure()) continue;
      std::string text(loop::TraitsOf(op).name);
      for (const TestBuffer& input : start) text += fmt::format(" {}/{}", input.At(i).f, input.At(i).i);
      FAIL() << compiled.level() << ": " << text;
    }
  }
}

class SpecialValues : public ::testing::TestWithParam<ScalarOp> {};

TEST_P(SpecialValues, AreTheInterpreters) {
  const ScalarOp op = GetParam();
  const loop::OpTraits& traits = loop::TraitsOf(op);
  for (const DType t : kAll) {
    const bool is_float = t == DType::kF32 || t == DType::kF64;
    const bool is_integer = guards::IsInteger(t);
    bool takes = is_float || is_integer;
    if (traits.cls == OpClass::kFloatArith) takes = is_float;
    if (traits.cls == OpClass::kIntArith) takes = is_integer;
    if (traits.cls == OpClass::kLogic) takes = is_integer || t == DType::kBool;
    if (traits.cls == OpClass::kCompare || traits.cls == OpClass::kSelect) takes |= t == DType::kBool;
    if (!takes) continue;
    std::vector<Operand> operands(traits.args, {t, Specials(t)});
    if (op == ScalarOp::kSelect) operands[0] = {DType::kBool, SpecialIntegers(DType::kBool)};
    Check(op, traits.cls == OpClass::kCompare ? DType::kBool : t, operands, loop::IsExact(op, t));
    if (HasFailure()) return;
  }
}

std::vector<ScalarOp> Elementwise() {
  std::vector<ScalarOp> ops;
  for (int op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kSelect); ++op) {
    ops.push_back(static_cast<ScalarOp>(op));
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, SpecialValues, ::testing::ValuesIn(Elementwise()),
                         [](const auto& info) { return std::string(loop::TraitsOf(info.param).name); });

TEST(SpecialValues, AreTheInterpretersInCasts) {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      if (from == to) continue;
      SCOPED_TRACE(std::string(NameOf(from)) + " to " + std::string(NameOf(to)));
      Check(ScalarOp::kCast, to, {{from, Specials(from)}}, true);
      if (HasFailure()) return;
    }
  }
}

// LLVM computes with constants itself, and may make anything of a cast that does not fit.
TEST(SpecialValues, AreTheInterpretersInCastsOfConstants) {
  for (const DType from : {DType::kF32, DType::kF64}) {
    for (const DType to : kAll) {
      if (guards::IsFloat(to)) continue;
      KernelMaker maker({Dim(1)}, 0);
      const std::vector<Scalar> values = SpecialFloats();
      const auto count = static_cast<int64_t>(values.size());
      const uint32_t out = maker.Param(to, ParamMode::kOut, count);
      maker.Row();
      for (int64_t i = 0; i < count; ++i) {
        const loop::Id value = maker.Const(from, values[static_cast<size_t>(i)].f, 0);
        maker.Store(out, KernelMaker::At({0, 0}, Dim(i)), maker.Op(ScalarOp::kCast, to, {value}));
      }
      ExpectSameAsInterpreter(TestKernel(maker.kernel), {}, 1);
      if (HasFailure()) return;
    }
  }
}

// What holds by itself, whatever the interpreter says.
TEST(SpecialValues, OutOfRangeCastsGiveTheMinimum) {
  using loop::CastScalar;
  constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMin64 = std::numeric_limits<int64_t>::min();
  for (const double v : {static_cast<double>(NAN), 1e30, -1e30, static_cast<double>(INFINITY)}) {
    EXPECT_EQ(CastScalar({v, 0}, DType::kF64, DType::kI32).i, kMin32);
    EXPECT_EQ(CastScalar({v, 0}, DType::kF64, DType::kI64).i, kMin64);
    EXPECT_EQ(CastScalar({v, 0}, DType::kF64, DType::kI16).i, 0);
    EXPECT_EQ(CastScalar({v, 0}, DType::kF64, DType::kU8).i, 0);
    EXPECT_EQ(CastScalar({v, 0}, DType::kF64, DType::kBool).i, 1);
  }
  EXPECT_EQ(CastScalar({3e9, 0}, DType::kF64, DType::kI32).i, kMin32);
  EXPECT_EQ(CastScalar({3e9 + 1, 0}, DType::kF64, DType::kU8).i, 1);
  EXPECT_EQ(CastScalar({-3.9, 0}, DType::kF64, DType::kU8).i, 253);
}

}  // namespace
}  // namespace ingot::compiler
