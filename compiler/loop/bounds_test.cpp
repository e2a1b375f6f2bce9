// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/bounds.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "compiler/loop/interpret.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

/// The conditions as "a >= 0, b >= 0", or the refusal; the kernel is what follows its first line.
std::string BoundsOf(int symbols, const std::string& body) {
  auto kernel = Parse("kernel k symbols " + std::to_string(symbols) + " {\n" + body + "}\n");
  if (!kernel) return kernel.error().ToText();
  if (Status status = Verify(*kernel); !status) return status.error().ToText();
  const auto conditions = ProveBounds(*kernel);
  if (!conditions) return conditions.error().ToText();
  std::string text;
  for (const Dim& condition : *conditions) text += (text.empty() ? "" : ", ") + condition.ToText() + " >= 0";
  return text;
}

TEST(Bounds, OfWholeTensorsNeedNothing) {
  EXPECT_EQ(BoundsOf(2, R"(
  param p0: in f32[s0*s1]
  param p1: in f32[s1]
  param p2: out f32[s0*s1]
  rows [s0]
  loop [s1] {
    %0 = load p0 [(s1)*i0 + j] : f32
    %1 = load p1 [j] : f32
    %2 = add %0, %1 : f32
    store p2 [(s1)*i0 + j] = %2
  }
)"),
            "");
}

TEST(Bounds, OfNumbersAreDecided) {
  const auto read = [](const std::string& at) {
    return BoundsOf(0, "  param p0: in f32[12]\n  param p1: out f32[8]\n  rows []\n  loop [8] {\n    %0 = load p0 [" +
                           at + "] : f32\n    store p1 [j] = %0\n  }\n");
  };
  EXPECT_EQ(read("j"), "");
  EXPECT_EQ(read("j + 4"), "");
  EXPECT_EQ(read("j + 5"), "unsupported: kernel k: load 0 of p0: may lie behind 12 elements");
  EXPECT_EQ(read("j + (-1)"), "unsupported: kernel k: load 0 of p0: may lie before 12 elements");
  EXPECT_EQ(read("2*j"), "unsupported: kernel k: load 0 of p0: may lie behind 12 elements");
  EXPECT_EQ(read("(-1)*j + 7"), "");
  EXPECT_EQ(read("(-1)*j + 6"), "unsupported: kernel k: load 0 of p0: may lie before 12 elements");
}

TEST(Bounds, OfQuotientsMinimaAndMaximaFollowFromWhatTheyAre) {
  const auto read = [](const std::string& extent, const std::string& at) {
    return BoundsOf(1, "  param p0: in f32[s0]\n  param p1: out f32[" + extent + "]\n  rows []\n  loop [" + extent +
                           "] {\n    %0 = load p0 [" + at + "] : f32\n    store p1 [j] = %0\n  }\n");
  };
  EXPECT_EQ(read("floordiv(s0 + 1, 2)", "2*j"), "");
  EXPECT_EQ(read("floordiv(s0, 3)", "3*j + 2"), "");
  EXPECT_EQ(read("floordiv(s0 + 1, 2)", "2*j + 1"), "s0 - 2*floordiv(s0 + 1, 2) >= 0");
  EXPECT_EQ(read("min(s0, 64)", "j"), "");
  EXPECT_EQ(read("min(s0, 64)", "j + (s0 - min(s0, 64))"), "");
  EXPECT_EQ(read("s0 - floordiv(s0, 2)", "j + (floordiv(s0, 2))"), "");
  EXPECT_EQ(read("max(s0, 4)", "j"), "s0 - max(s0, 4) >= 0");
}

TEST(Bounds, OfContractionsReachAllOfTheirDepth) {
  const auto read = [](const std::string& elements, const std::string& at) {
    return BoundsOf(3, "  param p0: in f32[s0*s2]\n  param p1: in f32[" + elements +
                           "]\n  param p2: out f32[s0*s1]\n  buffer b0: f32[s1]\n  rows [s0]\n"
                           "  contract [s1, s2] into b0 {\n    %0 = load p0 [(s2)*i0 + k] : f32\n    %1 = load p1 [" +
                           at + "] : f32\n    %2 = reduce_dot %0, %1 : f32\n  }\n  loop [s1] {\n" +
                           "    %3 = load b0 [j] : f32\n    store p2 [(s1)*i0 + j] = %3\n  }\n");
  };
  EXPECT_EQ(read("s1*s2", "(s2)*j + k"), "");
  EXPECT_EQ(read("s1*s2", "j + (s1)*k"), "");
  EXPECT_EQ(read("s1*s2", "(s2)*j + k + 1"), "unsupported: kernel k: load 1 of p1: may lie behind s1*s2 elements");
  EXPECT_EQ(read("s2", "j + k"), "-s1 + 1 >= 0");
}

TEST(Bounds, OfSlicesLeaveWhatTheSizesDecide) {
  const auto slice = [](const std::string& first, const std::string& length, const std::string& total) {
    return BoundsOf(2, "  param p0: in f32[4*s0]\n  param p1: out f32[" + total + "]\n  rows [4]\n  loop [" + length +
                           "] {\n    %0 = load p0 [(s0)*i0 + j + (" + first + ")] : f32\n    store p1 [(" + length +
                           ")*i0 + j] = %0\n  }\n");
  };
  EXPECT_EQ(slice("3", "s0 - 3", "4*s0 - 12"), "") << "it only runs where something is left";
  EXPECT_EQ(slice("0", "3", "12"), "s0 - 3 >= 0");
  EXPECT_EQ(slice("s0 - 3", "3", "12"), "s0 - 3 >= 0");
  EXPECT_EQ(slice("s0 - s1", "s1", "4*s1"), "s0 - s1 >= 0");
  EXPECT_EQ(slice("s1", "s0 - s1", "4*s0 - 4*s1"), "");
  // A start that no one counted from the front.
  EXPECT_EQ(slice("-s1", "s1", "4*s1"), "unsupported: kernel k: load 0 of p0: may lie before 4*s0 elements");
  EXPECT_EQ(slice("s0", "s1", "4*s1"), "unsupported: kernel k: load 0 of p0: may lie behind 4*s0 elements");
}

TEST(Bounds, OfPartsFollowFromTheirPredicates) {
  // cat of s0 and s1 columns, and the same without one of its comparisons.
  const auto cat = [](const std::string& first, const std::string& second) {
    return BoundsOf(2, R"(
  param p0: in f32[5*s0]
  param p1: in f32[5*s1]
  param p2: out f32[5*s0 + 5*s1]
  rows [5]
  loop [s0 + s1] {
    %0 = index [j] : i64
    %1 = size (s0) : i64
    %2 = lt %0, %1 : bool
    %3 = ge %0, %1 : bool
    %4 = load p0 [(s0)*i0 + j])" +
                           first + R"( : f32
    %5 = load p1 [(s1)*i0 + j + (-s0)])" +
                           second + R"( : f32
    %6 = select %2, %4, %5 : f32
    store p2 [(s0 + s1)*i0 + j] = %6
  }
)");
  };
  EXPECT_EQ(cat(" if %2", " if %3"), "");
  EXPECT_EQ(cat("", " if %3"), "unsupported: kernel k: load 4 of p0: may lie behind 5*s0 elements");
  EXPECT_EQ(cat(" if %2", ""), "unsupported: kernel k: load 5 of p1: may lie before 5*s1 elements");
}

TEST(Bounds, OfSeveralComparisonsAddUp) {
  // A pad of 1 on all four sides of [s0, s1].
  EXPECT_EQ(BoundsOf(2, R"(
  param p0: in f32[s0*s1]
  param p1: out f32[s0*s1 + 2*s0 + 2*s1 + 4]
  rows [s0 + 2]
  loop [s1 + 2] {
    %0 = index [j] : i64
    %1 = const 1 : i64
    %2 = ge %0, %1 : bool
    %3 = size (s1 + 1) : i64
    %4 = lt %0, %3 : bool
    %5 = and %2, %4 : bool
    %6 = index [i0] : i64
    %7 = ge %6, %1 : bool
    %8 = size (s0) : i64
    %9 = gt %6, %8 : bool
    %10 = not %9 : bool
    %11 = and %7, %10 : bool
    %12 = and %5, %11 : bool
    %13 = load p0 [(s1)*i0 + j + (-s1 - 1)] if %12 : f32
    store p1 [(s1 + 2)*i0 + j] = %13
  }
)"),
            "");
}

TEST(Bounds, OfIndicesReadFromTensorsNeedTheirCheck) {
  const auto gather = [](const std::string& check) {
    return BoundsOf(1, R"(
  param p0: in i64[s0]
  param p1: in f32[70]
  param p2: out f32[7*s0]
  rows [s0]
  row {
    %0 = load p0 [i0] : i64
    %1 = cast %0)" + check +
                           R"( : i64
  }
  loop [7] {
    %2 = load p1 [7*%1 + j] : f32
    store p2 [7*i0 + j] = %2
  }
)");
  };
  EXPECT_EQ(gather(" within (10)"), "");
  EXPECT_EQ(gather(" check (10)"), "");
  EXPECT_EQ(gather(" within (11)"), "unsupported: kernel k: load 2 of p1: may lie behind 70 elements");
  EXPECT_EQ(gather(""), "unsupported: kernel k: load 2 of p1: takes an index that nothing keeps within 70 elements");
}

TEST(Bounds, OfARowBlockHoldWithoutALoop) {
  // What is read once for a row is read where j counts to 0, too.
  const auto first = [](const std::string& predicate) {
    return BoundsOf(1, R"(
  param p0: in f32[4*s0]
  param p1: out f32[4]
  rows [4]
  row {
    %0 = size (s0) : i64
    %1 = const 0 : i64
    %2 = gt %0, %1 : bool
    %3 = load p0 [(s0)*i0])" +
                           predicate + R"( : f32
    store p1 [i0] = %3
  }
)");
  };
  EXPECT_EQ(first(" if %2"), "");
  EXPECT_EQ(first(""), "s0 - 1 >= 0");
}

TEST(Bounds, OfLoopsThatNeverRunNeedNothing) {
  EXPECT_EQ(BoundsOf(0, R"(
  param p0: in f32[0]
  param p1: out f32[5]
  rows [5]
  row {
    %0 = const 0 : i64
    %1 = const 0 : i64
    %2 = gt %0, %1 : bool
    %3 = load p0 [i0] if %2 : f32
    store p1 [i0] = %3
  }
  loop [0] {
    %5 = load p0 [i0 + j] : f32
    store p1 [i0] = %5
  }
)"),
            "");
}

TEST(Bounds, OfRowBuffers) {
  const auto buffer = [](const std::string& at) {
    return BoundsOf(1, R"(
  param p0: in f32[4*s0]
  param p1: out f32[4*s0]
  buffer b0: f32[s0]
  rows [4]
  loop [s0] {
    %0 = load p0 [(s0)*i0 + j] : f32
    store b0 [j] = %0
  }
  loop [s0] {
    %2 = load b0 [)" + at + R"(] : f32
    store p1 [(s0)*i0 + j] = %2
  }
)");
  };
  EXPECT_EQ(buffer("j"), "");
  EXPECT_EQ(buffer("j + 1"), "unsupported: kernel k: load 2 of b0: may lie behind s0 elements");
}

TEST(Bounds, RefuseNumbersThatLeaveTheirRange) {
  EXPECT_EQ(BoundsOf(0, R"(
  param p0: in f32[9007199254740992]
  param p1: out f32[9007199254740993]
  rows []
  loop [9007199254740992] {
    %0 = load p0 [j] : f32
    store p1 [j + 1] = %0
  }
)"),
            "unsupported: kernel k: sizes too large to reason about");
}

/// Kernels of one load, whose index, extents, predicate and buffer are drawn.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  std::string Kernel() {
    const std::string rows = Size(), loop = Size();
    const std::string at = "(" + Size() + ")*i0 + (" + Small() + ")*j + (" + Offset() + ")";
    std::string text = "kernel k symbols 2 {\n  param p0: in f32[" + Reached(rows, loop) + "]\n";
    text += "  param p1: in i64[1]\n  param p2: out f32[1]\n  rows [" + rows + "]\n  loop [" + loop + "] {\n";
    text += "    %0 = index [(" + Small() + ")*i0 + j] : i64\n    %1 = size (" + Size() + ") : i64\n";
    text += std::string("    %2 = ") + (Chance() ? "lt" : "ge") + " %0, %1 : bool\n";
    text += "    %3 = load p1 [0] : i64\n    %4 = cast %3 within (" + Size() + ") : i64\n";
    text += "    %5 = load p0 [" + at + (Chance() ? " + %4" : "") + "]" + (Chance() ? " if %2" : "") + " : f32\n";
    return text + "  }\n}\n";
  }

 private:
  bool Chance() { return random_() % 2 == 0; }
  std::string One(std::initializer_list<const char*> list) { return list.begin()[random_() % list.size()]; }
  std::string Size() { return One({"1", "3", "4", "s0", "s1", "s0 + 2", "2*s1", "s0 - 1", "s0 - s1"}); }
  std::string Small() { return One({"0", "1", "1", "2", "-1", "s0"}); }
  std::string Offset() { return One({"0", "0", "1", "-1", "s0", "-s1", "s0 - 3", "s0 - s1"}); }
  /// Often as many elements as the loops have points.
  std::string Reached(const std::string& rows, const std::string& loop) {
    const auto dim = [](const std::string& text) { return *Dim::Parse(text); };
    return (dim(rows) * dim(loop) + dim(One({"0", "0", "1", "2", "s0", "s1", "-1"}))).ToText();
  }

  std::mt19937_64 random_;
};

// Whatever is proved runs without leaving its buffers, at all sizes that the conditions let through.
TEST(Bounds, HoldWhereverTheyAreProved) {
  size_t proved = 0, with_conditions = 0, refused = 0, runs = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const std::string text = Draw(seed).Kernel();
    const auto kernel = Parse(text);
    ASSERT_TRUE(kernel) << text << kernel.error().ToText();
    ASSERT_TRUE(Verify(*kernel)) << text;
    const auto conditions = ProveBounds(*kernel);
    proved += conditions && conditions->empty();
    with_conditions += conditions && !conditions->empty();
    refused += !conditions;
    if (!conditions) continue;
    for (int64_t s0 = 0; s0 < 6; ++s0) {
      for (int64_t s1 = 0; s1 < 5; ++s1) {
        const int64_t symbols[] = {s0, s1};
        const auto holds = [&](const Dim& condition) { return condition.Eval(symbols) >= 0; };
        if (!std::all_of(conditions->begin(), conditions->end(), holds)) continue;
        const int64_t elements = std::max<int64_t>(kernel->params[0].elements.Eval(symbols), 0);
        std::vector<float> x(static_cast<size_t>(elements));
        std::vector<int64_t> picked = {static_cast<int64_t>(seed % 3)};
        float y = 0;
        void* buffers[] = {x.data(), picked.data(), &y};
        const int64_t rows = std::max<int64_t>(kernel->rows[0].Eval(symbols), 0);
        const Status status = Interpret(*kernel, buffers, symbols, 0, rows);
        ASSERT_TRUE(status || status.error().code() != Code::kInternal)
            << text << "at s0 = " << s0 << ", s1 = " << s1 << ": " << status.error().ToText();
        ++runs;
      }
    }
  }
  EXPECT_GT(proved, 200u);
  EXPECT_GT(with_conditions, 200u);
  EXPECT_GT(refused, 200u);
  EXPECT_GT(runs, 10'000u);
}

}  // namespace
}  // namespace ingot::compiler::loop
