// SPDX-License-Identifier: Apache-2.0
//
// Rounding to bf16 in vectors of every width: denormals, halves between two values and NaN, bit for bit.
#include "compiler/targets/llvm/widths.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::ParamMode;
using loop::ScalarOp;

/// in[row, j] as bf16; `is_columns`: rows lie side by side and are folded, so that vectors hold rows.
loop::Kernel NarrowKernel(bool is_columns, bool is_heavy) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({n}, 1);
  const uint32_t in = maker.Param(DType::kF32, ParamMode::kIn, Dim(3) * n);
  const uint32_t out = maker.Param(DType::kBF16, ParamMode::kOut, Dim(3) * n);
  const uint32_t sums = maker.Param(DType::kF32, ParamMode::kOut, n);
  if (!is_columns) maker.kernel.rows = {Dim(3)};
  const auto here = [&] { return is_columns ? KernelMaker::At({1, n}) : KernelMaker::At({n, 1}); };
  maker.Loop(is_columns ? Dim(3) : n);
  const loop::Id value = maker.Load(in, here());
  maker.Store(out, here(), maker.Op(ScalarOp::kCast, DType::kBF16, {value}));
  if (is_columns) {
    const loop::Id greatest = maker.Op(ScalarOp::kReduceMax, DType::kF32, {value});
    maker.Row();
    maker.Store(sums, KernelMaker::At({1, 0}), greatest);
  } else if (is_heavy) {
    // An elementary function in the same loop makes vectors twice as wide.
    maker.Store(sums, KernelMaker::At({0, 1}), maker.Op(ScalarOp::kExp, DType::kF32, {value}));
  }
  return maker.kernel;
}

std::vector<uint32_t> Patterns() {
  std::vector<uint32_t> patterns;
  for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
    for (uint32_t high = 0; high < 0x10000; high += high % 0x80 < 4 || high % 0x80 > 0x7c ? 1 : 13) {
      patterns.push_back(high << 16 | low);
    }
  }
  // Neighbours of one vector: denormals among others, and alone.
  std::mt19937 random(3);
  std::shuffle(patterns.begin(), patterns.end(), random);
  for (uint32_t i = 0; i < 200; ++i) patterns.push_back(0x3f800000 + 4099 * i);
  for (uint32_t i = 0; i < 70; ++i) patterns.push_back(i % 64 == 5 ? 0x00012345 : 0x40000000 + 4099 * i);
  return patterns;
}

uint16_t Rounded(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

class Narrow : public testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(Narrow, IsExactForEveryKindOfNumber) {
  const auto& [is_columns, is_heavy] = GetParam();
  const loop::Kernel kernel = NarrowKernel(is_columns, is_heavy);
  ASSERT_TRUE(loop::Verify(kernel)) << loop::Verify(kernel).error().ToText();
  ASSERT_EQ(x86::ReducesColumns(kernel), is_columns);
  const std::vector<uint32_t> patterns = Patterns();
  const TestKernel test(kernel);
  for (const CompiledKernel& compiled : test.compiled()) {
    SCOPED_TRACE(compiled.level());
    for (const size_t length : {size_t{7}, size_t{77}, patterns.size() / 3}) {
      std::vector<uint32_t> in(patterns.end() - static_cast<ptrdiff_t>(3 * length), patterns.end());
      std::vector<uint16_t> out(3 * length);
      std::vector<float> sums(length);
      const std::vector<int64_t> symbols = {static_cast<int64_t>(length)};
      ASSERT_EQ(compiled.Run({in.data(), out.data(), sums.data()}, symbols, 0, compiled.Tasks(symbols)), 0);
      for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], Rounded(in[i])) << std::hex << in[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Narrow,
                         testing::Values(std::pair(false, false), std::pair(false, true), std::pair(true, false)));

}  // namespace
}  // namespace ingot::compiler
