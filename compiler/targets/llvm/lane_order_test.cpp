// SPDX-License-Identifier: Apache-2.0
//
// Loops whose vectors hold even j first, and loops that run in two pieces around the place where a condition turns.
#include "compiler/targets/llvm/lane_order.h"

#include "compiler/targets/llvm/index_split.h"
#include "compiler/targets/llvm/schedules.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kExtents[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130, 300};
const x86::VectorUnit kUnit = {64, true};

std::vector<bool> EvenFirst(const loop::Kernel& kernel) {
  return x86::EvenLanesFirst(kernel, x86::ScheduleOf(kernel, kUnit), kUnit);
}

/// out = |in| / (sum + maximum of |in|) through a row buffer, both in `memory`, times what lies in `other`.
loop::Kernel Normalise(DType memory, DType other) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(3)}, 1);
  const auto in = maker.Param(memory, ParamMode::kIn, Dim(3) * n);
  const auto weight = maker.Param(other, ParamMode::kIn, n);
  const auto out = maker.Param(memory, ParamMode::kOut, Dim(3) * n);
  maker.kernel.row_buffers.push_back({DType::kF32, n});
  const uint32_t kept = 3;
  const auto wide = [&](Id value, DType from) {
    return from == DType::kF32 ? value : maker.Op(ScalarOp::kCast, DType::kF32, {value});
  };
  maker.Loop(n);
  const Id x = wide(maker.Load(in, KernelMaker::At({n, 1})), memory);
  const Id size = maker.Op(ScalarOp::kAbs, DType::kF32, {x});
  maker.Store(kept, KernelMaker::At({0, 1}), size);
  const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {size});
  const Id best = maker.Op(ScalarOp::kReduceMax, DType::kF32, {size});
  maker.Row();
  const Id divisor = maker.Op(ScalarOp::kAdd, DType::kF32, {sum, best});
  maker.Loop(n);
  const Id part = maker.Op(ScalarOp::kDiv, DType::kF32, {maker.Load(kept, KernelMaker::At({0, 1})), divisor});
  const Id w = wide(maker.Load(weight, KernelMaker::At({0, 1})), other);
  const Id result = maker.Op(ScalarOp::kMul, DType::kF32, {part, w});
  maker.Store(out, KernelMaker::At({n, 1}),
              memory == DType::kF32 ? result : maker.Op(ScalarOp::kCast, memory, {result}));
  return maker.kernel;
}

TEST(LaneOrder, IsThatOfHalvesWhereMemoryIsNarrow) {
  EXPECT_EQ(EvenFirst(Normalise(DType::kBF16, DType::kBF16)), (std::vector<bool>{true, false, true}));
  // One loop reads f32 as it lies, and so the row buffer between them is in that order for both.
  EXPECT_EQ(EvenFirst(Normalise(DType::kBF16, DType::kF32)), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(EvenFirst(Normalise(DType::kF32, DType::kF32)), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(EvenFirst(Normalise(DType::kF16, DType::kF16)), (std::vector<bool>{false, false, false}));
}

TEST(LaneOrder, ChangesNoResult) {
  for (const DType other : {DType::kBF16, DType::kF32}) {
    const TestKernel test(Normalise(DType::kBF16, other));
    for (const int64_t extent : kExtents) {
      ExpectSameAsInterpreter(test, {extent}, 7 + extent);
      if (HasFailure()) return;
    }
  }
}

// A mask that is read and one that is written beside bf16.
TEST(LaneOrder, TakesMasksAlong) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(2)}, 1);
  const auto in = maker.Param(DType::kBF16, ParamMode::kIn, Dim(2) * n);
  const auto mask = maker.Param(DType::kBool, ParamMode::kIn, Dim(2) * n);
  const auto out = maker.Param(DType::kBF16, ParamMode::kOut, Dim(2) * n);
  const auto above = maker.Param(DType::kBool, ParamMode::kOut, Dim(2) * n);
  maker.Row();
  const Id none = maker.Const(DType::kF32, -1, 0);
  maker.Loop(n);
  const Id hides = maker.Load(mask, KernelMaker::At({n, 1}));
  const Id x = maker.Op(ScalarOp::kCast, DType::kF32, {maker.Load(in, KernelMaker::At({n, 1}))});
  const Id value = maker.Op(ScalarOp::kSelect, DType::kF32, {hides, none, x});
  maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kCast, DType::kBF16, {value}));
  maker.Store(above, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kGt, DType::kBool, {value, none}));
  EXPECT_TRUE(EvenFirst(maker.kernel)[1]);
  const TestKernel test(maker.kernel);
  for (const int64_t extent : kExtents) ExpectSameAsInterpreter(test, {extent}, 9 + extent);
}

// Scans tell them apart as well, but know where they stand.
TEST(LaneOrder, LeavesAloneWhatTellsLanesApart) {
  const Dim n = Dim::Symbol(0);
  for (const ScalarOp op : {ScalarOp::kScanSum, ScalarOp::kReduceArgMax, ScalarOp::kIndex}) {
    KernelMaker maker({Dim(2)}, 1);
    const auto in = maker.Param(DType::kBF16, ParamMode::kIn, Dim(2) * n);
    const auto out = maker.Param(DType::kBF16, ParamMode::kOut, Dim(2) * n);
    maker.Loop(n);
    const Id narrow = maker.Load(in, KernelMaker::At({n, 1}));
    Id value = maker.Op(ScalarOp::kCast, DType::kF32, {narrow});
    if (op == ScalarOp::kIndex) {
      const Id here = maker.Op(ScalarOp::kCast, DType::kF32, {maker.IndexValue(KernelMaker::At({0, 1}))});
      value = maker.Op(ScalarOp::kAdd, DType::kF32, {value, here});
    } else {
      const Id folded = maker.Op(op, op == ScalarOp::kScanSum ? DType::kF32 : DType::kI64, {value});
      if (op == ScalarOp::kScanSum) value = folded;
    }
    maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kCast, DType::kBF16, {value}));
    EXPECT_EQ(EvenFirst(maker.kernel)[0], op == ScalarOp::kScanSum) << static_cast<int>(op);
    const TestKernel test(maker.kernel);
    for (const int64_t extent : kExtents) ExpectSameAsInterpreter(test, {extent}, 1 + extent, false);
    if (HasFailure()) return;
  }
}

/// out[j] = j < place ? -in[j + n - place] : in[j - place], a rotation with a sign, and what else asks the same.
/// `s1` may lie anywhere in the row or at its ends.
loop::Kernel Rotate(DType memory, bool stores_apart) {
  const Dim n = Dim::Symbol(0), place = Dim::Symbol(1);
  KernelMaker maker({Dim(3)}, 2);
  const auto in = maker.Param(memory, ParamMode::kIn, Dim(3) * n);
  const auto out = maker.Param(memory, ParamMode::kInOut, Dim(3) * n);
  maker.Row();
  loop::Inst size;
  size.op = ScalarOp::kSize;
  size.dtype = DType::kI64;
  size.size = place + Dim(4);
  const Id bound = maker.Add(size);
  maker.Loop(n);
  const Id here = maker.IndexValue(KernelMaker::At({0, 1}, 4));
  const Id is_before = maker.Op(ScalarOp::kLt, DType::kBool, {here, bound});
  const Id is_behind = maker.Op(ScalarOp::kGe, DType::kBool, {here, bound});
  const auto wide = [&](Id value) {
    return memory == DType::kF32 ? value : maker.Op(ScalarOp::kCast, DType::kF32, {value});
  };
  const Id low = wide(maker.Load(in, KernelMaker::At({n, 1}, n - place), is_before));
  const Id high = wide(maker.Load(in, KernelMaker::At({n, 1}, Dim(0) - place), is_behind));
  const Id negated = maker.Op(ScalarOp::kNeg, DType::kF32, {low});
  const Id value = maker.Op(ScalarOp::kSelect, DType::kF32, {is_before, negated, high});
  const Id result = memory == DType::kF32 ? value : maker.Op(ScalarOp::kCast, memory, {value});
  maker.Store(out, KernelMaker::At({n, 1}), result, stores_apart ? is_behind : loop::kNone);
  return maker.kernel;
}

TEST(IndexSplit, IsFoundWhereAccessesAskForIt) {
  for (const DType memory : {DType::kF32, DType::kBF16}) {
    const loop::Kernel kernel = Rotate(memory, false);
    const auto split = x86::IndexSplitOf(kernel, kernel.blocks.back());
    ASSERT_TRUE(split);
    EXPECT_EQ(split->conditions.size(), 2U);
    EXPECT_TRUE(split->conditions[0].second);
    EXPECT_FALSE(split->conditions[1].second);
    EXPECT_EQ(EvenFirst(kernel).back(), memory == DType::kBF16);
  }
}

TEST(IndexSplit, LeavesOneAnswerOnEachSide) {
  for (const DType memory : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool stores_apart : {false, true}) {
      const TestKernel test(Rotate(memory, stores_apart));
      for (const int64_t extent : kExtents) {
        for (const int64_t place : {int64_t{0}, int64_t{1}, extent / 2, extent - 1, extent}) {
          if (place < 0 || place > extent) continue;
          ExpectSameAsInterpreter(test, {extent, place}, 5 + extent);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// The sum of both sides is one sum.
TEST(IndexSplit, IsNoneWhereColumnsBelongTogether) {
  loop::Kernel kernel = Rotate(DType::kF32, false);
  loop::Inst sum;
  sum.op = ScalarOp::kReduceSum;
  sum.dtype = DType::kF32;
  sum.args = {kernel.insts[kernel.blocks.back().insts.back()].args[0]};
  kernel.blocks.back().insts.push_back(static_cast<Id>(kernel.insts.size()));
  kernel.insts.push_back(sum);
  EXPECT_FALSE(x86::IndexSplitOf(kernel, kernel.blocks.back()));
}

}  // namespace
}  // namespace ingot::compiler
