// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices by tile registers, which an emulator stands for: values against the interpreter's, whatever the
// shape.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "compiler/loop/substitute.h"
#include "tests/support/compiler/compare.h"
#include "tests/support/compiler/product_shape.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using x86::TileEmulator;

/// Compares a kernel with the interpreter, by tile registers as well, which it must have a use for.
void ExpectTilesAgree(const loop::Kernel& kernel, const std::vector<int64_t>& symbols, uint64_t seed, double slack,
                      bool multiplies = true, bool specials = false) {
  if (!TileTarget()) GTEST_SKIP() << "needs AVX-512";
  const TestKernel test(kernel, TestKernel::For::kTiles);
  ASSERT_TRUE(test.has_tiles()) << loop::Print(kernel);
  TileEmulator::TakeProducts();
  ExpectSameAsInterpreter(test, symbols, seed, specials, slack);
  EXPECT_EQ(TileEmulator::TakeProducts() > 0, multiplies);
}

void ExpectTilesAgree(const ProductShape& shape, uint64_t seed) {
  const auto kernel = loop::Parse(TextOf(shape));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  const double slack = shape.is_integer() ? 0 : 1e-5 * static_cast<double>(shape.depth);
  ExpectTilesAgree(*kernel, {}, seed, slack, shape.depth > 0);
  // NaN and infinities show where an element goes that belongs to no product.
  constexpr int64_t kFewFactors = 40;
  if (shape.depth < kFewFactors) ExpectTilesAgree(*kernel, {}, seed + 1, slack, shape.depth > 0, /*specials=*/true);
}

TEST(TileRegisters, MultiplyBF16OfEveryShape) {
  // Whole tiles, and ends of rows, columns and depth: odd ones, less than a tile, one more than some.
  for (const int64_t rows : {16, 17, 32, 33, 70}) {
    for (const int64_t columns : {1, 16, 31, 65}) {
      for (const int64_t depth : {1, 2, 31, 32, 33, 100}) {
        ExpectTilesAgree(ProductShape{1, rows, columns, depth}, 3 + rows);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(TileRegisters, MultiplyInPiecesTasksAndBatches) {
  constexpr ProductShape kShapes[] = {{1, 300, 130, 70},
                                      {3, 20, 40, 48},
                                      {1, 16, 70, 1030},
                                      {1, 40, 33, 1111},
                                      {2, 33, 200, 520},
                                      {1, 16, 300, 64},
                                      {1, 64, 96, 0},
                                      {1, 513, 20, 36},
                                      {2, 18, 30, 37, "bf16", "bf16", true, 5},
                                      {1, 48, 64, 96, "bf16", "bf16", true, 1}};
  for (const ProductShape& shape : kShapes) {
    ExpectTilesAgree(shape, 11);
    if (HasFailure()) return;
  }
}

TEST(TileRegisters, MultiplyWhatLiesAlongColumns) {
  for (const std::string_view right : {"bf16", "i8"}) {
    for (const auto& [rows, columns, depth] :
         {std::tuple{16, 16, 32}, {17, 33, 31}, {40, 100, 70}, {33, 1, 1}, {20, 65, 1030}, {16, 20, 0}}) {
      ExpectTilesAgree(ProductShape{1, rows, columns, depth, "bf16", right, false}, 5);
      if (HasFailure()) return;
    }
  }
}

TEST(TileRegisters, MultiplyIntegersExactly) {
  for (const auto& [left, right] : {std::pair("i8", "i8"), {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}}) {
    for (const bool is_transposed : {true, false}) {
      for (const auto& [rows, columns, depth] : {std::tuple{16, 16, 64}, {33, 50, 63}, {20, 17, 130}, {40, 40, 2100}}) {
        ExpectTilesAgree(ProductShape{2, rows, columns, depth, left, right, is_transposed}, 7);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(TileRegisters, MultiplyWhatNarrowFloatsDecodeTo) {
  for (const std::string_view right : {"i8", "u8", "f8e4m3", "f8e5m2"}) {
    for (const std::string_view left : {"bf16", "f8e4m3"}) {
      ExpectTilesAgree(ProductShape{1, 20, 37, 45, left, right}, 9);
      if (HasFailure()) return;
    }
  }
}

// Which schedule is taken is a matter of time alone.
TEST(TileRegisters, GiveTheSameBitsByEachScheduleThatIsOffered) {
  if (!TileTarget()) GTEST_SKIP() << "needs AVX-512";
  const auto target = Target::Make(*TileTarget());
  ASSERT_TRUE(target);
  for (const std::string_view type : {"bf16", "i8"}) {
    const auto kernel = loop::Parse(TextOf(ProductShape{1, 300, 420, 70, type, type}));
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const size_t count = (*target)->Schedules(*kernel).size();
    ASSERT_GT(count, 1u);
    std::mt19937_64 random(5);
    TestBuffers start;
    for (const loop::Param& p : kernel->params) start.emplace_back(p.dtype, p.elements.const_value(), random, false);
    std::optional<TestBuffers> first;
    for (size_t i = 0; i < count; ++i) {
      const CompiledKernel compiled(*kernel, *TileTarget(), i, /*emulates=*/true);
      TestBuffers result = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, {}, 0, compiled.Tasks({})), 0); });
      if (!first) first = result;
      EXPECT_EQ(result.back().bytes, first->back().bytes) << i;
    }
  }
}

TEST(TileRegisters, MultiplyAtRandom) {
  constexpr uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  const auto upto = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (int i = 0; i < 60; ++i) {
    ProductShape shape{upto(2), 15 + upto(100), upto(120), upto(i % 8 == 0 ? 1200 : 150)};
    shape.right_is_transposed = random() % 2 == 0;
    shape.row_gap = random() % 2 == 0 ? 0 : upto(9);
    if (random() % 3 == 0) shape.left = shape.right = random() % 2 == 0 ? "i8" : "u8";
    ExpectTilesAgree(shape, random());
    if (HasFailure()) return;
  }
}

/// Rows of bf16, in groups that have a scale each or not, times columns that `decode` makes of elements in groups that
/// have one, and zero points besides.
struct Groups {
  int64_t rows = 16, columns = 16, groups = 1, size = 32;
  bool halves = false;      ///< of the right operand, a byte has an element of each half of a group
  bool has_zeros = false;   ///< a zero point for each group of a column
  bool scales_rows = false; ///< the left operand has a scale for each row, and for each group
};

std::string TextOf(const Groups& g) {
  const int64_t parts = g.halves ? 2 : 1, lanes = g.size / parts, depth = g.groups * g.size;
  std::string text = fmt::format(
      "kernel groups symbols 0 {{\n  param p0: in bf16[{}]\n  param p1: in {}[{}]\n  param p2: in f32[{}]\n"
      "  param p3: in u8[{}]\n  param p4: in f32[{}]\n  param p5: in f32[{}]\n  param p6: out f32[{}]\n"
      "  buffer b0: f32[{}]\n  rows [{}]\n  contract [{}, {}, {}, {}] into b0 {{\n",
      g.rows * depth, g.halves ? "u8" : "i8", g.columns * g.groups * lanes, g.columns * g.groups, g.columns * g.groups,
      g.rows, g.rows * g.groups, g.rows * g.columns, g.columns, g.rows, g.columns, g.groups, parts, lanes);
  int next = 0;
  const auto add = [&](std::string_view what) {
    text += fmt::format("    %{} = {}\n", next, what);
    return next++;
  };
  int left = add(fmt::format("load p0 [{}*i0 + {}*k0 + {}*k1 + k2] : bf16", depth, g.size, lanes));
  left = add(fmt::format("cast %{} : f32", left));
  if (g.scales_rows) {
    const int of_row = add("load p4 [i0] : f32");
    left = add(fmt::format("mul %{}, %{} : f32", left, of_row));
    const int of_group = add(fmt::format("load p5 [{}*i0 + k0] : f32", g.groups));
    left = add(fmt::format("mul %{}, %{} : f32", of_group, left));
  }
  int right = add(fmt::format("load p1 [{}*j + {}*k0 + k2] : {}", g.groups * lanes, lanes, g.halves ? "u8" : "i8"));
  if (g.halves) {
    const int by = add("index [4*k1] : i64");
    const int shift = add(fmt::format("cast %{} : u8", by));
    right = add(fmt::format("shr %{}, %{} : u8", right, shift));
    const int mask = add("const 15 : u8");
    right = add(fmt::format("and %{}, %{} : u8", right, mask));
  }
  right = add(fmt::format("cast %{} : f32", right));
  if (g.has_zeros) {
    int zero = add(fmt::format("load p3 [{}*j + k0] : u8", g.groups));
    // Of four bits, as what they are taken from.
    const int mask = add("const 15 : u8");
    zero = add(fmt::format("and %{}, %{} : u8", zero, mask));
    zero = add(fmt::format("cast %{} : f32", zero));
    right = add(fmt::format("sub %{}, %{} : f32", right, zero));
  }
  const int scale = add(fmt::format("load p2 [{}*j + k0] : f32", g.groups));
  right = add(fmt::format("mul %{}, %{} : f32", right, scale));
  add(fmt::format("reduce_dot %{}, %{} : f32", left, right));
  text +=
      fmt::format("  }}\n  loop [{0}] {{\n    %{1} = load b0 [j] : f32\n    store p6 [{0}*i0 + j] = %{1}\n  }}\n}}\n",
                  g.columns, next);
  return text;
}

TEST(TileRegisters, ScaleGroupsOfWhatTheyMultiply) {
  // Groups that fill tiles and that do not, in one piece of the first k and in several, one group, and none.
  constexpr Groups kGroups[] = {{16, 16, 3, 32},  {33, 40, 4, 20},  {40, 33, 2, 128}, {20, 17, 1, 64}, {17, 20, 40, 32},
                                {32, 64, 9, 160}, {16, 70, 20, 64}, {18, 20, 0, 32},  {19, 9, 2, 640}};
  for (Groups groups : kGroups) {
    for (const unsigned form : {0U, 1U, 2U, 3U, 4U, 6U, 7U}) {
      groups.halves = (form & 1U) != 0;
      groups.has_zeros = (form & 2U) != 0;
      groups.scales_rows = (form & 4U) != 0;
      const auto kernel = loop::Parse(TextOf(groups));
      ASSERT_TRUE(kernel) << kernel.error().ToText();
      const double slack = 2e-3 * static_cast<double>(groups.groups * groups.size);
      ExpectTilesAgree(*kernel, {}, 3 + form, slack, groups.groups > 0);
      if (HasFailure()) return;
    }
  }
}

TEST(TileRegisters, ScaleGroupsWhoseNumberIsKnownLater) {
  constexpr std::string_view kText = R"(kernel groups symbols 2 {
  param p0: in bf16[48*s0*s1]
  param p1: in i8[1920*s1]
  param p2: in f32[40*s1]
  param p3: out f32[40*s0]
  buffer b0: f32[40]
  rows [s0]
  contract [40, s1, 48] into b0 {
    %0 = load p0 [(48*s1)*i0 + 48*k0 + k1] : bf16
    %1 = cast %0 : f32
    %2 = load p1 [(48*s1)*j + 48*k0 + k1] : i8
    %3 = cast %2 : f32
    %4 = load p2 [(s1)*j + k0] : f32
    %5 = mul %3, %4 : f32
    %6 = reduce_dot %1, %5 : f32
  }
  loop [40] {
    %7 = load b0 [j] : f32
    store p3 [40*i0 + j] = %7
  }
}
)";
  const auto kernel = loop::Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  for (const auto& [rows, groups] : {std::pair{16, 1}, {3, 2}, {40, 7}, {20, 8}, {33, 30}, {17, 0}}) {
    ExpectTilesAgree(*kernel, {rows, groups}, 5, 2e-3 * 48 * groups, rows >= 16 && groups > 0);
    if (HasFailure()) return;
  }
}

/// Attention of bf16 of which each row sees the keys before its own: scores are products of tiles, and their weights,
/// which are of f32, are not.
TEST(TileRegisters, MultiplyWithinTheReachOfRows) {
  constexpr std::string_view kText = R"(kernel attention symbols 2 {
  param p0: in bf16[64*s0]
  param p1: in bf16[32*s1]
  param p2: in bf16[32*s1]
  param p3: out f32[64*s0]
  buffer b0: f32[s1]
  buffer b1: f32[32]
  rows [2, s0]
  row {
    %0 = index [i1 + (-20)] : i64
    %1 = index [i1 + 1] : i64
  }
  contract [s1, 32] into b0 over j [%0, %1) {
    %2 = load p0 [(32*s0)*i0 + 32*i1 + k] : bf16
    %3 = cast %2 : f32
    %4 = load p1 [32*j + k] : bf16
    %5 = cast %4 : f32
    %6 = reduce_dot %3, %5 : f32
  }
  loop [s1] over j [%0, %1) {
    %7 = load b0 [j] : f32
    %8 = reduce_max_number %7 : f32
  }
  loop [s1] over j [%0, %1) {
    %9 = load b0 [j] : f32
    %10 = sub %9, %8 : f32
    %11 = exp %10 : f32
    store b0 [j] = %11
    %13 = reduce_sum %11 : f32
  }
  contract [32, s1] into b1 over k [%0, %1) {
    %14 = load b0 [k] : f32
    %15 = load p2 [j + 32*k] : bf16
    %16 = cast %15 : f32
    %17 = reduce_dot %14, %16 : f32
  }
  loop [32] {
    %18 = load b1 [j] : f32
    %19 = const 1 : f32
    %20 = max %13, %19 : f32
    %21 = div %18, %20 : f32
    store p3 [(32*s0)*i0 + 32*i1 + j] = %21
  }
}
)";
  const auto kernel = loop::Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  for (const auto& [rows, keys] : {std::pair{16, 16}, {40, 70}, {100, 90}, {150, 20}, {5, 30}}) {
    ExpectTilesAgree(*kernel, {rows, keys}, 5, 1e-3, rows >= 16);
    if (HasFailure()) return;
    if (rows < 16) continue;
    const Dim known[] = {Dim(rows), Dim(keys)};
    ExpectTilesAgree(loop::Substitute(*kernel, known), {}, 6, 1e-3);
    if (HasFailure()) return;
  }
}

/// Memory that ends where a page begins that nobody may read.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::span<const uint8_t> bytes) : size_((bytes.size() + kPage - 1) / kPage * kPage + kPage) {
    base_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + size_ - kPage, kPage, PROT_NONE) != 0) std::abort();
    std::memcpy(base_ + size_ - kPage - bytes.size(), bytes.data(), bytes.size());
  }
  ~GuardedMemory() { munmap(base_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  uint8_t* at(size_t bytes) const { return base_ + size_ - kPage - bytes; }

 private:
  static constexpr size_t kPage = 4096;
  size_t size_;
  uint8_t* base_;
};

TEST(TileRegisters, ReadNothingBehindTheirOperands) {
  if (!TileTarget()) GTEST_SKIP() << "needs AVX-512";
  constexpr ProductShape kShapes[] = {{1, 17, 33, 32},
                                      {1, 33, 17, 64},
                                      {1, 40, 20, 33},
                                      {1, 16, 65, 100, "bf16", "bf16", false},
                                      {1, 20, 31, 70, "i8", "u8"},
                                      {1, 70, 16, 65, "u8", "i8", false}};
  for (const ProductShape& shape : kShapes) {
    const auto kernel = loop::Parse(TextOf(shape));
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const CompiledKernel compiled(*kernel, *TileTarget(), 0, /*emulates=*/true);
    std::mt19937_64 random(5);
    std::vector<std::unique_ptr<GuardedMemory>> memory;
    std::vector<void*> pointers;
    for (const loop::Param& p : kernel->params) {
      const TestBuffer buffer(p.dtype, p.elements.const_value(), random, false);
      memory.push_back(std::make_unique<GuardedMemory>(buffer.bytes));
      pointers.push_back(memory.back()->at(buffer.bytes.size()));
    }
    EXPECT_EQ(compiled.Run(pointers, {}, 0, compiled.Tasks({})), 0);
  }
}

TEST(TileRegisters, MultiplyAtSizesKnownLater) {
  constexpr std::string_view kText = R"(kernel product symbols 3 {
  param p0: in bf16[s0*s2]
  param p1: in bf16[s1*s2]
  param p2: out f32[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  contract [s1, s2] into b0 {
    %0 = load p0 [(s2)*i0 + k] : bf16
    %1 = cast %0 : f32
    %2 = load p1 [(s2)*j + k] : bf16
    %3 = cast %2 : f32
    %4 = reduce_dot %1, %3 : f32
  }
  loop [s1] {
    %5 = load b0 [j] : f32
    store p2 [(s1)*i0 + j] = %5
  }
}
)";
  const auto kernel = loop::Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  for (const auto& [rows, columns, depth] : {std::tuple{1, 20, 40},
                                             {15, 20, 40},
                                             {16, 33, 1},
                                             {17, 1, 999},
                                             {256, 40, 64},
                                             {270, 100, 33},
                                             {560, 97, 40},
                                             {16, 16, 0}}) {
    const std::vector<int64_t> sizes = {rows, columns, depth};
    ExpectTilesAgree(*kernel, sizes, 5, 1e-5 * depth, rows >= 16 && depth > 0);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::compiler
