// SPDX-License-Identifier: Apache-2.0
//
// Folds over an outer dimension, where the lanes of a vector are neighbouring rows.
#include <fmt/format.h>

#include <cmath>

#include "compiler/loop/ops.h"
#include "compiler/loop/substitute.h"
#include "compiler/targets/llvm/widths.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kRows[] = {1, 3, 4, 7, 31, 32, 33, 64, 65, 130};
constexpr int64_t kColumnExtents[] = {0, 1, 2, 9, 31, 32, 33, 300};

/// in[2, s1, s0] folded over its middle dimension: rows (2, s0), j over s1.
struct Columns {
  const Dim n = Dim::Symbol(0);
  const Dim k = Dim::Symbol(1);
  KernelMaker maker{{Dim(2), Dim::Symbol(0)}, 2};
  uint32_t In(DType t) { return maker.Param(t, ParamMode::kIn, Dim(2) * n * k); }
  uint32_t Out(DType t) { return maker.Param(t, ParamMode::kOut, Dim(2) * n); }
  loop::Index Here() const { return KernelMaker::At({n * k, 1, n}); }
  loop::Index Row() const { return KernelMaker::At({n, 1, 0}); }
};

void ExpectColumns(const loop::Kernel& kernel, bool specials) {
  ASSERT_TRUE(x86::ReducesColumns(kernel)) << loop::Print(kernel);
  const TestKernel test(kernel);
  for (const int64_t rows : kRows) {
    for (const int64_t extent : kColumnExtents) {
      ExpectSameAsInterpreter(test, {rows, extent}, 7 + rows, specials);
      if (testing::Test::HasFailure()) return;
    }
  }
}

struct Fold {
  ScalarOp op;
  DType memory;
  DType compute;
};
class ColumnFold : public testing::TestWithParam<Fold> {};

TEST_P(ColumnFold, AgreesWithTheInterpreter) {
  const auto [op, memory, compute] = GetParam();
  const bool is_arg = op == ScalarOp::kReduceArgMax || op == ScalarOp::kReduceArgMin;
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(memory);
  const uint32_t out = columns.Out(is_arg ? DType::kI64 : compute);
  maker.Loop(columns.k);
  Id value = maker.Load(in, columns.Here());
  if (memory != compute) value = maker.Op(ScalarOp::kCast, compute, {value});
  // Products must stay in range and sums must not cancel to be compared.
  if (op == ScalarOp::kReduceProd && guards::IsFloat(compute)) value = maker.Op(ScalarOp::kSign, compute, {value});
  if (op == ScalarOp::kReduceSum && guards::IsFloat(compute)) value = maker.Op(ScalarOp::kAbs, compute, {value});
  const Id folded = maker.Op(op, is_arg ? DType::kI64 : compute, {value});
  maker.Row();
  maker.Store(out, columns.Row(), folded);
  const bool sums = op == ScalarOp::kReduceSum && guards::IsFloat(compute);
  ExpectColumns(maker.kernel, !sums);
}

INSTANTIATE_TEST_SUITE_P(
    All, ColumnFold,
    testing::Values(
        Fold{ScalarOp::kReduceSum, DType::kF32, DType::kF32}, Fold{ScalarOp::kReduceSum, DType::kBF16, DType::kF32},
        Fold{ScalarOp::kReduceSum, DType::kF64, DType::kF64}, Fold{ScalarOp::kReduceSum, DType::kI64, DType::kI64},
        Fold{ScalarOp::kReduceProd, DType::kF32, DType::kF32}, Fold{ScalarOp::kReduceProd, DType::kI32, DType::kI32},
        Fold{ScalarOp::kReduceMax, DType::kF32, DType::kF32}, Fold{ScalarOp::kReduceMax, DType::kI8, DType::kI8},
        Fold{ScalarOp::kReduceMaxNumber, DType::kF16, DType::kF32},
        Fold{ScalarOp::kReduceMin, DType::kF64, DType::kF64}, Fold{ScalarOp::kReduceMin, DType::kU8, DType::kU8},
        Fold{ScalarOp::kReduceAny, DType::kBool, DType::kBool}, Fold{ScalarOp::kReduceAll, DType::kBool, DType::kBool},
        Fold{ScalarOp::kReduceArgMax, DType::kF32, DType::kF32},
        Fold{ScalarOp::kReduceArgMin, DType::kI32, DType::kI32}),
    [](const auto& info) {
      return std::string(loop::TraitsOf(info.param.op).name) + "_" + std::string(guards::NameOf(info.param.memory));
    });

TEST(Columns, SoftmaxThroughARowBuffer) {
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(DType::kF32);
  const uint32_t out = maker.Param(DType::kBF16, ParamMode::kOut, Dim(2) * columns.n * columns.k);
  maker.kernel.row_buffers = {{DType::kF32, columns.k}};
  const uint32_t buffer = 2;
  maker.Loop(columns.k);
  const Id top = maker.Op(ScalarOp::kReduceMaxNumber, DType::kF32, {maker.Load(in, columns.Here())});
  maker.Loop(columns.k);
  const Id shifted = maker.Op(ScalarOp::kSub, DType::kF32, {maker.Load(in, columns.Here()), top});
  const Id e = maker.Op(ScalarOp::kExp, DType::kF32, {shifted});
  maker.Store(buffer, KernelMaker::At({0, 0, 1}), e);
  const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {e});
  maker.Row();
  const Id scale = maker.Op(ScalarOp::kRecip, DType::kF32, {sum});
  maker.Loop(columns.k);
  const Id kept = maker.Load(buffer, KernelMaker::At({0, 0, 1}));
  const Id result = maker.Op(ScalarOp::kMul, DType::kF32, {kept, scale});
  maker.Store(out, columns.Here(), maker.Op(ScalarOp::kCast, DType::kBF16, {result}));
  ExpectColumns(maker.kernel, false);
}

/// Rows of a table, found at positions read from memory, summed up: `place` says where a position lies.
std::string Gathered(std::string_view place) {
  return fmt::format(R"(kernel bag symbols 2 {{
  param p0: in i64[2*s0*s1]
  param p1: in f32[100*s0]
  param p2: out f32[2*s0]
  rows [2, s0]
  loop [s1] {{
    %0 = load p0 [{}] : i64
    %1 = cast %0 check (100) : i64
    %2 = load p1 [i1 + (s0)*%1] : f32
    %3 = abs %2 : f32
    %4 = reduce_sum %3 : f32
  }}
  row {{
    store p2 [(s0)*i0 + i1] = %4
  }}
}}
)",
                     place);
}

TEST(Columns, OfRowsThatAreGathered) {
  const auto kernel = loop::Parse(Gathered("(s1)*i0 + j"));
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  EXPECT_EQ(x86::RowLanes(*kernel, {64}), 64U) << "positions are one for all lanes";
  ExpectColumns(*kernel, false);
  const auto apart = loop::Parse(Gathered("(s0*s1)*i0 + (s1)*i1 + j"));
  ASSERT_TRUE(apart) << apart.error().ToText();
  EXPECT_FALSE(x86::ReducesColumns(*apart)) << "each row has its own";
}

TEST(Columns, WithTwoRowBuffers) {
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(DType::kF64);
  const uint32_t out = columns.Out(DType::kF64);
  maker.kernel.row_buffers = {{DType::kF64, columns.k}, {DType::kF32, columns.k}};
  const uint32_t wide = 2, narrow = 3;
  const auto at_j = [] { return KernelMaker::At({0, 0, 1}); };
  maker.Loop(columns.k);
  const Id x = maker.Load(in, columns.Here());
  maker.Store(wide, at_j(), x);
  maker.Store(narrow, at_j(), maker.Op(ScalarOp::kCast, DType::kF32, {x}));
  const Id top = maker.Op(ScalarOp::kReduceMax, DType::kF64, {x});
  maker.Loop(columns.k);
  const Id kept = maker.Op(ScalarOp::kSub, DType::kF64, {top, maker.Load(wide, at_j())});
  const Id other = maker.Op(ScalarOp::kCast, DType::kF64, {maker.Load(narrow, at_j())});
  const Id both = maker.Op(ScalarOp::kMax, DType::kF64, {kept, other});
  const Id sum = maker.Op(ScalarOp::kReduceMin, DType::kF64, {both});
  maker.Row();
  maker.Store(out, columns.Row(), sum);
  ExpectColumns(maker.kernel, false);
}

// A weight for each j, one for each row, one the other way round, and a predicate of both.
TEST(Columns, WithOperandsOfEveryPattern) {
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(DType::kF32);
  const uint32_t more = columns.In(DType::kF32);
  const uint32_t of_j = maker.Param(DType::kF32, ParamMode::kIn, columns.k);
  const uint32_t of_row = maker.Param(DType::kBF16, ParamMode::kIn, columns.n);
  const uint32_t turned = maker.Param(DType::kF32, ParamMode::kIn, columns.n * columns.k);
  const uint32_t out = columns.Out(DType::kF32);
  maker.Row();
  const Id row_weight = maker.Op(ScalarOp::kCast, DType::kF32, {maker.Load(of_row, KernelMaker::At({0, 1, 0}))});
  maker.Loop(columns.k);
  Id x = maker.Op(ScalarOp::kAdd, DType::kF32, {maker.Load(in, columns.Here()), maker.Load(more, columns.Here())});
  x = maker.Op(ScalarOp::kMul, DType::kF32, {x, maker.Load(of_j, KernelMaker::At({0, 0, 1}))});
  x = maker.Op(ScalarOp::kMul, DType::kF32, {x, row_weight});
  const Id position = maker.IndexValue(KernelMaker::At({0, 1, 3}));
  const Id inside = maker.Op(ScalarOp::kGt, DType::kBool, {position, maker.Const(DType::kI64, 0, 5)});
  const Id other = maker.Load(turned, KernelMaker::At({0, columns.k, 1}), inside);
  x = maker.Op(ScalarOp::kAdd, DType::kF32, {x, other});
  const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {maker.Op(ScalarOp::kSigmoid, DType::kF32, {x})});
  maker.Row();
  maker.Store(out, columns.Row(), sum);
  ExpectColumns(maker.kernel, false);
}

TEST(Columns, GatheredByRow) {
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(DType::kF32);
  const uint32_t which = maker.Param(DType::kI64, ParamMode::kIn, columns.n);
  const uint32_t table = maker.Param(DType::kF32, ParamMode::kIn, 200);
  const uint32_t out = columns.Out(DType::kF32);
  maker.Row();
  const Id index = maker.CheckedIndex(maker.Load(which, KernelMaker::At({0, 1, 0})), loop::IndexCheck::kWrap, 200);
  loop::Index place = KernelMaker::At({0, 0, 0});
  place.gathered = {{index, Dim(1)}};
  const Id scale = maker.Load(table, place);
  maker.Loop(columns.k);
  const Id x = maker.Op(ScalarOp::kMul, DType::kF32, {maker.Load(in, columns.Here()), scale});
  const Id top = maker.Op(ScalarOp::kReduceMax, DType::kF32, {x});
  maker.Row();
  maker.Store(out, columns.Row(), top);
  ExpectColumns(maker.kernel, false);
}

TEST(Columns, AreNotTakenWhereTheInnermostDimIsFolded) {
  KernelMaker maker({Dim(8)}, 1);
  const Dim n = Dim::Symbol(0);
  const uint32_t in = maker.Param(DType::kF32, ParamMode::kIn, Dim(8) * n);
  const uint32_t out = maker.Param(DType::kF32, ParamMode::kOut, 8);
  maker.Loop(n);
  const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {maker.Load(in, KernelMaker::At({n, 1}))});
  maker.Row();
  maker.Store(out, KernelMaker::At({1, 0}), sum);
  EXPECT_FALSE(x86::ReducesColumns(maker.kernel));
}

/// A fold over columns with `rows` neighbouring rows, each of `extent` elements.
loop::Kernel FoldOf(ScalarOp op, int64_t rows, int64_t extent) {
  Columns columns;
  KernelMaker& maker = columns.maker;
  const uint32_t in = columns.In(DType::kF32);
  const uint32_t out = columns.Out(DType::kF32);
  maker.Loop(columns.k);
  const Id folded = maker.Op(op, DType::kF32, {maker.Load(in, columns.Here())});
  maker.Row();
  maker.Store(out, columns.Row(), folded);
  const guards::Dims sizes = {Dim(rows), Dim(extent)};
  return loop::Substitute(maker.kernel, sizes);
}

TEST(Columns, OfFewRowsAreTakenWhereTheFoldIsShort) {
  EXPECT_FALSE(x86::ReducesColumns(FoldOf(ScalarOp::kReduceSum, 1, 2)));
  EXPECT_TRUE(x86::ReducesColumns(FoldOf(ScalarOp::kReduceSum, 2, 2)));
  EXPECT_TRUE(x86::ReducesColumns(FoldOf(ScalarOp::kReduceSum, 3, 15)));
  EXPECT_FALSE(x86::ReducesColumns(FoldOf(ScalarOp::kReduceSum, 3, 16)));
  EXPECT_TRUE(x86::ReducesColumns(FoldOf(ScalarOp::kReduceSum, 4, 16)));
}

TEST(Columns, OfKnownSizesAgreeWithTheInterpreter) {
  for (const int64_t rows : kRows) {
    for (const int64_t extent : kColumnExtents) {
      // Longer sums of random numbers cancel too much to be compared.
      const ScalarOp op = extent > 33 ? ScalarOp::kReduceMax : ScalarOp::kReduceSum;
      ExpectSameAsInterpreter(TestKernel(FoldOf(op, rows, extent)), {}, 7 + rows, false);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ingot::compiler
