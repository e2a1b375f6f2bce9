// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Contract, ActivationsAndBiasFollowTheProduct) {
  FusedProgram run(
      R"(graph @f(%x: f32[5, 6], %w: f32[4, 6] weight "w", %v: f32[4, 6] weight "v", %b: f32[4] weight "b") {
  %0 = aten.linear(%x, %w, %b) : f32[5, 4]
  %1 = aten.silu(%0) : f32[5, 4]
  %2 = aten.linear(%x, %v, none) : f32[5, 4]
  %3 = aten.mul.Tensor(%1, %2) : f32[5, 4]
  return %3
})");
  EXPECT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 0u);
  EXPECT_EQ(run.KernelText(), R"(kernel k0_linear_silu_linear_mul symbols 0 {
  param p0: in f32[30]
  param p1: in f32[24]
  param p2: in f32[24]
  param p3: in f32[4]
  param p4: out f32[20]
  buffer b0: f32[4]
  buffer b1: f32[4]
  rows [5]
  contract [4, 6] into b0 {
    %0 = load p0 [6*i0 + k] : f32
    %1 = load p1 [6*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  contract [4, 6] into b1 {
    %3 = load p0 [6*i0 + k] : f32
    %4 = load p2 [6*j + k] : f32
    %5 = reduce_dot %3, %4 : f32
  }
  loop [4] {
    %6 = load b0 [j] : f32
    %7 = load p3 [j] : f32
    %8 = add %6, %7 : f32
    %9 = sigmoid %8 : f32
    %10 = mul %8, %9 : f32
    %11 = load b1 [j] : f32
    %12 = mul %10, %11 : f32
    store p4 [4*i0 + j] = %12
  }
}
)");
  Values x, w, v, b = {0.5, -1, 2, 0};
  for (int i = 0; i < 30; ++i) x.push_back((i * 7 % 11) / 4.0 - 1);
  for (int i = 0; i < 24; ++i) w.push_back((i * 5 % 13) / 8.0 - 0.5), v.push_back((i * 3 % 7) / 4.0 - 1);
  run.Set(0, x), run.Set(1, w), run.Set(2, v), run.Set(3, b);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 4; ++n) {
      double gate = b[n], up = 0;
      for (int k = 0; k < 6; ++k) gate += x[6 * m + k] * w[6 * n + k], up += x[6 * m + k] * v[6 * n + k];
      EXPECT_NEAR(got[4 * m + n], gate / (1 + std::exp(-gate)) * up, 1e-5);
    }
  }
}

TEST(Contract, BatchesBroadcastAndStayRows) {
  FusedProgram run(R"(graph @f(%a: f32[2, 3, 4, 5], %b: f32[3, 5, 6]) {
  %0 = aten.matmul(%a, %b) : f32[2, 3, 4, 6]
  return %0
})");
  ASSERT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  Values a, b;
  for (int i = 0; i < 120; ++i) a.push_back(i % 7 - 3);
  for (int i = 0; i < 90; ++i) b.push_back(i % 5 - 2);
  run.Set(0, a), run.Set(1, b);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int i = 0; i < 2 * 3 * 4 * 6; ++i) {
    const int n = i % 6, m = i / 6 % 4, h = i / 24 % 3, o = i / 72;
    double want = 0;
    for (int k = 0; k < 5; ++k) want += a[((o * 3 + h) * 4 + m) * 5 + k] * b[(h * 5 + k) * 6 + n];
    EXPECT_EQ(got[i], want) << i;
  }
}

TEST(Contract, ScaledAdditionsFollow) {
  FusedProgram run(R"(graph @f(%c: f32[3], %a: f32[2, 4], %b: f32[4, 3]) {
  %0 = aten.addmm(%c, %a, %b, 0.5, 2.0) : f32[2, 3]
  return %0
})");
  ASSERT_EQ(run.launches(), 1u);
  run.Set(0, {10, 20, 30});
  run.Set(1, {1, 2, 3, 4, 5, 6, 7, 8});
  run.Set(2, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), (Values{15, 22, 29, 31, 38, 45}));
}

// What is needed elsewhere as well is made once, and a cast that makes nothing smaller is no decoding.
TEST(Contract, ReadsFromMemoryWhatOthersNeed) {
  FusedProgram run(R"(graph @f(%x: f32[3, 6], %w: f32[4, 6] weight "w") {
  %0 = aten.mul.Tensor(%w, number 2.0) : f32[4, 6]
  %1 = aten.linear(%x, %0, none) : f32[3, 4]
  return %1
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
}

// Rows that are given out with other strides still share their right operand.
TEST(Contract, RowsThatShareTheRightOperandComeLast) {
  FusedProgram run(R"(graph @f(%a: f32[3, 4, 5], %b: f32[3, 6, 5]) {
  %0 = aten.transpose.int(%b, 1, 2) : f32[3, 5, 6] strides [30, 1, 5]
  %1 = aten.bmm(%a, %0) : f32[3, 4, 6]
  %2 = aten.transpose.int(%1, 0, 1) : f32[4, 3, 6] strides [6, 24, 1]
  %3 = aten.relu(%2) : f32[4, 3, 6]
  return %3
})");
  ASSERT_EQ(run.aten_steps(), 0u) << run.KernelText();
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
}

TEST(Contract, LeavesProductsThatTheTargetDoesNotTake) {
  const auto graph = Parse(R"(graph @f(%a: bf16[4, 5], %w: bf16[6, 5]) {
  %0 = aten.linear(%a, %w, none) : bf16[4, 6]
  return %0
})");
  ASSERT_TRUE(graph) << graph.error().ToText();
  std::map<NodeId, std::string> reasons;
  const auto is_of_rows = [](int64_t rows) {
    return [rows](const Graph& g, NodeId id) { return g.type(g.node(id).results[0]).sizes[0] == Dim(rows); };
  };
  const auto left = Fuse(*graph, &reasons, is_of_rows(3));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->launches.size(), 0u);
  EXPECT_EQ(reasons.begin()->second, "PyTorch's library multiplies these faster");
  EXPECT_EQ(Fuse(*graph, nullptr, is_of_rows(4))->launches.size(), 1u);
}

// What a fold needs, and operands that no vector can read, stay as they are.
TEST(Contract, LeavesWhatNoTileFits) {
  FusedProgram vectors(R"(graph @f(%a: f32[4, 5], %b: f32[5, 1]) {
  %0 = aten.mm(%a, %b) : f32[4, 1]
  return %0
})");
  EXPECT_EQ(vectors.launches(), 0u);
  FusedProgram scattered(R"(graph @f(%a: f32[4, 5] strides [1, 4], %b: f32[5, 3] strides [1, 5]) {
  %0 = aten.mm(%a, %b) : f32[4, 3]
  return %0
})");
  EXPECT_EQ(scattered.launches(), 0u);
  FusedProgram integers(R"(graph @f(%a: i64[4, 5], %b: i64[5, 3]) {
  %0 = aten.mm(%a, %b) : i64[4, 3]
  return %0
})");
  EXPECT_EQ(integers.launches(), 0u);
  FusedProgram folded(R"(graph @f(%a: f32[4, 5], %b: f32[5, 3]) {
  %0 = aten.mm(%a, %b) : f32[4, 3]
  %1 = aten.softmax.int(%0, -1, none) : f32[4, 3]
  return %1
})");
  EXPECT_EQ(folded.launches(), 2u);
}

}  // namespace
}  // namespace ingot::compiler
