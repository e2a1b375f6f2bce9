// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/verify.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

class FusionVerify : public testing::Test {
 protected:
  FusionVerify()
      : graph_(*Parse("graph @f(%x: f32[2, 5], %i: i64[2], %n: f32[s0]) symbols(s0 = %n.dim(0)) {\n  return %x\n}")),
        pool_(graph_) {
    x_ = pool_.Value(0), i_ = pool_.Value(1), n_ = pool_.Value(2);
  }
  std::string_view Wrong(ExprId id) const { return WrongWith(pool_, id); }
  static Coords Places(std::vector<Affine> at) { return at; }
  static Affine Shifted(uint16_t var, Dim by) {
    Affine at = Affine::Var(var);
    at.offset = std::move(by);
    return at;
  }

  Graph graph_;
  ExprPool pool_;
  ExprId x_, i_, n_;
};

TEST_F(FusionVerify, RegionsHaveAnInsideAndAnOutside) {
  const Dims wide = {Dim(2), Dim(7)};
  const ExprId zero = pool_.Float(0), nothing = pool_.Nothing(DType::kF32);
  EXPECT_EQ(pool_.Region(x_, kNoExpr, wide, 1, Dim(1), Dim(5)), kNoExpr);
  EXPECT_EQ(pool_.Region(x_, pool_.Int(0), wide, 1, Dim(1), Dim(5)), kNoExpr);
  EXPECT_EQ(Wrong(pool_.Region(x_, zero, wide, 1, Dim(1), Dim(5))), "");
  EXPECT_EQ(Wrong(pool_.Region(x_, zero, wide, 1, Dim(1), Dim(6))), "the inside of a region has its sizes");
  EXPECT_EQ(Wrong(pool_.Region(x_, x_, wide, 1, Dim(1), Dim(5))), "the outside of a region has the sizes of all");
  // Nothing is what no place of a whole dim sees.
  EXPECT_EQ(Wrong(pool_.Region(x_, nothing, wide, 1, Dim(1), Dim(5))), "regions that leave places to nothing");
  const ExprId last = pool_.Region(x_, nothing, {Dim(2), Dim(10)}, 1, Dim(5), Dim(5));
  EXPECT_EQ(Wrong(last), "regions that leave places to nothing");
  EXPECT_EQ(Wrong(pool_.Region(x_, last, {Dim(2), Dim(10)}, 1, Dim(), Dim(5))), "");
  EXPECT_EQ(Wrong(pool_.Region(x_, last, {Dim(2), Dim(10)}, 1, Dim(1), Dim(5))),
            "regions that leave places to nothing");
  EXPECT_EQ(Wrong(pool_.Map(Op::kNeg, {last})), "regions that leave places to nothing");
  EXPECT_EQ(Wrong(pool_.Map(Op::kAdd, {x_, nothing})), "nothing, where something is asked for");
  EXPECT_EQ(Wrong(nothing), "nothing, where something is asked for");
}

TEST_F(FusionVerify, PlacesAreThoseOfTheOperand) {
  const Dims two = {Dim(2)}, some = {Dim::Symbol(0) - Dim(3)};
  const auto row = [&](Affine column) { return pool_.View(x_, two, Places({Affine::Var(0), std::move(column)})); };
  EXPECT_EQ(Wrong(row(Affine::Of(Dim(4)))), "");
  EXPECT_EQ(Wrong(row(Affine::Of(Dim(5)))), "a place that the operand does not have");
  EXPECT_EQ(Wrong(row(Shifted(0, Dim(3)))), "");
  EXPECT_EQ(Wrong(row(Shifted(0, Dim(4)))), "a place that the operand does not have");
  EXPECT_EQ(Wrong(row(Shifted(0, Dim(-1)))), "a place that the operand does not have");
  EXPECT_EQ(Wrong(row(Affine::Var(1))), "a variable of another expression");
  EXPECT_EQ(Wrong(pool_.View(x_, two, Places({Affine::Var(0)}))), "a coordinate for each dim");
  // Sizes that nobody knows: what follows from them.
  const ExprId made = pool_.Map(Op::kNeg, {n_});
  EXPECT_EQ(Wrong(pool_.View(made, some, Places({Shifted(0, Dim(3))}))), "");
  EXPECT_EQ(Wrong(pool_.View(made, some, Places({Shifted(0, Dim(4))}))), "a place that the operand does not have");
  EXPECT_EQ(Wrong(pool_.View(made, {Dim::Symbol(1)}, Places({Affine::Var(0)}))),
            "a place that the operand does not have");
  EXPECT_EQ(Wrong(pool_.View(n_, {Dim::Symbol(1)}, Places({Affine::Var(0)}))), "") << "what a slice takes is guarded";
}

TEST_F(FusionVerify, IndicesAreCheckedAgainstTheirDim) {
  const Dims two = {Dim(2)};
  const auto gather = [&](loop::IndexCheck check, Affine at) {
    return pool_.Gather(x_, {i_}, check, two, Places({std::move(at), Affine::Var(0)}));
  };
  const Affine index{Dim(), {}, {{0, Dim(1)}}};
  Affine beside = index;
  beside.offset = Dim(1);
  EXPECT_EQ(Wrong(gather(loop::IndexCheck::kWithin, index)), "");
  EXPECT_EQ(Wrong(gather(loop::IndexCheck::kNone, index)), "indices that nobody checks");
  EXPECT_EQ(Wrong(gather(loop::IndexCheck::kWithin, beside)), "an index that is not the whole coordinate");
  EXPECT_EQ(Wrong(gather(loop::IndexCheck::kWithin, Affine::Of(Dim(1)))), "an index of no dim, or of several");
}

TEST_F(FusionVerify, TypesAndSizesAreThoseOfTheOperation) {
  const ExprId i = pool_.Cast(i_, DType::kF64);
  EXPECT_EQ(Wrong(pool_.Map(Op::kAdd, DType::kF32, {x_, pool_.Float(1)})), "");
  EXPECT_EQ(Wrong(pool_.Map(Op::kAdd, DType::kF64, {x_, pool_.Float(1)})),
            "a result of another type than its operands");
  EXPECT_EQ(Wrong(pool_.Map(Op::kAdd, DType::kF64, {i, pool_.Float(1)})), "operands of several types");
  EXPECT_EQ(Wrong(pool_.Map(Op::kSelect, DType::kF32, {x_, x_, x_})), "a choice by something else than a bool");
  EXPECT_EQ(Wrong(pool_.Map(Op::kReduceSum, DType::kF32, {x_})), "a map of another operation, or of other operands");
  EXPECT_EQ(Wrong(pool_.Round(pool_.Cast(x_, DType::kF64), DType::kF16)), "f32 is rounded to what is narrower");
  EXPECT_EQ(Wrong(pool_.Reduce(Op::kReduceSum, DType::kF64, x_, {false, true})), "a fold of another type");
  EXPECT_EQ(Wrong(pool_.Reduce(Op::kReduceArgMax, DType::kI64, x_, {false, true})), "");
}

}  // namespace
}  // namespace ingot::compiler::fusion
