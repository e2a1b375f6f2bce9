// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kWorkOfValues = 1'000'000;

/// The first output of a graph of f32 inputs, which lie one after the other, contiguous.
class Evaluated {
 public:
  explicit Evaluated(const std::string& text, std::vector<std::vector<float>> inputs)
      : graph_(*Parse(text)), inputs_(std::move(inputs)), evaluation_(graph_, {}, kWorkOfValues, Narrow::kRounded) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ValueId value = graph_.inputs[i].value;
      std::vector<int64_t> strides;
      for (const Dim& stride : graph_.type(value).strides) strides.push_back(stride.const_value());
      evaluation_.Give(value, {inputs_[i].data(), 0, std::move(strides)});
    }
  }

  std::vector<double> Output() {
    std::vector<double> found;
    const ValueId value = graph_.outputs[0];
    for (int64_t i = 0; i < evaluation_.ElementsOf(value); ++i) found.push_back(evaluation_.At(value, i).f);
    return found;
  }
  const Status& status() const { return evaluation_.status(); }

 private:
  Graph graph_;
  std::vector<std::vector<float>> inputs_;
  Evaluation evaluation_;
};

TEST(Evaluation, ComputesElementsFromTheirNodes) {
  Evaluated sum(R"(graph @forward(%x: f32[2, 3], %y: f32[3]) {
  %0 = aten.add.Tensor(%x, %y, 1) : f32[2, 3]
  %1 = aten.sum.dim_IntList(%0, [0], false, none) : f32[3]
  return %1
})",
                {{1, 2, 3, 4, 5, 6}, {10, 20, 30}});
  EXPECT_THAT(sum.Output(), ElementsAre(25, 47, 69));
  EXPECT_TRUE(sum.status());
}

// Where the kernel has a producer behind the window, nothing lies outside of the image all the same.
TEST(Evaluation, HasZerosAroundWhatIsComputed) {
  Evaluated pooled(R"(graph @forward(%x: f32[1, 1, 3]) {
  %0 = aten.add.Tensor(%x, number 1.0, 1) : f32[1, 1, 3]
  %1 = aten.avg_pool1d(%0, [3], [1], [1], false, true) : f32[1, 1, 3]
  return %1
})",
                   {{2, 5, 8}});
  EXPECT_THAT(pooled.Output(), ElementsAre(3, 6, 5));
}

TEST(Evaluation, ReadsInputsAsTheyLie) {
  Evaluated transposed(R"(graph @forward(%x: f32[2, 3] strides [1, 2]) {
  %0 = aten.mul.Tensor(%x, number 2.0) : f32[2, 3]
  return %0
})",
                       {{1, 2, 3, 4, 5, 6}});
  EXPECT_THAT(transposed.Output(), ElementsAre(2, 6, 10, 4, 8, 12));
}

TEST(Evaluation, SaysWhatItCannotCompute) {
  Evaluated sorted(R"(graph @forward(%x: f32[3]) {
  %0, %1 = aten.sort(%x, -1, false) : f32[3], i64[3]
  return %0
})",
                   {{3, 1, 2}});
  sorted.Output();
  ASSERT_FALSE(sorted.status());
  EXPECT_EQ(sorted.status().error().code(), Code::kUnsupported);
  EXPECT_THAT(sorted.status().error().message(), HasSubstr("aten.sort"));
}

TEST(Evaluation, GivesUpWhereThereIsTooMuchToDo) {
  const Graph graph = *Parse(R"(graph @forward(%x: f32[1000]) {
  %0 = aten.sum.dim_IntList(%x, [0], true, none) : f32[1]
  return %0
})");
  const std::vector<float> x(1000, 1);
  Evaluation evaluation(graph, {}, 100, Narrow::kRounded);
  evaluation.Give(graph.inputs[0].value, {x.data(), 0, {1}});
  evaluation.At(graph.outputs[0], 0);
  ASSERT_FALSE(evaluation.status());
  EXPECT_EQ(evaluation.status().error().code(), Code::kExhausted);
}

}  // namespace
}  // namespace ingot::compiler
