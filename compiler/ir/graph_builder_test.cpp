// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

class GraphBuilderTest : public ::testing::Test {
 protected:
  Ref Input(std::string name, Type type) {
    return {graph_.AddInput(InputKind::kInput, std::move(name), std::move(type))};
  }
  Ref Input(std::string name, Dims sizes) { return Input(name, Type::Contiguous(DType::kF32, std::move(sizes))); }

  /// The one result; its error fails the test.
  Ref Op(std::string_view op, std::vector<Arg> args) {
    const Result<Ref> result = builder_.Op(op, std::move(args));
    if (result) return *result;
    ADD_FAILURE() << result.error().ToText();
    return {};
  }
  std::string TypeOf(Ref ref) { return ref.id == kNoValue ? "none" : Print(graph_.type(ref.id)); }

  /// What is wrong with the call, which must leave the graph as it was.
  std::string Fault(std::string_view op, std::vector<Arg> args, Code code = Code::kInvalid) {
    const size_t nodes = graph_.order().size();
    const Result<Ref> result = builder_.Op(op, std::move(args));
    EXPECT_EQ(graph_.order().size(), nodes);
    if (result) return "nothing";
    EXPECT_EQ(result.error().code(), code);
    return result.error().message();
  }

  Graph graph_;
  GraphBuilder builder_{graph_};
};

TEST_F(GraphBuilderTest, InfersTypesAndFillsInDefaults) {
  const Ref x = Input("x", {2, 3, 8, 8}), w = Input("w", {4, 3, 3, 3});
  const Ref y = Op("aten.conv2d", {x, w, None{}, Dim(2), Dim(1)});
  const Ref z = Op("aten.add.Tensor", {Op("aten.relu", {y}), 0.5});
  const Ref mean = Op("aten.mean.dim", {z, Dims{2, 3}});
  const auto parts = builder_.Ops("aten.split.Tensor", {mean, Dim(1)});
  ASSERT_TRUE(parts) << parts.error().ToText();
  ASSERT_EQ(parts->size(), 2u);
  graph_.SetOutputs({(*parts)[1].id});
  EXPECT_TRUE(Verify(graph_)) << Verify(graph_).error().ToText();
  EXPECT_EQ(Print(graph_), R"(graph @forward(%x: f32[2, 3, 8, 8], %w: f32[4, 3, 3, 3]) {
  %0 = aten.conv2d(%x, %w, none, [2, 2], [1, 1], [1, 1], 1) : f32[2, 4, 4, 4]
  %1 = aten.relu(%0) : f32[2, 4, 4, 4]
  %2 = aten.add.Tensor(%1, number 0.5, 1) : f32[2, 4, 4, 4]
  %3 = aten.mean.dim(%2, [2, 3], false, none) : f32[2, 4]
  %4, %5 = aten.split.Tensor(%3, 1, 0) : f32[1, 4], f32[1, 4]
  return %5
}
)");
}

TEST_F(GraphBuilderTest, FollowsSymbols) {
  const Dim s0 = Dim::Symbol(0);
  const Ref x = Input("x", {s0, 6});
  graph_.symbols = {{0, 0}};
  EXPECT_EQ(TypeOf(Op("aten.view", {x, Dims{-1, 2, 3}})), "f32[s0, 2, 3]");
  EXPECT_EQ(TypeOf(Op("aten.cat", {RefList{{x.id, x.id}}})), "f32[2*s0, 6]");
  EXPECT_EQ(TypeOf(Op("aten.full", {Dims{s0}, 1.0})), "f32[s0]");
}

TEST_F(GraphBuilderTest, KeepsLayoutsAsEagerDoes) {
  const Ref x = Input("x", {2, 3, 4});
  const Ref t = Op("aten.transpose.int", {x, Dim(0), Dim(2)});
  EXPECT_EQ(TypeOf(t), "f32[4, 3, 2] strides [1, 4, 12]");
  EXPECT_EQ(TypeOf(Op("aten.mul.Tensor", {t, 2.0})), "f32[4, 3, 2] strides [1, 4, 12]");
  EXPECT_EQ(TypeOf(Op("aten.mul.Tensor", {t, t})), "f32[4, 3, 2] strides [1, 4, 12]");
  EXPECT_EQ(TypeOf(Op("aten.clone", {t, Name("contiguous_format")})), "f32[4, 3, 2]");
  const Ref m = Input("m", {5, 6}), n = Input("n", {7, 6});
  EXPECT_EQ(TypeOf(Op("aten.mm", {m, Op("aten.t", {n})})), "f32[5, 7]");
  EXPECT_EQ(TypeOf(Op("aten.zeros_like", {t})), "f32[4, 3, 2] strides [1, 4, 12]");
  EXPECT_THAT(Fault("aten.new_zeros", {t, Dims{4, 3, 2}}, Code::kUnsupported), HasSubstr("give the type"));
  EXPECT_THAT(Fault("aten.clone", {x, Name("channels_last")}, Code::kUnsupported), HasSubstr("give the type"));
  EXPECT_EQ(TypeOf(Op("aten.linear", {m, Op("aten.clone", {n})})), "f32[5, 7]");
  const Ref y = Input("y", {4, 3, 2});
  EXPECT_THAT(Fault("aten.add.Tensor", {t, y}, Code::kUnsupported), HasSubstr("layout of its result"));
  EXPECT_THAT(Fault("aten.sum.dim_IntList", {t, Dims{0}}, Code::kUnsupported), HasSubstr("give the type"));
  // Each element of a row is the same one, in eager's result each has its place.
  const Ref wide = Op("aten.expand", {Input("v", {4, 1}), Dims{4, 3}});
  EXPECT_THAT(Fault("aten.neg", {wide}, Code::kUnsupported), HasSubstr("strides [1, 0]"));
}

TEST_F(GraphBuilderTest, SaysWhatIsWrong) {
  const Ref x = Input("x", {2, 3}), y = Input("y", {4, 5});
  EXPECT_THAT(Fault("aten.mm", {x}), HasSubstr("aten.mm: operand 1 'mat2' is missing, expected Tensor"));
  EXPECT_THAT(Fault("aten.mm", {x, y}), HasSubstr("aten.mm: cannot take (f32[2, 3], f32[4, 5])"));
  EXPECT_THAT(Fault("aten.mm", {x, Dims{1}}), HasSubstr("operand 1 'mat2' is [1], expected Tensor"));
  EXPECT_THAT(Fault("aten.relu", {x, x}), HasSubstr("takes 1 operands, not 2"));
  EXPECT_THAT(Fault("aten.sum.dim_IntList", {x, 1.5}), HasSubstr("operand 1 'dim' is 1.5, expected int[1]?"));
  EXPECT_THAT(Fault("aten.cat", {RefList{{x.id, 99}}}), HasSubstr("operand 0 is no value of the graph"));
  EXPECT_THAT(Fault("aten.split.Tensor", {x, Dim(1)}), HasSubstr("has 2 results, expected one"));
  EXPECT_THAT(Fault("aten.nonzero", {x}, Code::kUnsupported), HasSubstr("aten.nonzero: nobody infers its results"));
  EXPECT_THAT(Fault("my.op", {x}, Code::kUnsupported), HasSubstr("my.op"));
}

TEST_F(GraphBuilderTest, InsertsBeforeANodeAndTakesTypesAsTheyAre) {
  const Ref x = Input("x", {4});
  const Ref last = Op("aten.silu", {x});
  GraphBuilder before(graph_, graph_.value(last.id).def);
  const auto neg = before.Op("aten.neg", {x});
  ASSERT_TRUE(neg);
  const Ref own = before.Typed("my.op", {*neg}, Type::Contiguous(DType::kI8, {7}));
  graph_.SetArg(graph_.value(last.id).def, 0, *neg);
  graph_.SetOutputs({last.id, own.id});
  EXPECT_TRUE(Verify(graph_));
  EXPECT_EQ(graph_.order(), (std::vector<NodeId>{1, 2, 0}));
}

TEST_F(GraphBuilderTest, CarriesConstants) {
  const Result<Ref> two = builder_.Constant("two", DType::kI16, {2}, std::string("\1\0\2\0", 4));
  ASSERT_TRUE(two);
  graph_.SetOutputs({Op("aten.neg", {*two}).id});
  EXPECT_TRUE(Verify(graph_));
  const Result<Ref> cut = builder_.Constant("cut", DType::kI16, {2}, "123");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), Code::kInvalid);
  EXPECT_THAT(cut.error().message(), HasSubstr("constant \"cut\" of i16[2] has 3 bytes, expected 4"));
  EXPECT_FALSE(builder_.Constant("open", DType::kI16, {Dim::Symbol(0)}, ""));
}

TEST_F(GraphBuilderTest, MarksWhatIsNotPure) {
  const Ref x = Input("x", {4});
  EXPECT_EQ(graph_.node(graph_.value(Op("aten.dropout", {x, 0.5, true}).id).def).effects, kRandom);
  EXPECT_EQ(graph_.node(graph_.value(Op("aten.dropout", {x, 0.5, false}).id).def).effects, kPure);
}

}  // namespace
}  // namespace ingot::compiler
