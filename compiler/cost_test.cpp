// SPDX-License-Identifier: Apache-2.0
// What kernels and operators cost, against counts by hand at two sizes of one template.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/text.h"
#include "compiler/loop/cost.h"
#include "compiler/plan/aten_cost.h"

namespace ingot::compiler {
namespace {

/// A cost at one size.
struct Counted {
  int64_t flops = -1, read = 0, written = 0;
  DType dtype = DType::kF32;
};

Counted At(const Cost& cost, const std::vector<int64_t>& symbols) {
  const auto sum = [&](const std::vector<Moved>& list) {
    int64_t bytes = 0;
    for (const Moved& moved : list) bytes += std::min(moved.range.Eval(symbols), moved.accessed.Eval(symbols));
    return bytes;
  };
  return {cost.flops ? cost.flops->Eval(symbols) : -1, sum(cost.reads), sum(cost.writes), cost.dtype};
}

class Case {
 public:
  explicit Case(std::string_view text) {
    auto graph = Parse(text);
    EXPECT_TRUE(graph) << graph.error().ToText();
    if (graph) graph_ = *std::move(graph);
  }
  /// The one kernel that the graph becomes.
  Counted Kernel(const std::vector<int64_t>& sizes) const {
    const auto fused = Fuse(graph_);
    EXPECT_TRUE(fused);
    EXPECT_EQ(fused->launches.size(), 1u);
    if (!fused || fused->launches.size() != 1) return {};
    std::vector<int64_t> symbols;
    for (const Dim& symbol : fused->launches[0].symbols) symbols.push_back(symbol.Eval(sizes));
    return At(loop::CostOf(fused->kernels[fused->launches[0].kernel]), symbols);
  }
  /// The first node, as PyTorch runs it.
  Counted Aten(const std::vector<int64_t>& sizes) const {
    return At(AtenCostOf(graph_, graph_.node(graph_.order()[0])), sizes);
  }

 private:
  Graph graph_;
};

void Expect(const Counted& found, int64_t flops, int64_t read, int64_t written, DType dtype = DType::kF32) {
  EXPECT_EQ(found.flops, flops);
  EXPECT_EQ(found.read, read);
  EXPECT_EQ(found.written, written);
  EXPECT_EQ(found.dtype, dtype);
}

TEST(Cost, OfPointwiseOperators) {
  const Case add(R"(graph @f(%x: f32[s0, 8], %b: f32[8]) symbols(s0 = %x.dim(0)) {
  %0 = aten.mul.Tensor(%x, %x) : f32[s0, 8]
  %1 = aten.add.Tensor(%0, %b, 1) : f32[s0, 8]
  return %1
}
)");
  for (const int64_t n : {5, 1000}) {
    SCOPED_TRACE(n);
    Expect(add.Kernel({n}), 2 * n * 8, n * 8 * 4 + 8 * 4, n * 8 * 4);
    Expect(add.Aten({n}), n * 8, n * 8 * 4, n * 8 * 4);
  }
}

TEST(Cost, OfIntegersAndCastsIsMemoryAlone) {
  const Case add(R"(graph @f(%x: i64[s0]) symbols(s0 = %x.dim(0)) {
  %0 = aten.add.Tensor(%x, %x, 1) : i64[s0]
  return %0
}
)");
  Expect(add.Kernel({7}), 0, 56, 56);
  Expect(add.Aten({7}), 0, 56, 56);
}

TEST(Cost, OfFoldsPassesOverTheOperandOnce) {
  const Case softmax(R"(graph @f(%x: f32[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.softmax.int(%x, 1, none) : f32[s0, s1]
  return %0
}
)");
  const Case sum(R"(graph @f(%x: f32[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.sum.dim_IntList(%x, [1], false, none) : f32[s0]
  return %0
}
)");
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 100}, {64, 1024}}) {
    SCOPED_TRACE(rows);
    // Maximum, difference, power, sum and product of each element; one over the sum of each row.
    Expect(softmax.Kernel({rows, columns}), 5 * rows * columns + rows, rows * columns * 4, rows * columns * 4);
    EXPECT_EQ(softmax.Aten({rows, columns}).flops, -1);
    Expect(sum.Kernel({rows, columns}), rows * columns, rows * columns * 4, rows * 4);
    Expect(sum.Aten({rows, columns}), rows * columns, rows * columns * 4, rows * 4);
  }
}

constexpr std::string_view kTypedProduct = R"(graph @f(%x: TYPE[s0, 48], %w: TYPE[32, 48]) symbols(s0 = %x.dim(0)) {
  %0 = aten.linear(%x, %w, none) : TYPE[s0, 32]
  return %0
}
)";

std::string Of(std::string_view text, std::string_view type) {
  std::string result(text);
  for (size_t at; (at = result.find("TYPE")) != result.npos;) result.replace(at, 4, type);
  return result;
}

TEST(Cost, OfProductsIsTwoForEachPair) {
  for (const int64_t n : {1, 300}) {
    SCOPED_TRACE(n);
    for (const auto& [type, item, dtype] : {std::tuple{"f32", 4, DType::kF32}, {"bf16", 2, DType::kBF16}}) {
      SCOPED_TRACE(type);
      const Case product(Of(kTypedProduct, type));
      Expect(product.Kernel({n}), 2 * n * 32 * 48, (n * 48 + 32 * 48) * item, n * 32 * item, dtype);
      Expect(product.Aten({n}), 2 * n * 32 * 48, (n * 48 + 32 * 48) * item, n * 32 * item, dtype);
    }
  }
}

TEST(Cost, OfProductsThatPyTorchRunsKnowsBiasAndBatch) {
  const Case linear(R"(graph @f(%x: f32[s0, 5, 48], %w: f32[32, 48], %b: f32[32]) symbols(s0 = %x.dim(0)) {
  %0 = aten.linear(%x, %w, %b) : f32[s0, 5, 32]
  return %0
}
)");
  const Case batched(R"(graph @f(%x: f32[s0, 5, 48], %w: f32[s0, 48, 32]) symbols(s0 = %x.dim(0)) {
  %0 = aten.bmm(%x, %w) : f32[s0, 5, 32]
  return %0
}
)");
  for (const int64_t n : {2, 10}) {
    Expect(linear.Aten({n}), n * 5 * 32 * (2 * 48 + 1), (n * 5 * 48 + 32 * 48 + 32) * 4, n * 5 * 32 * 4);
    Expect(batched.Aten({n}), n * 5 * 32 * 2 * 48, (n * 5 * 48 + n * 48 * 32) * 4, n * 5 * 32 * 4);
  }
}

TEST(Cost, OfConvolutionsCountsTheWeightsOfEachResult) {
  const Case conv(R"(graph @f(%x: f32[s0, 8, 10, 10], %w: f32[16, 4, 3, 3], %b: f32[16]) symbols(s0 = %x.dim(0)) {
  %0 = aten.conv2d(%x, %w, %b, [1, 1], [1, 1], [1, 1], 2) : f32[s0, 16, 10, 10]
  return %0
}
)");
  for (const int64_t n : {1, 6}) {
    Expect(conv.Aten({n}), n * 1600 * (2 * 4 * 9 + 1), (n * 800 + 16 * 36 + 16) * 4, n * 1600 * 4);
  }
}

TEST(Cost, OfAttentionIsTwoProductsAndTheSoftmaxBetween) {
  const Case attention(
      R"(graph @f(%q: f32[2, 4, s0, 16], %k: f32[2, 4, s1, 16], %v: f32[2, 4, s1, 16])
    symbols(s0 = %q.dim(2), s1 = %k.dim(2)) {
  %0 = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.0, false, none, false) : f32[2, 4, s0, 16]
  return %0
}
)");
  for (const auto& [rows, keys] : {std::pair<int64_t, int64_t>{1, 128}, {50, 300}}) {
    SCOPED_TRACE(rows);
    const int64_t pairs = 8 * rows * keys, results = 8 * rows * 16;
    const int64_t read = (results + 2 * 8 * keys * 16) * 4;
    Expect(attention.Aten({rows, keys}), 2 * pairs * 32, read, results * 4);
    // Scale, maximum, difference, power and sum of each pair; the factor of each row; a product for each result.
    const int64_t between = 5 * pairs + 8 * rows + results;
    const Counted found = attention.Kernel({rows, keys});
    EXPECT_EQ(found.flops, 2 * pairs * 32 + between);
    EXPECT_EQ(found.read, read);
    EXPECT_EQ(found.written, results * 4);
  }
}

// Of a table as many rows as are asked for, and no more than there are.
TEST(Cost, OfGathersIsWhatTheyPick) {
  const Case embedding(R"(graph @f(%w: f32[1000, 16], %i: i64[s0]) symbols(s0 = %i.dim(0)) {
  %0 = aten.embedding(%w, %i, -1, false, false) : f32[s0, 16]
  return %0
}
)");
  for (const int64_t n : {3, 5000}) {
    SCOPED_TRACE(n);
    const int64_t table = std::min<int64_t>(n, 1000) * 64;
    Expect(embedding.Kernel({n}), 0, table + n * 8, n * 64);
    Expect(embedding.Aten({n}), 0, table + n * 8, n * 64);
  }
}

TEST(Cost, OfViewsWithGapsIsTheirElements) {
  const Case slice(R"(graph @f(%x: f32[s0, 100]) symbols(s0 = %x.dim(0)) {
  %0 = aten.slice.Tensor(%x, 1, 0, 10, 1) : f32[s0, 10] strides [100, 1]
  %1 = aten.exp(%0) : f32[s0, 10]
  return %1
}
)");
  Expect(slice.Kernel({4}), 40, 160, 160);
  Expect(slice.Kernel({4000}), 40000, 160000, 160000);
  EXPECT_EQ(slice.Aten({4}).read, 0) << "a view moves nothing";
}

TEST(Cost, OfOperatorsThatNobodyCountsIsMemoryAlone) {
  const Case sort(R"(graph @f(%x: f32[s0]) symbols(s0 = %x.dim(0)) {
  %0, %1 = aten.sort(%x, 0, false) : f32[s0], i64[s0]
  return %0, %1
}
)");
  Expect(sort.Aten({10}), -1, 40, 120);
  // Four products and two sums for one, or fewer, as who computes them likes.
  const Case complex(R"(graph @f(%x: c64[s0]) symbols(s0 = %x.dim(0)) {
  %0 = aten.mul.Tensor(%x, %x) : c64[s0]
  return %0
}
)");
  Expect(complex.Aten({10}), -1, 80, 80);
}

}  // namespace
}  // namespace ingot::compiler
