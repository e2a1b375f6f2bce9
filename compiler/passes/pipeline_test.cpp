// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/pipeline.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/graph_builder.h"
#include "compiler/ir/text.h"
#include "compiler/passes/evaluate.h"
#include "compiler/passes/rounding.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

Graph SmallGraph() {
  return *Parse(
      "graph @f(%x: f32[4]) { %0 = aten.neg(%x) : f32[4] "
      "%1 = aten.neg(%0) : f32[4] %2 = aten.silu(%1) : f32[4] return %2 }");
}

Result<std::vector<PassRun>> RunOne(Graph& graph, Pass pass) {
  Pipeline pipeline;
  pipeline.AddGroup({{"test-pass", std::move(pass)}});
  return pipeline.Run(graph, {});
}

TEST(Pipeline, RefusesAPassThatHidesItsChange) {
  Graph graph = SmallGraph();
  const auto runs = RunOne(graph, [](Graph& g) -> Result<bool> {
    g.SetOutputs(std::vector<ValueId>(g.outputs.size() + 1, g.outputs[0]));
    return false;
  });
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().code(), Code::kInternal);
  EXPECT_THAT(runs.error().message(), HasSubstr("test-pass"));
}

TEST(Pipeline, RefusesAPassThatClaimsAChange) {
  Graph graph = SmallGraph();
  const auto runs = RunOne(graph, [](Graph&) -> Result<bool> { return true; });
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().code(), Code::kInternal);
}

TEST(Pipeline, VerifiesAfterEveryChange) {
  Graph graph = SmallGraph();
  const auto runs = RunOne(graph, [](Graph& g) -> Result<bool> {
    g.RemoveNode(g.order().front());
    return true;
  });
  ASSERT_FALSE(runs);
  EXPECT_THAT(runs.error().message(), HasSubstr("after pass test-pass"));
}

TEST(Pipeline, StopsAGroupAtItsBound) {
  Graph graph = SmallGraph();
  int calls = 0;
  const Pass grow = [&calls](Graph& g) -> Result<bool> {
    ++calls;
    g.SetOutputs(std::vector<ValueId>(g.outputs.size() + 1, g.outputs[0]));
    return true;
  };
  Pipeline pipeline;
  pipeline.AddGroup({{"grow", grow}, {"grow-too", grow}});
  PipelineOptions options;
  options.rounds_max = 3;
  ASSERT_TRUE(pipeline.Run(graph, options));
  EXPECT_EQ(calls, 6);
}

TEST(Pipeline, DisablesByNameAndKnowsItsNames) {
  Graph graph = SmallGraph();
  PipelineOptions options;
  options.disabled = {"simplify-algebra"};
  ASSERT_TRUE(DefaultPipeline().Run(graph, options));
  EXPECT_EQ(graph.order().size(), 3u);
  options.disabled = {"simplify-magic"};
  const auto refused = DefaultPipeline().Run(graph, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  EXPECT_THAT(refused.error().message(), HasSubstr("simplify-algebra"));
}

TEST(Pipeline, DumpsWhatAPassChanged) {
  const auto dir = std::filesystem::path(::testing::TempDir()) / "ingot_pipeline_dump";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  Graph graph = SmallGraph();
  PipelineOptions options;
  options.dump_dir = dir.string();
  ASSERT_TRUE(DefaultPipeline().Run(graph, options));
  size_t dumps = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_TRUE(Parse(text)) << text;
    ++dumps;
  }
  EXPECT_EQ(dumps, 2u) << "simplify-algebra and dce";
  std::filesystem::remove_all(dir);
}

TEST(FindPass, KnowsEveryPassOfThePipeline) {
  for (const std::string& name : DefaultPipeline().Names()) EXPECT_TRUE(FindPass(name)) << name;
  EXPECT_EQ(FindPass("fuse-all").error().code(), Code::kNotFound);
}

// Each constant is small; all of them are no more than an artifact can bear.
TEST(FoldConstants, StopsWhereAllOfThemAreTooMuch) {
  Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> outputs;
  for (int64_t i = 0; i < 100; ++i) {
    const auto range = builder.Op("aten.arange", {Dim(2048), DTypeArg{DType::kI64}, None{}, Name("cpu"), None{}});
    ASSERT_TRUE(range) << range.error().ToText();
    const auto scaled = builder.Op("aten.mul.Tensor", {*range, Number{Dim(i + 2)}});
    ASSERT_TRUE(scaled) << scaled.error().ToText();
    const auto shown = builder.Op("aten.bitwise_not", {*scaled});
    ASSERT_TRUE(shown);
    outputs.push_back(shown->id);
  }
  const auto folded = FindPass("fold-constants");
  ASSERT_TRUE(folded);
  std::vector<ValueId> inner;
  for (const ValueId output : outputs) {
    const auto negated =
        builder.Op("aten.add.Tensor",
                   {Ref{output}, Ref{graph.AddInput(InputKind::kInput, "x", Type::Contiguous(DType::kI64, {2048}))}});
    ASSERT_TRUE(negated) << negated.error().ToText();
    inner.push_back(negated->id);
  }
  graph.SetOutputs(inner);
  ASSERT_TRUE(*(*folded)(graph));
  size_t bytes = 0;
  for (const Input& each : graph.inputs) bytes += each.data.size();
  EXPECT_EQ(bytes, 1u << 20);
  EXPECT_FALSE(*(*folded)(graph)) << "what is folded already counts";
}

// Every half and brain float is its own encoding, subnormals and infinities included.
TEST(Known, DecodesWhatItEncodes) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::string data;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const bool nan = dtype == DType::kF16 ? (bits & 0x7fff) > 0x7c00 : (bits & 0x7fff) > 0x7f80;
      const auto narrow = static_cast<uint16_t>(nan ? 0 : bits);
      data.append(reinterpret_cast<const char*>(&narrow), 2);
    }
    const auto known = Decode(Type::Contiguous(dtype, {0x10000}), data);
    ASSERT_TRUE(known);
    EXPECT_EQ(Encode(*known), data);
    for (double value : known->floats) EXPECT_EQ(RoundFloat(dtype, value), value);
  }
}

TEST(RoundFloat, RoundsTiesToEvenAndOverflows) {
  EXPECT_EQ(RoundFloat(DType::kBF16, 1 + 1.0 / 256), 1.0);
  EXPECT_EQ(RoundFloat(DType::kBF16, 1 + 3.0 / 256), 1 + 4.0 / 256);
  EXPECT_EQ(RoundFloat(DType::kF16, 65519), 65504);
  EXPECT_EQ(RoundFloat(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(RoundFloat(DType::kF16, std::ldexp(1.0, -25)), 0);
}

}  // namespace
}  // namespace ingot::compiler
