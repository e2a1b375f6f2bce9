// SPDX-License-Identifier: Apache-2.0
//
// Sums that a running f32 gets wrong: many equal values, large ones that cancel, an offset that eats the rest.
#include <cmath>
#include <functional>

#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::ParamMode;
using loop::ScalarOp;

/// Two rows of neighbouring elements, or some rows that lie side by side.
struct Layout {
  bool is_columns;
  int64_t columns = 20;
  int64_t rows() const { return is_columns ? columns : 2; }
};

/// out[row] = sum over j of in[row, j], or of in[j, row].
loop::Kernel SumKernel(DType dtype, Layout layout, const Dim& extent) {
  const Dim rows(layout.rows());
  KernelMaker maker({rows}, extent.is_const() ? 0 : 1);
  const uint32_t in = maker.Param(dtype, ParamMode::kIn, rows * extent);
  const uint32_t out = maker.Param(dtype == DType::kF64 ? DType::kF64 : DType::kF32, ParamMode::kOut, rows);
  maker.Loop(extent);
  loop::Id value = maker.Load(in, layout.is_columns ? KernelMaker::At({Dim(1), rows}) : KernelMaker::At({extent, 1}));
  if (dtype == DType::kBF16) value = maker.Op(ScalarOp::kCast, DType::kF32, {value});
  const DType type = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const loop::Id sum = maker.Op(ScalarOp::kReduceSum, type, {value});
  maker.Row();
  maker.Store(out, KernelMaker::At({1, 0}), sum);
  return maker.kernel;
}

struct Shape {
  const char* name;
  std::function<double(int64_t j, int64_t count)> at;
};

const Shape kShapes[] = {
    {"equal", [](int64_t, int64_t) { return 0.1; }},
    {"equal at the end of a binade", [](int64_t, int64_t) { return 0.99999994; }},
    {"sorted", [](int64_t j, int64_t) { return 1.0 / static_cast<double>(j + 1); }},
    {"sorted upwards", [](int64_t j, int64_t count) { return 1.0 / static_cast<double>(count - j); }},
    {"large and small", [](int64_t j, int64_t) { return j % 2 == 0 ? 1e6 : 1e-3; }},
    {"offset", [](int64_t j, int64_t) { return 1e8 + static_cast<double>(j % 7); }},
    {"waves", [](int64_t j, int64_t) { return 1 + std::sin(static_cast<double>(j)); }},
};

/// The sum beside the errors of its additions: as good as twice the digits.
struct Reference {
  long double sum = 0, errors = 0;

  void Add(long double x) {
    const long double next = sum + x, rest = next - sum;
    errors += (sum - (next - rest)) + (x - rest);
    sum = next;
  }
  long double value() const { return sum + errors; }
};

/// Largest |sum found - sum| in units of the last place of the sum; all shapes add up positive numbers.
double WorstUlps(const TestKernel& test, DType dtype, Layout layout, int64_t count, const Shape& shape) {
  const int64_t rows = layout.rows();
  std::mt19937_64 unused(1);
  TestBuffers start;
  TestBuffer& in = start.emplace_back(dtype, rows * count, unused, false);
  std::vector<Reference> sums(static_cast<size_t>(rows));
  const size_t size = guards::SizeOf(dtype);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < count; ++j) {
      const auto at = static_cast<size_t>(layout.is_columns ? j * rows + row : row * count + j);
      loop::WriteElement(&in.bytes[at * size], dtype, {shape.at(j, count) * static_cast<double>(row + 1), 0});
      sums[static_cast<size_t>(row)].Add(in.At(at).f);
    }
  }
  const DType type = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  start.emplace_back(type, rows, unused, false);
  double worst = 0;
  for (const CompiledKernel& compiled : test.compiled()) {
    std::vector<int64_t> symbols;
    if (test.source().symbol_count > 0) symbols.push_back(count);
    const TestBuffers found = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, symbols, 0, rows), 0); });
    for (size_t row = 0; row < sums.size(); ++row) {
      const auto sum = static_cast<double>(sums[row].value());
      const double next =
          type == DType::kF64 ? std::nextafter(sum, INFINITY) : std::nextafterf(static_cast<float>(sum), INFINITY);
      const double ulp = next - (type == DType::kF64 ? sum : static_cast<float>(sum));
      worst = std::max(worst, static_cast<double>(std::fabs(found[1].At(row).f - sums[row].value())) / ulp);
    }
  }
  return worst;
}

// Chains of eight additions lose up to 3 units; a running f32 sum of 2^20 loses thousands.
TEST(Sums, LoseNoMoreThanShortChains) {
  for (const bool is_columns : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const bool is_const : {false, true}) {
        const int64_t count = is_columns ? 30011 : (1 << 20) + 37;
        const TestKernel test(SumKernel(dtype, {is_columns}, is_const ? Dim(count) : Dim::Symbol(0)));
        for (const Shape& shape : kShapes) {
          EXPECT_LE(WorstUlps(test, dtype, {is_columns}, count, shape), 3)
              << shape.name << (is_columns ? ", columns, " : ", rows, ") << NameOf(dtype);
        }
      }
    }
  }
}

TEST(Sums, HoldAtEveryLengthAroundTheChains) {
  for (const bool is_columns : {false, true}) {
    const TestKernel test(SumKernel(DType::kF32, {is_columns}, Dim::Symbol(0)));
    for (const int64_t count : {1, 7, 8, 9, 63, 64, 65, 127, 255, 256, 257, 511, 512, 513, 575, 576, 1023, 1025}) {
      EXPECT_LE(WorstUlps(test, DType::kF32, {is_columns}, count, kShapes[0]), 3) << count;
    }
  }
}

// Rows side by side are folded in chunks, and chunks in panels, wherever a call begins.
TEST(Sums, OfColumnsHaveTheSameBitsHoweverRowsAreSplit) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    constexpr int64_t kCount = 83;
    const Layout layout{true, 1500};
    const int64_t rows = layout.rows();
    const TestKernel test(SumKernel(dtype, layout, Dim::Symbol(0)));
    std::mt19937_64 random(3);
    TestBuffers start;
    start.emplace_back(dtype, rows * kCount, random, false);
    start.emplace_back(dtype == DType::kF64 ? DType::kF64 : DType::kF32, rows, random, false);
    for (const CompiledKernel& compiled : test.compiled()) {
      const auto in_pieces = [&](int64_t piece) {
        return After(start, [&](auto& p) {
          for (int64_t row = 0; row < rows; row += piece) {
            ASSERT_EQ(compiled.Run(p, {kCount}, row, std::min(rows, row + piece)), 0);
          }
        });
      };
      const TestBuffers whole = in_pieces(rows);
      for (const int64_t piece : {64, 100, 1000}) EXPECT_EQ(in_pieces(piece)[1].bytes, whole[1].bytes) << piece;
    }
  }
}

// Infinities and NaN are the sum's, not the total's.
TEST(Sums, KeepInfinitiesAndNaN) {
  constexpr int64_t kCount = 5000;
  for (const bool is_columns : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const Layout layout{is_columns};
      const TestKernel test(SumKernel(dtype, layout, Dim(kCount)));
      for (const double special : {INFINITY, -INFINITY, NAN}) {
        std::mt19937_64 random(1);
        TestBuffers start;
        start.emplace_back(dtype, layout.rows() * kCount, random, false);
        start.emplace_back(dtype, layout.rows(), random, false);
        loop::WriteElement(&start[0].bytes[777 * guards::SizeOf(dtype)], dtype, {special, 0});
        const auto row = static_cast<size_t>(is_columns ? 777 % layout.rows() : 0);
        for (const CompiledKernel& compiled : test.compiled()) {
          const TestBuffers found = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, {}, 0, layout.rows()), 0); });
          for (size_t r = 0; r < static_cast<size_t>(layout.rows()); ++r) {
            const double sum = found[1].At(r).f;
            if (r != row) {
              EXPECT_TRUE(std::isfinite(sum));
            } else if (std::isnan(special)) {
              EXPECT_TRUE(std::isnan(sum));
            } else {
              EXPECT_EQ(sum, special);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot::compiler
