// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

TEST(Type, IsContiguousIgnoresStridesOfUnitDims) {
  EXPECT_TRUE((Type{DType::kF32, {1, 4}, {99, 1}}.IsContiguous()));
  EXPECT_TRUE((Type{DType::kF32, {4, 1}, {1, 99}}.IsContiguous()));
  EXPECT_FALSE((Type{DType::kF32, {2, 4}, {1, 2}}.IsContiguous()));
  EXPECT_TRUE((Type{DType::kF32, {0, 4}, {1, 2}}.IsContiguous()));
  const Dim s = Dim::Symbol(0);
  EXPECT_TRUE((Type{DType::kF32, {2, s}, {s, 1}}.IsContiguous()));
  EXPECT_FALSE((Type{DType::kF32, {2, s}, {s + 1, 1}}.IsContiguous()));
}

TEST(Graph, EditsKeepOrderAndUses) {
  Graph graph;
  const Type type = Type::Contiguous(DType::kF32, {4});
  const ValueId x = graph.AddInput(InputKind::kInput, "x", type);
  const NodeId silu = graph.AddNode({"aten.silu", {Ref{x}}}, {type});
  const NodeId cat = graph.AddNode({"aten.cat", {RefList{{graph.node(silu).results[0], kNoValue}}, Dim(0)}}, {type});
  graph.outputs = {graph.node(cat).results[0], x};
  graph.writes = {{x, graph.node(silu).results[0]}};
  const NodeId relu = graph.InsertBefore(cat, {"aten.relu", {Ref{x}}}, {type});
  graph.ReplaceUses(graph.node(silu).results[0], graph.node(relu).results[0]);
  graph.RemoveNode(silu);
  ASSERT_TRUE(Verify(graph)) << Verify(graph).error().ToText();
  EXPECT_EQ(Print(graph), R"(graph @forward(%x: f32[4]) {
  %0 = aten.relu(%x) : f32[4]
  %1 = aten.cat([%0, none], 0) : f32[4]
  write %x = %0
  return %1, %x
}
)");
}

TEST(Graph, InputIndexFindsInputsOnly) {
  Graph graph;
  const Type type = Type::Contiguous(DType::kF32, {});
  const ValueId x = graph.AddInput(InputKind::kInput, "x", type);
  const NodeId silu = graph.AddNode({"aten.silu", {Ref{x}}}, {type});
  const ValueId w = graph.AddInput(InputKind::kWeight, "w", type);
  EXPECT_EQ(graph.InputIndex(x), 0);
  EXPECT_EQ(graph.InputIndex(w), 1);
  EXPECT_EQ(graph.InputIndex(graph.node(silu).results[0]), -1);
  EXPECT_EQ(graph.InputIndex(kNoValue), -1);
  std::swap(graph.inputs[0], graph.inputs[1]);
  EXPECT_EQ(graph.InputIndex(x), 1);
}

}  // namespace
}  // namespace ingot::compiler
