// SPDX-License-Identifier: Apache-2.0
//
// Contractions: tiles of rows and columns, ends of all of them, both ways along which vectors run.
#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/substitute.h"
#include "compiler/targets/llvm/contract/tiles.h"
#include "compiler/targets/llvm/schedules.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;

struct Product {
  std::string name;
  DType left = DType::kF32, right = DType::kF32, sum = DType::kF32, result = DType::kF32;
  bool right_is_transposed = true;  ///< right[N, K] rather than right[K, N]
};

/// result[b, m, n] = relu(sum over k of left[b, m, k] * right[b, n, k] + bias[n]); b = s0, m = s1, n = s2, k = s3.
std::string TextOf(const Product& p) {
  const auto name = [](DType t) { return guards::NameOf(t); };
  const auto load = [&](int number, int param, std::string_view index, DType t) {
    return fmt::format("    %{} = load p{} [{}] : {}\n    %{} = cast %{} : {}\n", number, param, index, name(t),
                       number + 1, number, name(p.sum));
  };
  std::string text = fmt::format(
      "kernel product symbols 4 {{\n  param p0: in {}[s0*s1*s3]\n  param p1: in {}[s0*s2*s3]\n  param p2: in {}[s2]\n"
      "  param p3: out {}[s0*s1*s2]\n  buffer b0: {}[s2]\n  rows [s0, s1]\n  contract [s2, s3] into b0 {{\n",
      name(p.left), name(p.right), name(p.sum), name(p.result), name(p.sum));
  text += load(0, 0, "(s1*s3)*i0 + (s3)*i1 + k", p.left);
  text += load(2, 1, p.right_is_transposed ? "(s2*s3)*i0 + (s3)*j + k" : "(s2*s3)*i0 + j + (s2)*k", p.right);
  text += fmt::format("    %4 = reduce_dot %1, %3 : {}\n  }}\n", name(p.sum));
  text += fmt::format(
      "  row {{\n    %5 = const 0 : {0}\n  }}\n  loop [s2] {{\n    %6 = load b0 [j] : {0}\n"
      "    %7 = load p2 [j] : {0}\n    %8 = add %6, %7 : {0}\n    %9 = max %8, %5 : {0}\n    %10 = cast %9 : {1}\n"
      "    store p3 [(s1*s2)*i0 + (s2)*i1 + j] = %10\n  }}\n}}\n",
      name(p.sum), name(p.result));
  return text;
}

class Contractions : public testing::TestWithParam<Product> {};

TEST_P(Contractions, AgreeWithTheInterpreterAtSizesKnownLater) {
  const auto kernel = loop::Parse(TextOf(GetParam()));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  const TestKernel test(*kernel);
  constexpr int64_t kSizes[][4] = {{1, 1, 1, 1},    {1, 1, 8, 16},   {2, 3, 7, 5},      {1, 5, 33, 15},
                                   {2, 64, 48, 32}, {1, 67, 50, 33}, {3, 1, 130, 64},   {1, 130, 9, 70},
                                   {1, 7, 3, 1100}, {1, 2, 5, 2100}, {1, 201, 70, 300}, {0, 3, 3, 3},
                                   {2, 0, 3, 3},    {2, 3, 0, 3},    {1, 9, 20, 0}};
  for (const auto& [b, m, n, k] : kSizes) {
    ExpectSameAsInterpreter(test, {b, m, n, k}, 11 + m, k < 64, 1e-5 * static_cast<double>(k));
    if (HasFailure()) return;
  }
}

TEST_P(Contractions, AgreeWithTheInterpreterAtSizesKnownBefore) {
  const auto kernel = loop::Parse(TextOf(GetParam()));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  constexpr int64_t kSizes[][4] = {{1, 1, 64, 128},   {1, 1, 37, 2052}, {1, 2, 24, 48},  {2, 3, 40, 33},
                                   {1, 4, 16, 64},    {1, 8, 96, 20},   {1, 66, 97, 64}, {1, 70, 4, 2500},
                                   {1, 33, 70, 40},   {2, 17, 130, 30}, {1, 65, 3, 7},   {1, 5, 37, 4200},
                                   {1, 12, 40, 1100}, {1, 15, 33, 70},  {2, 9, 17, 300}, {1, 198, 130, 272}};
  for (const auto& [b, m, n, k] : kSizes) {
    const Dim sizes[] = {Dim(b), Dim(m), Dim(n), Dim(k)};
    ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, sizes)), {}, 3 + n, false,
                            1e-5 * static_cast<double>(k));
    if (HasFailure()) return;
  }
}

std::vector<Product> Products() {
  std::vector<Product> all;
  for (const bool transposed : {true, false}) {
    const std::string_view way = transposed ? "AlongDepth" : "AlongColumns";
    all.push_back({fmt::format("F32{}", way), DType::kF32, DType::kF32, DType::kF32, DType::kF32, transposed});
    all.push_back({fmt::format("BF16{}", way), DType::kBF16, DType::kBF16, DType::kF32, DType::kBF16, transposed});
    all.push_back({fmt::format("F16{}", way), DType::kF16, DType::kF16, DType::kF32, DType::kF16, transposed});
    all.push_back({fmt::format("Mixed{}", way), DType::kF32, DType::kBF16, DType::kF32, DType::kF32, transposed});
    all.push_back({fmt::format("F8E4M3{}", way), DType::kF32, DType::kF8E4M3, DType::kF32, DType::kF32, transposed});
    all.push_back({fmt::format("F8E5M2{}", way), DType::kBF16, DType::kF8E5M2, DType::kF32, DType::kBF16, transposed});
    all.push_back({fmt::format("F64{}", way), DType::kF64, DType::kF64, DType::kF64, DType::kF64, transposed});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Contractions, testing::ValuesIn(Products()),
                         [](const auto& info) { return info.param.name; });

// Rows of two dims that share the columns and do not merge; `index`: where a result lies.
std::string Shared(std::string_view index) {
  return fmt::format(R"(kernel product symbols 4 {{
  param p0: in f32[s0*s1*s3]
  param p1: in f32[s2*s3]
  param p2: out f32[s0*s1*s2]
  buffer b0: f32[s2]
  rows [s0, s1]
  contract [s2, s3] into b0 {{
    %0 = load p0 [(s3)*i0 + (s0*s3)*i1 + k] : f32
    %1 = load p1 [(s3)*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }}
  loop [s2] {{
    %3 = load b0 [j] : f32
    %4 = add %3, %3 : f32
    store p2 [{}] = %4
  }}
}}
)",
                     index);
}

TEST(Contraction, TilesCountOverShortDimsOfRows) {
  constexpr int64_t kSizes[][4] = {{64, 2, 48, 32}, {3, 7, 20, 5}, {2, 64, 33, 16}, {5, 20, 64, 9}, {1, 130, 9, 40},
                                   {70, 3, 5, 3},   {4, 1, 16, 4}, {0, 3, 3, 3},    {2, 0, 3, 3},   {2, 17, 0, 3}};
  for (const auto& [index, moves] :
       {std::pair("(s1*s2)*i0 + (s2)*i1 + j", false), std::pair("(s1*s2)*i0 + i1 + (s1)*j", true)}) {
    const auto kernel = loop::Parse(Shared(index));
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const loop::Schedule schedule = x86::ScheduleOf(*kernel, {64});
    EXPECT_EQ(schedule.row_dims, 2U);
    EXPECT_EQ(!schedule.transposed.empty(), moves) << loop::Print(schedule);
    const TestKernel test(*kernel);
    for (const auto& [a, b, n, k] : kSizes) {
      ExpectSameAsInterpreter(test, {a, b, n, k}, 5 + a, true, 1e-5 * static_cast<double>(k));
      if (HasFailure()) return;
      const Dim sizes[] = {Dim(a), Dim(b), Dim(n), Dim(k)};
      ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, sizes)), {}, 3 + n, false,
                              1e-5 * static_cast<double>(k));
      if (HasFailure()) return;
    }
  }
}

// Which one is taken is a matter of time alone: numbers are promised to depend on the kernel and the target.
TEST(Contraction, GivesTheSameBitsByEachScheduleThatIsOffered) {
  size_t offered = 0;
  for (const auto& [type, transposed] :
       {std::pair(DType::kF32, true), std::pair(DType::kBF16, true), std::pair(DType::kF32, false)}) {
    const auto kernel = loop::Parse(TextOf({"", type, type, DType::kF32, type, transposed}));
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    for (const TargetSpec& spec : TestTargets()) {
      const auto target = Target::Make(spec);
      ASSERT_TRUE(target);
      const std::vector<loop::Schedule> schedules = (*target)->Schedules(*kernel);
      const CompiledKernel first(*kernel, spec);
      for (size_t i = 1; i < schedules.size(); ++i) {
        const CompiledKernel other(*kernel, spec, i);
        for (const auto& symbols :
             {std::vector<int64_t>{2, 3, 7, 5}, {1, 130, 410, 33}, {1, 67, 50, 1100}, {1, 200, 70, 300}}) {
          std::mt19937_64 random(5);
          TestBuffers start;
          for (const loop::Param& p : kernel->params)
            start.emplace_back(p.dtype, p.elements.Eval(symbols), random, true);
          const auto run = [&](const CompiledKernel& one) {
            return After(start, [&](auto& p) { ASSERT_EQ(one.Run(p, symbols, 0, one.Tasks(symbols)), 0); });
          };
          EXPECT_EQ(run(first).back().bytes, run(other).back().bytes)
              << spec.level << ", " << loop::Print(schedules[i]);
        }
      }
      offered += schedules.size() - 1;
    }
  }
  EXPECT_GE(offered, 27u);
}

// A pair of bf16 that is packed is one element: of a depth that may be odd, vectors along it are twice as fast.
TEST(Contraction, ManyRowsOfShortVectorsShareADensePanel) {
  constexpr int64_t kMany = 512, kFew = 32;
  const auto from = [](bool is_transposed, DType left, int64_t rows) {
    const auto kernel = loop::Parse(TextOf({"", left, DType::kF32, DType::kF32, DType::kF32, is_transposed}));
    if (!kernel) return int64_t{-1};
    const Dim sizes[] = {Dim(1), Dim(rows), Dim(1024), Dim(1024)};
    return x86::ScheduleOf(loop::Substitute(*kernel, sizes), {32}).contractions[0].packing.from;
  };
  for (const bool is_transposed : {true, false}) {
    EXPECT_EQ(from(is_transposed, DType::kF32, kMany), 1);
    EXPECT_EQ(from(is_transposed, DType::kF32, kFew), 0);
  }
  EXPECT_EQ(from(true, DType::kBF16, kMany), 1) << "rows are decoded first";
}

TEST(Contraction, PacksPairsOfKnownDepthsAlone) {
  const auto kernel = loop::Parse(TextOf({"", DType::kBF16, DType::kBF16, DType::kF32, DType::kBF16, true}));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  x86::VectorUnit unit;
  unit.bytes = 64;
  unit.dots_bf16 = unit.dots_bf16_fast = true;
  const auto packs = [&](const Dim& depth) {
    const Dim sizes[] = {Dim(1), Dim(64), Dim(96), depth};
    loop::Schedule schedule;
    x86::AddTiles(loop::Substitute(*kernel, sizes), unit, schedule);
    return schedule.contractions[0].packing.from != 0;
  };
  EXPECT_TRUE(packs(Dim(1024)));
  EXPECT_FALSE(packs(Dim(1023)));
  EXPECT_FALSE(packs(Dim::Symbol(0)));
  EXPECT_TRUE(packs(Dim(63))) << "few steps, which are not folded then";
}

// Where pairs are no faster than the f32 sums that they stand for, few rows take them, as memory is what those wait
// for.
TEST(Contraction, ManyRowsOfBF16TakePairsOnlyWhereThoseAreFast) {
  const auto kernel = loop::Parse(TextOf({"", DType::kBF16, DType::kBF16, DType::kF32, DType::kBF16, true}));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  x86::VectorUnit unit;
  unit.bytes = 64;
  unit.dots_bf16 = true;
  for (const bool is_fast : {true, false}) {
    unit.dots_bf16_fast = is_fast;
    for (const int64_t rows : {8, 64}) {
      const Dim sizes[] = {Dim(1), Dim(rows), Dim(1024), Dim(1024)};
      const loop::Kernel known = loop::Substitute(*kernel, sizes);
      const auto form = *loop::ContractionOf(known, known.blocks[0]);
      const loop::ContractionSchedule tile = x86::ScheduleOf(known, unit).contractions[0];
      EXPECT_EQ(tile.packing.from, rows == 8 ? 0 : 1);
      EXPECT_EQ(tile.packing.packs_a, rows == 64 && !is_fast);
      EXPECT_EQ(x86::PackedPairsOf(known, form, unit) == x86::Pairs::kBF16, is_fast);
      EXPECT_EQ(x86::PairsOf(known, form, unit), x86::Pairs::kBF16);
    }
  }
}

// A softmax between two products: attention of one head over keys and values, with rows that share them.
TEST(Contraction, FeedsFoldsAndWhatFollows) {
  constexpr std::string_view kText = R"(kernel attention symbols 2 {
  param p0: in f32[8*s0]
  param p1: in f32[8*s1]
  param p2: out f32[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  contract [s1, 8] into b0 {
    %0 = load p0 [8*i0 + k] : f32
    %1 = load p1 [8*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  loop [s1] {
    %3 = load b0 [j] : f32
    %4 = reduce_max %3 : f32
  }
  loop [s1] {
    %5 = load b0 [j] : f32
    %6 = sub %5, %4 : f32
    %7 = exp %6 : f32
    %8 = reduce_sum %7 : f32
  }
  loop [s1] {
    %9 = load b0 [j] : f32
    %10 = sub %9, %4 : f32
    %11 = exp %10 : f32
    %12 = div %11, %8 : f32
    store p2 [(s1)*i0 + j] = %12
  }
}
)";
  const auto kernel = loop::Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  EXPECT_EQ(loop::Print(*kernel), kText);
  const TestKernel test(*kernel);
  const std::vector<int64_t> all[] = {{1, 1}, {3, 70}, {67, 130}, {130, 5}};
  for (const std::vector<int64_t>& sizes : all) {
    ExpectSameAsInterpreter(test, sizes, 5, false, 1e-5);
  }
}

// Attention as fusion makes it: the left operand of the second product is a row buffer, of every row of the task.
TEST(Contraction, TakesRowBuffersOnTheLeft) {
  for (const std::string_view type : {"f32", "bf16"}) {
    const std::string text = fmt::format(R"(kernel attention symbols 2 {{
  param p0: in {0}[256*s0]
  param p1: in {0}[128*s1]
  param p2: in {0}[128*s1]
  param p3: in bool[s0*s1]
  param p4: out {0}[256*s0]
  buffer b0: f32[s1]
  buffer b1: f32[64]
  rows [2, 2, s0]
  contract [s1, 64] into b0 {{
    %0 = load p0 [(128*s0)*i0 + (64*s0)*i1 + 64*i2 + k] : {0}
    %1 = cast %0 : f32
    %2 = load p1 [(64*s1)*i0 + 64*j + k] : {0}
    %3 = cast %2 : f32
    %4 = reduce_dot %1, %3 : f32
  }}
  loop [s1] {{
    %5 = load b0 [j] : f32
    %6 = const 0.125 : f32
    %7 = mul %5, %6 : f32
    %8 = load p3 [(s1)*i2 + j] : bool
    %9 = const -inf : f32
    %10 = select %8, %7, %9 : f32
    store b0 [j] = %10
    %12 = reduce_max_number %10 : f32
  }}
  row {{
    %13 = const -inf : f32
    %14 = eq %12, %13 : bool
    %15 = const 0 : f32
    %16 = select %14, %15, %12 : f32
  }}
  loop [s1] {{
    %17 = load b0 [j] : f32
    %18 = sub %17, %16 : f32
    %19 = exp %18 : f32
    store b0 [j] = %19
    %21 = reduce_sum %19 : f32
  }}
  contract [64, s1] into b1 {{
    %22 = load b0 [k] : f32
    %23 = load p2 [(64*s1)*i0 + j + 64*k] : {0}
    %24 = cast %23 : f32
    %25 = reduce_dot %22, %24 : f32
  }}
  row {{
    %26 = const 0 : f32
    %27 = eq %21, %26 : bool
    %28 = recip %21 : f32
    %29 = select %27, %26, %28 : f32
  }}
  loop [64] {{
    %30 = load b1 [j] : f32
    %31 = mul %30, %29 : f32
    %32 = cast %31 : {0}
    store p4 [(128*s0)*i0 + (64*s0)*i1 + 64*i2 + j] = %32
  }}
}}
)",
                                         type);
    const auto kernel = loop::Parse(text);
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const TestKernel test(*kernel);
    const std::vector<int64_t> all[] = {{1, 1}, {3, 7}, {5, 130}, {67, 70}, {2, 0}, {0, 3}};
    for (const std::vector<int64_t>& sizes : all) {
      ExpectSameAsInterpreter(test, sizes, 5, false, 1e-4);
      if (HasFailure()) return;
    }
    const Dim known[] = {Dim(9), Dim(40)};
    ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, known)), {}, 6, false, 1e-4);
  }
}

/// Attention of which each row sees a part of the keys, from `first` to `end`.
std::string ReachingAttention(std::string_view first, std::string_view end, bool along_columns) {
  return fmt::format(R"(kernel attention symbols 3 {{
  param p0: in f32[2*s0*s2]
  param p1: in f32[s1*s2]
  param p2: in f32[s1*s2]
  param p3: out f32[2*s0*s2]
  param p4: in i64[s0]
  buffer b0: f32[s1]
  buffer b1: f32[s2]
  rows [2, s0]
  row {{
    %0 = load p4 [i1] : i64
    %1 = index [{0}] : i64
    %2 = index [{1}] : i64
  }}
  contract [s1, s2] into b0 over j [%1, %2) {{
    %3 = load p0 [(s0*s2)*i0 + (s2)*i1 + k] : f32
    %4 = load p1 [{2}] : f32
    %5 = reduce_dot %3, %4 : f32
  }}
  loop [s1] over j [%1, %2) {{
    %6 = load b0 [j] : f32
    %7 = reduce_max_number %6 : f32
  }}
  loop [s1] over j [%1, %2) {{
    %8 = load b0 [j] : f32
    %9 = sub %8, %7 : f32
    %10 = exp %9 : f32
    store b0 [j] = %10
    %12 = reduce_sum %10 : f32
  }}
  contract [s2, s1] into b1 over k [%1, %2) {{
    %13 = load b0 [k] : f32
    %14 = load p2 [{3}] : f32
    %15 = reduce_dot %13, %14 : f32
  }}
  loop [s2] {{
    %16 = load b1 [j] : f32
    %17 = const 1 : f32
    %18 = max %12, %17 : f32
    %19 = div %16, %18 : f32
    store p3 [(s0*s2)*i0 + (s2)*i1 + j] = %19
  }}
}}
)",
                     first, end, along_columns ? "j + (s1)*k" : "(s2)*j + k",
                     along_columns ? "(s1)*j + k" : "j + (s2)*k");
}

// What lies beyond a row's active range is not read, though rows are computed together: the interpreter finds NaN
// there.
TEST(Contraction, RunsOverTheReachOfItsRows) {
  constexpr std::pair<std::string_view, std::string_view> kReaches[] = {
      {"0", "i1 + 1"}, {"i1 + (-9)", "i1 + 1"}, {"3*i1 + (-70)", "2*i1 + 3"},
      {"0", "0"},      {"70*%0", "i1 + 90*%0"}, {"i1 + 40", "(-1)*i1 + 100"}};
  for (const auto& [first, end] : kReaches) {
    for (const bool along_columns : {false, true}) {
      const auto kernel = loop::Parse(ReachingAttention(first, end, along_columns));
      ASSERT_TRUE(kernel) << kernel.error().ToText();
      const TestKernel test(*kernel);
      const std::vector<int64_t> all[] = {{1, 1, 4}, {3, 7, 16}, {5, 130, 20}, {67, 70, 33}, {150, 150, 5}, {2, 0, 3}};
      for (const std::vector<int64_t>& sizes : all) {
        ExpectSameAsInterpreter(test, sizes, 5, false, 1e-4);
        if (HasFailure()) return;
      }
      for (const auto& [rows, keys, depth] : {std::tuple{1, 512, 64}, {4, 128, 64}, {70, 256, 64}, {20, 300, 31}}) {
        const Dim known[] = {Dim(rows), Dim(keys), Dim(depth)};
        ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, known)), {}, 6, false, 1e-4);
        if (HasFailure()) return;
      }
    }
  }
}

// Weights of 8 bits: cast, zero point and scale of each column are part of the operand, in memory nowhere else.
TEST(Contraction, DecodesItsOperands) {
  for (const bool is_transposed : {true, false}) {
    const std::string_view weight = is_transposed ? "(s2)*j + k" : "j + (s1)*k";
    const std::string text = fmt::format(R"(kernel quantised symbols 3 {{
  param p0: in bf16[s0*s2]
  param p1: in i8[s1*s2]
  param p2: in f32[s1]
  param p3: in i8[s1]
  param p4: out bf16[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  contract [s1, s2] into b0 {{
    %0 = load p0 [(s2)*i0 + k] : bf16
    %1 = cast %0 : f32
    %2 = load p1 [{}] : i8
    %3 = cast %2 : f32
    %4 = load p3 [j] : i8
    %5 = cast %4 : f32
    %6 = sub %3, %5 : f32
    %7 = load p2 [j] : f32
    %8 = mul %6, %7 : f32
    %9 = reduce_dot %1, %8 : f32
  }}
  loop [s1] {{
    %10 = load b0 [j] : f32
    %11 = cast %10 : bf16
    store p4 [(s1)*i0 + j] = %11
  }}
}}
)",
                                         weight);
    const auto kernel = loop::Parse(text);
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const TestKernel test(*kernel);
    const std::vector<int64_t> all[] = {{1, 9, 33}, {5, 50, 70}, {66, 3, 1030}, {2, 4, 0}};
    for (const std::vector<int64_t>& sizes : all) {
      ExpectSameAsInterpreter(test, sizes, 8, false, 1e-3 * static_cast<double>(sizes[2]));
      if (HasFailure()) return;
    }
  }
}

// Register tiles of different heights share a task: each ends within the room that the row buffers have.
TEST(Contraction, TilesOfBothKindsShareATask) {
  constexpr std::string_view kText = R"(kernel both symbols 3 {
  param p0: in f32[s0*s2]
  param p1: in f32[s1*s2]
  param p2: in f32[s1*s2]
  param p3: out f32[s0*s1]
  buffer b0: f32[s1]
  buffer b1: f32[s1]
  rows [s0]
  contract [s1, s2] into b0 {
    %0 = load p0 [(s2)*i0 + k] : f32
    %1 = load p1 [(s2)*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  contract [s1, s2] into b1 {
    %3 = load p0 [(s2)*i0 + k] : f32
    %4 = load p2 [j + (s1)*k] : f32
    %5 = reduce_dot %3, %4 : f32
  }
  loop [s1] {
    %6 = load b0 [j] : f32
    %7 = load b1 [j] : f32
    %8 = sub %6, %7 : f32
    store p3 [(s1)*i0 + j] = %8
  }
}
)";
  const auto kernel = loop::Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  const TestKernel test(*kernel);
  for (const int64_t rows : {1, 63, 64, 65, 66, 67, 131}) ExpectSameAsInterpreter(test, {rows, 100, 9}, 4, false, 1e-4);
  for (int64_t rows = 1; rows < 80; ++rows) {
    const Dim known[] = {Dim(rows), Dim(50), Dim(5)};
    ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, known)), {}, 4, false, 1e-4);
    if (HasFailure()) return;
  }
}

/// Weights in `groups` of 2 * `half` elements, which share a byte as halves of the group, or as neighbours.
std::string HalvesOf(int64_t rows, int64_t columns, int64_t groups, int64_t half, bool neighbours, bool has_zeros) {
  const int64_t depth = groups * 2 * half;
  std::string text = fmt::format(
      "kernel halves symbols 0 {{\n  param p0: in f32[{}]\n  param p1: in u8[{}]\n  param p2: in f32[{}]\n"
      "  param p3: in u8[{}]\n  param p4: out f32[{}]\n  buffer b0: f32[{}]\n  rows [{}]\n",
      rows * depth, columns * groups * half, columns * groups, columns * groups, rows * columns, columns, rows);
  text += fmt::format("  contract [{}, {}, 2, {}] into b0 {{\n    %0 = load p0 [{}*i0 + {}*k0 + {}] : f32\n", columns,
                      groups, half, depth, 2 * half, neighbours ? "k1 + 2*k2" : fmt::format("{}*k1 + k2", half));
  text += fmt::format("    %1 = index [4*k1] : i64\n    %2 = cast %1 : u8\n    %3 = load p1 [{}*j + {}*k0 + k2] : u8\n",
                      groups * half, half);
  text += "    %4 = shr %3, %2 : u8\n    %5 = const 15 : u8\n    %6 = and %4, %5 : u8\n    %7 = cast %6 : f32\n";
  text += has_zeros ? fmt::format("    %8 = load p3 [{}*j + k0] : u8\n    %9 = cast %8 : f32\n", groups)
                    : "    %8 = const 8 : u8\n    %9 = cast %8 : f32\n";
  text += fmt::format(
      "    %10 = sub %7, %9 : f32\n    %11 = load p2 [{0}*j + k0] : f32\n    %12 = mul %10, %11 : f32\n"
      "    %13 = reduce_dot %0, %12 : f32\n  }}\n  loop [{1}] {{\n    %14 = load b0 [j] : f32\n"
      "    store p4 [{1}*i0 + j] = %14\n  }}\n}}\n",
      groups, columns);
  return text;
}

TEST(Contraction, RunsOverGroupsAndPartsOfBytes) {
  // Rows, columns, groups, bytes of a group: vectors that fill it and do not, one row and so many that they are turned
  // over, in one round and in several.
  constexpr int64_t kSizes[][4] = {{1, 8, 3, 16},   {1, 37, 4, 20}, {1, 11, 3, 32},   {1, 5, 1, 300}, {1, 6, 2, 512},
                                   {2, 5, 1, 7},    {5, 33, 2, 32}, {70, 40, 3, 5},   {1, 9, 16, 1},  {17, 70, 9, 32},
                                   {150, 9, 5, 64}, {16, 65, 2, 1}, {33, 130, 1, 512}};
  for (const auto& [rows, columns, groups, half] : kSizes) {
    for (const bool neighbours : {false, true}) {
      const auto kernel = loop::Parse(HalvesOf(rows, columns, groups, half, neighbours, rows % 2 == 0));
      ASSERT_TRUE(kernel) << kernel.error().ToText();
      ExpectSameAsInterpreter(TestKernel(*kernel), {}, 3 + rows, false, 1e-4 * static_cast<double>(groups * half));
      if (HasFailure()) return;
    }
  }
}

/// Rows of bf16 or i8, decoded to be multiplied with what is of i8: in groups that have a scale, and as integers.
std::string RowsOf(std::string_view type, int64_t rows, int64_t columns, int64_t groups, int64_t size,
                   bool is_integer) {
  const std::string_view sum = is_integer ? "i32" : "f32";
  std::string text = fmt::format(
      "kernel row symbols 0 {{\n  param p0: in {0}[{1}]\n  param p1: in i8[{2}]\n  param p2: in f32[{3}]\n"
      "  param p3: out {4}[{9}]\n  buffer b0: {4}[{5}]\n  rows [{10}]\n  contract [{5}, {6}, {7}] into b0 {{\n"
      "    %0 = load p0 [{8}*i0 + {7}*k0 + k1] : {0}\n    %1 = cast %0 : {4}\n    %2 = load p1 [{8}*j + {7}*k0 + k1] : "
      "i8\n"
      "    %3 = cast %2 : {4}\n",
      type, rows * groups * size, columns * groups * size, columns * groups, sum, columns, groups, size, groups * size,
      rows * columns, rows);
  text += is_integer ? "    %4 = reduce_dot %1, %3 : i32\n  }\n"
                     : fmt::format(
                           "    %4 = load p2 [{}*j + k0] : f32\n    %5 = mul %3, %4 : f32\n"
                           "    %6 = reduce_dot %1, %5 : f32\n  }}\n",
                           groups);
  const int next = is_integer ? 5 : 7;
  text += fmt::format("  loop [{0}] {{\n    %{1} = load b0 [j] : {2}\n    store p3 [{0}*i0 + j] = %{1}\n  }}\n}}\n",
                      columns, next, sum);
  return text;
}

TEST(Contraction, StreamsTheColumnsOfFewRows) {
  constexpr int64_t kSizes[][3] = {{8, 1, 64},  {37, 3, 32},  {5, 2, 20},   {9, 4, 1},    {1, 1, 7},
                                   {6, 1, 640}, {12, 2, 200}, {33, 1, 129}, {3, 1, 9000}, {2, 0, 16}};
  for (const auto& [columns, groups, size] : kSizes) {
    for (const std::string_view type : {"bf16", "f16", "i8"}) {
      for (const bool is_integer : {false, true}) {
        if (is_integer && type != "i8") continue;
        for (const int64_t rows : {1, 2, 3, 5, 8, 9, 15}) {
          if (rows > 3 && groups * size > 1000) continue;
          const auto kernel = loop::Parse(RowsOf(type, rows, columns, groups, size, is_integer));
          ASSERT_TRUE(kernel) << kernel.error().ToText();
          const bool has_specials = is_integer;
          const double slack = is_integer ? 0 : 2e-3 * static_cast<double>(groups * size);
          ExpectSameAsInterpreter(TestKernel(*kernel), {}, 3 + columns, has_specials, slack);
          if (HasFailure()) return;
        }
      }
    }
  }
}

/// Sums of integers, along the depth or along the columns.
std::string IntegersOf(bool along_depth) {
  return fmt::format(R"(kernel integers symbols 3 {{
  param p0: in i8[s0*s2]
  param p1: in {0}[s1*s2]
  param p2: out i32[s0*s1]
  buffer b0: i32[s1]
  rows [s0]
  contract [s1, s2] into b0 {{
    %0 = load p0 [(s2)*i0 + k] : i8
    %1 = cast %0 : i32
    %2 = load p1 [{1}] : {0}
    %3 = cast %2 : i32
    %4 = reduce_dot %1, %3 : i32
  }}
  loop [s1] {{
    %5 = load b0 [j] : i32
    store p2 [(s1)*i0 + j] = %5
  }}
}}
)",
                     along_depth ? "i8" : "u8", along_depth ? "(s2)*j + k" : "j + (s1)*k");
}

TEST(Contraction, AddsUpIntegersExactly) {
  for (const bool along_depth : {true, false}) {
    const auto kernel = loop::Parse(IntegersOf(along_depth));
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const TestKernel test(*kernel);
    for (const auto& [m, n, k] : {std::tuple{1, 33, 64}, {5, 40, 31}, {66, 17, 100}, {3, 64, 3000}, {2, 3, 0}}) {
      const std::vector<int64_t> sizes = {m, n, k};
      ExpectSameAsInterpreter(test, sizes, 9 + m, false, 0);
      const Dim known[] = {Dim(m), Dim(n), Dim(k)};
      if (k > 0) ExpectSameAsInterpreter(TestKernel(loop::Substitute(*kernel, known)), {}, 9 + m, false, 0);
      if (HasFailure()) return;
    }
  }
}

/// A row of weights is asked for by way of the second cache where the processor's making says so, and nowhere else.
TEST(Contraction, FetchesWeightsAsTheProcessorReadsThemFastest) {
  const auto kernel = loop::Parse(TextOf({"", DType::kF32, DType::kF32, DType::kF32, DType::kF32, true}));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  const Dim sizes[] = {Dim(1), Dim(1), Dim(512), Dim(1024)};
  const loop::Kernel row = loop::Substitute(*kernel, sizes);
  for (const bool by_second : {false, true}) {
    const TargetSpec spec{"x86-64-v4",
                          by_second ? std::vector<std::string>{"avx512_fp16"} : std::vector<std::string>{}};
    const auto target = Target::Make(spec);
    ASSERT_TRUE(target) << target.error().ToText();
    const auto text = (*target)->Text(row, (*target)->BestSchedule(row), /*is_machine=*/true);
    ASSERT_TRUE(text) << text.error().ToText();
    EXPECT_EQ(text->find("prefetchnta") == std::string::npos, by_second);
    EXPECT_EQ(text->find("prefetcht1") != std::string::npos, by_second);
  }
}

}  // namespace
}  // namespace ingot::compiler
