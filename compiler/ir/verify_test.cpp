// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/verify.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/random_graph.h"
#include "compiler/ir/text.h"
#include "compiler/ir/written_memories.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kSound = R"(graph @f(%x: f32[4, s0], %c: u8[2] constant "0102") symbols(s0 = %x.dim(1)) {
  %0 = aten.silu(%x) : f32[4, s0]
  %1 = aten.relu(%0) : f32[4, s0]
  %2 = aten.sum(%1) : f32[]
  guard.equal(%2, number 1.0)
  write %x = %1
  return %1
}
)";

/// What no method of Graph allows.
Node& Raw(Graph& graph, NodeId id) { return const_cast<Node&>(graph.node(id)); }

struct Damage {
  const char* rule;
  std::function<void(Graph&)> apply;
};

TEST(Verify, NamesEveryBrokenRule) {
  const Damage kDamages[] = {
      {"before its definition", [](Graph& g) { g.SetOrder({1, 0, 2, 3}); }},
      {"stands twice", [](Graph& g) { g.SetOrder({0, 0, 1, 2, 3}); }},
      {"missing node", [](Graph& g) { g.SetOrder({0, 1, 2, 3, 44}); }},
      {"before its definition", [](Graph& g) { g.SetArg(1, 0, Ref{4444}); }},
      {"before its definition", [](Graph& g) { g.SetArg(1, 0, Ref{}); }},
      {"s1 is not one of", [](Graph& g) { Raw(g, 1).args.push_back(Dim::Symbol(1)); }},
      {"s9 is not one of", [](Graph& g) { Raw(g, 1).args.push_back(Dims{Dim::Symbol(9)}); }},
      {"s2 is not one of", [](Graph& g) { Raw(g, 1).args.push_back(Number{Dim::Symbol(2)}); }},
      {"s7 is not one of", [](Graph& g) { g.value(2).type.sizes[0] = Dim::Symbol(7); }},
      {"2 sizes but 1 strides", [](Graph& g) { g.value(2).type.strides.pop_back(); }},
      {"negative size", [](Graph& g) { g.value(2).type.sizes[0] = -3; }},
      {"own its result", [](Graph& g) { Raw(g, 1).results[0] = g.node(0).results[0]; }},
      {"without a value", [](Graph& g) { Raw(g, 1).results[0] = 1000; }},
      {"argument it lacks", [](Graph& g) { Raw(g, 1).inplace = 3; }},
      {"is no tensor",
       [](Graph& g) {
         Raw(g, 1).args.push_back(3.0);
         Raw(g, 1).inplace = 1;
       }},
      {"neither guard.equal", [](Graph& g) { Raw(g, 3).args[1] = 1.0; }},
      {"neither guard.equal", [](Graph& g) { Raw(g, 3).op = "guard.odd"; }},
      {"with other effects", [](Graph& g) { Raw(g, 3).effects = kGuard | kRandom; }},
      {"effect of a guard", [](Graph& g) { Raw(g, 1).effects = kGuard; }},
      {"unlike 'aten.add.Tensor'", [](Graph& g) { Raw(g, 1).op = "aten.add("; }},
      {"has not noted", [](Graph& g) { Raw(g, 1).args[0] = Ref{0}; }},
      {"has not noted", [](Graph& g) { Raw(g, 1).args.push_back(Ref{0}); }},
      {"those that the graph has noted", [](Graph& g) { Raw(g, 1).args[0] = 1.0; }},
      {"needs 2 bytes of data", [](Graph& g) { g.inputs[1].data = "123"; }},
      {"has no value", [](Graph& g) { g.inputs[1].value = 4444; }},
      {"a constant without a fixed size",
       [](Graph& g) { g.value(g.inputs[1].value).type = Type::Contiguous(DType::kU8, {Dim::Symbol(0)}); }},
      {"a constant that is not contiguous", [](Graph& g) { g.value(g.inputs[1].value).type.strides[0] = 2; }},
      {"has unknown element type", [](Graph& g) { g.value(0).type.dtype = static_cast<DType>(guards::kDTypeCount); }},
      {"has a result with unknown element type",
       [](Graph& g) { g.value(2).type.dtype = static_cast<DType>(guards::kDTypeCount); }},
      {"product of sizes has too many terms",
       [](Graph& g) {
         Dim many;
         for (uint16_t s = 0; s < kProductTermsMax / 8; ++s) many = many + Dim::Symbol(s);
         g.value(2).type.sizes = {many, many};
       }},
      {"is in place but has no result", [](Graph& g) { Raw(g, 3).inplace = 0; }},
      {"a written value is never defined", [](Graph& g) { g.SetWrites({{g.writes[0].target, 77}}); }},
      {"carries data", [](Graph& g) { g.inputs[0].data = "123"; }},
      {"is the result of a node", [](Graph& g) { g.inputs[1].value = 2; }},
      {"shares its value", [](Graph& g) { g.inputs[1].value = 0; }},
      {"not size 0 of input", [](Graph& g) { g.symbols[0].dim = 0; }},
      {"has no such input", [](Graph& g) { g.symbols[0].input = 9; }},
      {"output is never defined", [](Graph& g) { g.SetOutputs({77}); }},
      {"no input as target", [](Graph& g) { g.SetWrites({{2, g.writes[0].value}}); }},
      {"written twice", [](Graph& g) { g.SetWrites({g.writes[0], g.writes[0]}); }},
      {"changes a constant", [](Graph& g) { g.SetWrites({{g.inputs[1].value, g.writes[0].value}}); }},
      {"is written with f32[]", [](Graph& g) { g.SetWrites({{g.writes[0].target, g.node(2).results[0]}}); }},
  };
  for (const Damage& damage : kDamages) {
    Result<Graph> graph = Parse(kSound);
    ASSERT_TRUE(graph) << graph.error().ToText();
    ASSERT_TRUE(Verify(*graph));
    damage.apply(*graph);
    const Status status = Verify(*graph);
    ASSERT_FALSE(status) << damage.rule;
    EXPECT_EQ(status.error().code(), Code::kInternal);
    EXPECT_THAT(status.error().message(), HasSubstr(damage.rule));
    Print(*graph);  // A dump of a broken graph must not crash.
  }
}

TEST(Verify, NamesEveryBrokenRuleOfMemories) {
  constexpr std::string_view kWriter = R"(graph @f(%x: f32[4], %y: f32[2]) {
  %0 = ingot.memory(%x) {opaque} : f32[4]
  %1, %2 = my.op(%0, %y, [0, 1], [%0, %y]) {opaque, writes} : f32[4], f32[2]
  return %1
}
)";
  const Damage kDamages[] = {
      {"has no list of memories", [](Graph& g) { Raw(g, 1).args.pop_back(); }},
      {"has no list of memories", [](Graph& g) { Raw(g, 1).args[2] = Dims{0}; }},
      {"is not opaque", [](Graph& g) { Raw(g, 1).effects = kWrites; }},
      {"lacks a memory", [](Graph& g) { std::get<RefList>(Raw(g, 1).args[3]).ids[0] = kNoValue; }},
      {"memory of no input", [](Graph& g) { Raw(g, 1).args[2] = Dims{-2, 1}; }},
      {"memory of no input", [](Graph& g) { Raw(g, 1).args[2] = Dims{0, 2}; }},
      {"with another type", [](Graph& g) { g.value(g.node(1).results[0]).type.dtype = DType::kF64; }},
      {"memory unlike its input", [](Graph& g) { Raw(g, 1).args[2] = Dims{1, 1}; }},
  };
  for (const Damage& damage : kDamages) {
    Result<Graph> graph = Parse(kWriter);
    ASSERT_TRUE(graph) << graph.error().ToText();
    ASSERT_TRUE(Verify(*graph)) << Verify(*graph).error().ToText();
    EXPECT_EQ(Print(*graph), kWriter);
    damage.apply(*graph);
    const Status status = Verify(*graph);
    ASSERT_FALSE(status) << damage.rule;
    EXPECT_THAT(status.error().message(), HasSubstr(damage.rule));
    Print(*graph);
  }
}

// Whatever the arguments are, inference and the verifier give an answer.
TEST(Verify, AnswersKnownOperatorsWithAnyArguments) {
  std::vector<std::string_view> ops;
  for (const OpInfo& op : AllOps()) ops.push_back(op.name);
  int sound = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomGraph(random, ops);
    const Status status = Verify(graph);
    ASSERT_TRUE(status || status.error().code() == Code::kInternal) << "seed " << seed;
    sound += status.has_value();
  }
  EXPECT_GT(sound, 0);
}

TEST(ConstantBytes, RefusesSymbolsAndOverflow) {
  EXPECT_EQ(ConstantBytes(Type::Contiguous(DType::kF32, {3, 5})), 60u);
  EXPECT_EQ(ConstantBytes(Type::Contiguous(DType::kF32, {int64_t{1} << 62, 0})), 0u);
  EXPECT_EQ(ConstantBytes(Type::Contiguous(DType::kF32, {int64_t{1} << 62, 4})), std::nullopt);
  EXPECT_EQ(ConstantBytes(Type::Contiguous(DType::kF32, {Dim::Symbol(0)})), std::nullopt);
}

}  // namespace
}  // namespace ingot::compiler
