// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph.h"

#include <algorithm>
#include <random>
#include <set>

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
  graph.SetOutputs({graph.node(cat).results[0], x});
  graph.SetWrites({{x, graph.node(silu).results[0]}});
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

/// Uses of every value as a walk over the graph finds them.
std::vector<std::multiset<std::pair<uint32_t, uint32_t>>> Recount(const Graph& graph) {
  std::vector<std::multiset<std::pair<uint32_t, uint32_t>>> uses(graph.value_count());
  for (const NodeId id : graph.order()) {
    uint32_t operand = 0;
    for (const Arg& arg : graph.node(id).args) {
      if (const auto* ref = std::get_if<Ref>(&arg)) uses[ref->id].insert({id, operand++});
      if (const auto* list = std::get_if<RefList>(&arg)) {
        for (const ValueId element : list->ids) {
          if (element != kNoValue) uses[element].insert({id, operand});
          ++operand;
        }
      }
    }
  }
  for (uint32_t i = 0; i < graph.outputs.size(); ++i) uses[graph.outputs[i]].insert({Use::kOutputs, i});
  for (uint32_t i = 0; i < graph.writes.size(); ++i) uses[graph.writes[i].value].insert({Use::kWrites, i});
  return uses;
}

/// Changes a graph at random, by every method that changes uses or the order; `order` is what it must be.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) { graph.AddInput(InputKind::kInput, "x", kType); }

  void Step() {
    switch (Pick(order.empty() ? 2 : 9)) {
      case 0: order.push_back(graph.AddNode(AnyNode(), std::vector<Type>(Pick(3), kType))); break;
      case 1: graph.SetOutputs(AnyValues()); break;
      case 2: graph.SetWrites({{0, AnyValue()}, {0, AnyValue()}}); break;
      case 3: {
        const size_t at = Pick(order.size());
        order.insert(order.begin() + at, graph.InsertBefore(order[at], AnyNode(), {kType}));
        break;
      }
      case 4: {
        const size_t at = Pick(order.size());
        graph.RemoveNode(order[at]);
        order.erase(order.begin() + at);
        break;
      }
      case 5: graph.ReplaceUses(AnyValue(), AnyValue()); break;
      case 6: graph.Redefine(order[Pick(order.size())], "aten.other", AnyNode().args); break;
      case 7: {
        const NodeId id = order[Pick(order.size())];
        if (!graph.node(id).args.empty()) graph.SetArg(id, Pick(graph.node(id).args.size()), AnyArg());
        break;
      }
      default:
        // Takes some out, and brings some back that went before.
        std::erase_if(order, [this](NodeId) { return Pick(8) == 0; });
        for (NodeId id = 0; id < graph.node_capacity(); ++id) {
          if (Pick(20) == 0 && std::ranges::find(order, id) == order.end()) order.push_back(id);
        }
        graph.SetOrder(order);
    }
  }

  Graph graph;
  std::vector<NodeId> order;

 private:
  size_t Pick(size_t n) { return random_() % n; }
  ValueId AnyValue() { return static_cast<ValueId>(Pick(graph.value_count())); }
  std::vector<ValueId> AnyValues() {
    std::vector<ValueId> values;
    for (size_t i = Pick(4); i > 0; --i) values.push_back(AnyValue());
    return values;
  }
  Arg AnyArg() {
    if (Pick(3) == 0) return Dim(3);
    if (Pick(2) == 0) return Ref{AnyValue()};
    RefList list{AnyValues()};
    if (Pick(2) == 0) list.ids.push_back(kNoValue);
    return list;
  }
  Node AnyNode() {
    Node node{"aten.some", {}};
    for (size_t i = Pick(4); i > 0; --i) node.args.push_back(AnyArg());
    return node;
  }

  static inline const Type kType = Type::Contiguous(DType::kF32, {4});
  std::mt19937_64 random_;
};

TEST(Graph, KnowsItsUsesWhateverChanges) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Mutator mutator(seed);
    for (int step = 0; step < 100; ++step) {
      mutator.Step();
      const Graph copy = mutator.graph;
      ASSERT_EQ(copy.order(), mutator.order) << "seed " << seed << " step " << step;
      const auto want = Recount(copy);
      for (ValueId id = 0; id < copy.value_count(); ++id) {
        std::multiset<std::pair<uint32_t, uint32_t>> found;
        for (const Use& use : copy.uses(id)) {
          found.insert({use.user, use.operand});
          ASSERT_EQ(copy.OperandAt(use), id);
        }
        ASSERT_EQ(found, want[id]) << "seed " << seed << " step " << step << " value " << id;
        ASSERT_EQ(copy.use_count(id), found.size());
      }
    }
  }
}

TEST(Graph, UsesEndWithTheOrder) {
  Graph graph;
  const Type type = Type::Contiguous(DType::kF32, {4});
  const ValueId x = graph.AddInput(InputKind::kInput, "x", type);
  const NodeId silu = graph.AddNode({"aten.silu", {Ref{x}}}, {type});
  const NodeId relu = graph.AddNode({"aten.relu", {Ref{x}}}, {type});
  EXPECT_EQ(graph.use_count(x), 2u);
  graph.SetOrder({relu});
  EXPECT_EQ(graph.use_count(x), 1u);
  graph.SetArg(silu, 0, Ref{x});
  EXPECT_EQ(graph.use_count(x), 1u) << "a node outside the order uses nothing";
  graph.SetOrder({relu, silu});
  EXPECT_EQ(graph.use_count(x), 2u);
}

// What every node uses, and what every node is made of: quadratic, this would take minutes.
TEST(Graph, ChangesCostWhatChanges) {
  constexpr size_t kNodes = 200'000;
  Graph graph;
  const Type type = Type::Contiguous(DType::kF32, {});
  const ValueId x = graph.AddInput(InputKind::kInput, "x", type), y = graph.AddInput(InputKind::kInput, "y", type);
  RefList all;
  for (size_t i = 0; i < kNodes; ++i) {
    all.ids.push_back(graph.node(graph.AddNode({"aten.silu", {Ref{x}}}, {type})).results[0]);
  }
  const std::vector<NodeId> order = graph.order();
  const NodeId last = graph.AddNode({"aten.stack", {all, Dim(0)}}, {type});
  for (const NodeId id : order) {
    const NodeId relu = graph.InsertBefore(id, {"aten.relu", {Ref{x}}}, {type});
    graph.ReplaceUses(graph.node(id).results[0], graph.node(relu).results[0]);
    graph.RemoveNode(id);
  }
  EXPECT_EQ(graph.use_count(x), kNodes);
  graph.ReplaceUses(x, y);
  EXPECT_EQ(graph.use_count(x), 0u);
  EXPECT_EQ(graph.use_count(y), kNodes);
  EXPECT_EQ(graph.order().size(), kNodes + 1);
  EXPECT_EQ(graph.order().back(), last);
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
