// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/verify.h"

#include <functional>
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
  /// Of an expression that no method of the pool makes.
  std::string_view WrongAfter(ExprId id, const std::function<void(Expr&)>& change) {
    auto& e = const_cast<Expr&>(pool_[id]);
    const Expr before = e;
    EXPECT_EQ(Wrong(id), "");
    change(e);
    const std::string_view wrong = Wrong(id);
    e = before;
    return wrong;
  }
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
  EXPECT_EQ(Wrong(gather(loop::IndexCheck::kWithin, Affine{Dim(), {}, {{1, Dim(1)}}})),
            "an index that is not the whole coordinate");
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

TEST_F(FusionVerify, LeavesAreWhatTheySay) {
  EXPECT_EQ(WrongAfter(x_, [](Expr& e) { e.value = 99; }), "a value that is not there");
  EXPECT_EQ(WrongAfter(x_, [](Expr& e) { e.dtype = DType::kF64; }), "a value of another type or other sizes");
  EXPECT_EQ(WrongAfter(x_, [](Expr& e) { e.sizes[1] = Dim(4); }), "a value of another type or other sizes");
  EXPECT_EQ(WrongAfter(pool_.Float(1), [](Expr& e) { e.sizes = {Dim(2)}; }), "a constant with sizes");
  const ExprId size = pool_.Size(Dim::Symbol(0));
  EXPECT_EQ(WrongAfter(size, [](Expr& e) { e.dtype = DType::kI32; }), "a size is one i64");
  EXPECT_EQ(WrongAfter(size, [](Expr& e) { e.sizes = {Dim(2)}; }), "a size is one i64");
  const ExprId iota = pool_.Iota({Dim(4)}, Affine::Var(0));
  EXPECT_EQ(WrongAfter(iota, [](Expr& e) { e.dtype = DType::kI32; }), "a position is one i64");
  EXPECT_EQ(WrongAfter(iota, [](Expr& e) { e.map.push_back(e.map[0]); }), "a position is one i64");
  EXPECT_EQ(WrongAfter(iota, [](Expr& e) { e.map[0].gathered = {{0, Dim(1)}}; }), "a position is one i64");
  EXPECT_EQ(WrongAfter(iota, [](Expr& e) { e.map[0] = Affine::Var(1); }), "a variable of another expression");
}

TEST_F(FusionVerify, OperandsAreThoseOfTheirKind) {
  const Dims two = {Dim(2)}, swapped = {Dim(5), Dim(2)};
  const ExprId neg = pool_.Map(Op::kNeg, {x_});
  EXPECT_EQ(WrongAfter(neg, [&](Expr& e) { e.args[0] = neg; }), "an operand that is made later");
  EXPECT_EQ(WrongAfter(neg, [](Expr& e) { e.dtype = DType::kF16; }), "a type that nothing is computed in");
  const ExprId sum = pool_.Map(Op::kAdd, {x_, pool_.Float(1)});
  EXPECT_EQ(WrongAfter(sum, [&](Expr& e) { e.args[1] = i_; }), "operands that do not broadcast");
  EXPECT_EQ(WrongAfter(sum, [&](Expr& e) { e.sizes = two; }), "sizes that are not those of the operands");
  const ExprId view = pool_.View(x_, two, Places({Affine::Var(0), Affine::Of(Dim(0))}));
  EXPECT_EQ(WrongAfter(view, [](Expr& e) { e.dtype = DType::kF64; }), "a view of another type");
  const ExprId reshaped = pool_.Reshape(x_, swapped);
  EXPECT_EQ(WrongAfter(reshaped, [](Expr& e) { e.dtype = DType::kF64; }), "other sizes over the same elements");
  EXPECT_EQ(WrongAfter(reshaped, [](Expr& e) { e.sizes[0] = Dim(4); }), "other sizes over the same elements");
  const ExprId region = pool_.Region(x_, pool_.Float(0), {Dim(2), Dim(7)}, 1, Dim(1), Dim(5));
  EXPECT_EQ(WrongAfter(region, [](Expr& e) { e.axis = 2; }), "a region has an inside and an outside");
  EXPECT_EQ(WrongAfter(region, [](Expr& e) { e.dtype = DType::kF64; }), "a region of two types");
  const ExprId scan = pool_.Scan(Op::kScanSum, x_, 1);
  EXPECT_EQ(WrongAfter(scan, [](Expr& e) { e.axis = 2; }), "a scan along a dim of what it scans");
  EXPECT_EQ(WrongAfter(scan, [](Expr& e) { e.op = Op::kReduceSum; }), "a scan along a dim of what it scans");
  EXPECT_EQ(WrongAfter(scan, [](Expr& e) { e.sizes[0] = Dim(1); }), "a scan along a dim of what it scans");
  EXPECT_EQ(WrongAfter(scan, [](Expr& e) { e.dtype = DType::kF64; }), "a scan along a dim of what it scans");
  const ExprId stored = pool_.Scatter(x_, {}, loop::IndexCheck::kNone, Places({Affine::Var(0), Affine::Var(1)}));
  EXPECT_EQ(WrongAfter(stored, [&](Expr& e) { e.sizes = swapped; }), "what is stored has the sizes of its source");
  EXPECT_EQ(WrongAfter(stored, [](Expr& e) { e.dtype = DType::kF64; }), "what is stored has the sizes of its source");
}

TEST_F(FusionVerify, IndicesAndTablesAreOfTheirTypes) {
  const ExprId number = pool_.Cast(i_, DType::kF32), one = pool_.Int(0);
  const ExprId gathered = pool_.Gather(x_, {i_}, loop::IndexCheck::kWithin, {Dim(2)},
                                       Places({Affine{Dim(), {}, {{0, Dim(1)}}}, Affine::Var(0)}));
  EXPECT_EQ(WrongAfter(gathered, [&](Expr& e) { e.args[1] = number; }), "an index that is no i32 or i64");
  EXPECT_EQ(WrongAfter(gathered, [&](Expr& e) { e.args[1] = one; }), "an index has the sizes of the result");
  EXPECT_EQ(WrongAfter(gathered, [](Expr& e) { e.dtype = DType::kF64; }), "a table of another type");
  EXPECT_EQ(WrongAfter(gathered, [](Expr& e) { e.map[1] = Affine::Of(Dim(5)); }),
            "a place that the operand does not have");
}

TEST_F(FusionVerify, FoldsAndProductsAreOverWhatThereIs) {
  const ExprId fold = pool_.Reduce(Op::kReduceSum, DType::kF32, x_, {false, true});
  EXPECT_EQ(WrongAfter(fold, [](Expr& e) { e.op = Op::kAdd; }), "a fold of dims");
  EXPECT_EQ(WrongAfter(fold, [](Expr& e) { e.reduced.pop_back(); }), "a fold of dims");
  EXPECT_EQ(WrongAfter(fold, [](Expr& e) { e.sizes.pop_back(); }), "a fold of dims");
  EXPECT_EQ(WrongAfter(fold, [](Expr& e) { e.sizes[0] = Dim(3); }), "a fold of other sizes");
  EXPECT_EQ(WrongAfter(fold, [](Expr& e) { e.sizes[1] = Dim(5); }), "a fold of other sizes");
  const uint16_t k = pool_.DepthVar(Dim(5));
  const ExprId product =
      pool_.Contract(DType::kF32, x_, x_, {Dim(2), Dim(2)}, {k}, Places({Affine::Var(0), Affine::Var(k)}),
                     Places({Affine::Var(1), Affine::Var(k)}));
  EXPECT_EQ(WrongAfter(product, [](Expr& e) { e.dtype = DType::kF64; }), "products are added in their own type");
  EXPECT_EQ(WrongAfter(product, [&](Expr& e) { e.args[1] = i_; }), "products are added in their own type");
  EXPECT_EQ(WrongAfter(product, [](Expr& e) { e.depths.clear(); }), "a product of two over depths");
  EXPECT_EQ(WrongAfter(product, [](Expr& e) { e.sizes.clear(); }), "a product of two over depths");
  EXPECT_EQ(WrongAfter(product, [&](Expr& e) { e.depths.push_back(k); }), "a depth that is there twice");
  EXPECT_EQ(WrongAfter(product, [](Expr& e) { e.depths = {0}; }), "a depth that is there twice");
  // Sizes that nobody knows, and no guard says more of.
  const uint16_t some = pool_.DepthVar(Dim::Symbol(1));
  const ExprId unknown =
      pool_.Contract(DType::kF32, n_, n_, {Dim(1)}, {some}, Places({Affine::Var(some)}), Places({Affine::Var(some)}));
  EXPECT_EQ(Wrong(unknown), "a place that the operand does not have");
  for (Coords Expr::* map : {&Expr::map, &Expr::right}) {
    EXPECT_EQ(WrongAfter(product, [&](Expr& e) { (e.*map)[1].offset = Dim(1); }),
              "a place that the operand does not have");
    EXPECT_EQ(WrongAfter(product, [&](Expr& e) { (e.*map)[0] = Affine::Var(2); }), "a variable of another expression");
  }
}

}  // namespace
}  // namespace ingot::compiler::fusion
