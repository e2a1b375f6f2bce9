// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

// Attention, against what its definition says in double.
struct AttentionCase {
  const char* name;
  const char* mask;      ///< type of the mask, or none
  const char* rest;      ///< arguments after the mask
  int64_t heads, key_heads;
  bool is_causal;
};
class Attentions : public testing::TestWithParam<AttentionCase> {};

TEST_P(Attentions, AreOneKernel) {
  const AttentionCase& c = GetParam();
  constexpr int64_t kBatch = 2, kRows = 3, kKeys = 5, kDepth = 4, kWidth = 6;
  const std::string mask = c.mask;
  FusedProgram run(fmt::format(R"(graph @f(%q: f32[2, {0}, 3, 4], %k: f32[2, {1}, 5, 4], %v: f32[2, {1}, 5, 6]{2}) {{
  %0 = aten.scaled_dot_product_attention(%q, %k, %v, {3}, {4}) : f32[2, {0}, 3, 6]
  return %0
}})",
                               c.heads, c.key_heads, mask == "none" ? "" : ", %m: " + mask,
                               mask == "none" ? "none" : "%m", c.rest));
  ASSERT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 0u);
  std::mt19937 random(3);
  const auto fill = [&](int64_t count) {
    Values values(static_cast<size_t>(count));
    for (double& x : values) x = static_cast<double>(static_cast<int>(random() % 17) - 8) / 8;
    return values;
  };
  const Values q = fill(kBatch * c.heads * kRows * kDepth), k = fill(kBatch * c.key_heads * kKeys * kDepth),
               v = fill(kBatch * c.key_heads * kKeys * kWidth);
  run.Set(0, q), run.Set(1, k), run.Set(2, v);
  const bool is_bool = mask.starts_with("bool");
  Values m;
  if (mask != "none") {
    m = fill(kRows * kKeys);
    // Nothing is left of the last row.
    for (int64_t i = 0; is_bool && i < kRows * kKeys; ++i) m[i] = i < (kRows - 1) * kKeys && m[i] > -0.2;
    // Keys from the second to the third, then to the fourth; none in the last row.
    const bool hides = std::string(c.name) == "Hidden";
    for (int64_t i = 0; hides && i < kRows * kKeys; ++i) {
      const int64_t row = i / kKeys, key = i % kKeys;
      if (key < 1 || key > 2 + row || row == kRows - 1) m[i] = -kInf;
    }
    run.Set(3, m);
  }
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int64_t b = 0; b < kBatch * c.heads; ++b) {
    const int64_t key_head = b / c.heads * c.key_heads + b % c.heads / (c.heads / c.key_heads);
    for (int64_t r = 0; r < kRows; ++r) {
      Values weights(kKeys);
      double sum = 0;
      for (int64_t t = 0; t < kKeys; ++t) {
        double score = 0;
        for (int64_t d = 0; d < kDepth; ++d)
          score += q[(b * kRows + r) * kDepth + d] * k[(key_head * kKeys + t) * kDepth + d];
        score *= 0.5;
        if (mask != "none" && !is_bool) score += m[r * kKeys + t];
        const bool is_seen = !(is_bool && m[r * kKeys + t] == 0) && !(c.is_causal && t > r);
        weights[t] = is_seen ? std::exp(score) : 0;
        sum += weights[t];
      }
      for (int64_t n = 0; n < kWidth; ++n) {
        double want = 0;
        for (int64_t t = 0; t < kKeys; ++t) want += weights[t] * v[(key_head * kKeys + t) * kWidth + n];
        EXPECT_NEAR(got[(b * kRows + r) * kWidth + n], sum == 0 ? 0 : want / sum, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Attentions,
                         testing::Values(AttentionCase{"Plain", "none", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Causal", "none", "0.0, true, none, false", 2, 2, true},
                                         AttentionCase{"Shared", "none", "0.0, false, 0.5, true", 4, 2, false},
                                         AttentionCase{"SharedByAll", "none", "0.0, false, none, true", 4, 1, false},
                                         AttentionCase{"Masked", "bool[3, 5]", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Hidden", "f32[3, 5]", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Biased", "f32[1, 1, 3, 5]", "0.0, false, none, true", 4, 2,
                                                       false}),
                         [](const auto& info) { return info.param.name; });

TEST(Attention, StaysWhereItDrawsNumbers) {
  FusedProgram run(R"(graph @f(%q: f32[2, 3, 4], %k: f32[2, 5, 4], %v: f32[2, 5, 6]) {
  %0 = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.5, false, none, false) : f32[2, 3, 6]
  return %0
})");
  EXPECT_EQ(run.launches(), 0u);
}

}  // namespace
}  // namespace ingot::compiler
