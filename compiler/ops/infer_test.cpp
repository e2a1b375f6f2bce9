// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/infer.h"

#include <set>

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

constexpr PromoteOperand Tensor(DType t) { return {t, PromoteOperand::kTensor}; }
constexpr PromoteOperand ZeroDim(DType t) { return {t, PromoteOperand::kZeroDim}; }
constexpr PromoteOperand Scalar(DType t) { return {t, PromoteOperand::kNumber}; }

DType Promote(std::initializer_list<PromoteOperand> operands) {
  return ResultType({operands.begin(), operands.size()});
}

// The table of torch.result_type, one row for each rule.
TEST(ResultType, RanksTensorsAboveZeroDimsAboveNumbers) {
  using enum DType;
  EXPECT_EQ(Promote({Tensor(kBF16), Scalar(kF32)}), kBF16);
  EXPECT_EQ(Promote({Tensor(kBF16), ZeroDim(kF64)}), kBF16);
  EXPECT_EQ(Promote({Tensor(kI32), Scalar(kI64)}), kI32);
  EXPECT_EQ(Promote({Tensor(kI64), Scalar(kF32)}), kF32);
  EXPECT_EQ(Promote({Tensor(kI64), ZeroDim(kF64)}), kF64);
  EXPECT_EQ(Promote({Tensor(kBool), Scalar(kI64)}), kI64);
  EXPECT_EQ(Promote({ZeroDim(kF16), Scalar(kF32)}), kF16);
  EXPECT_EQ(Promote({Tensor(kF64), Tensor(kI64)}), kF64);
}

TEST(PromoteTypes, WidensWhereNeitherHoldsTheOther) {
  EXPECT_EQ(PromoteTypes(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(PromoteTypes(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(PromoteTypes(DType::kC64, DType::kF64), DType::kC128);
  for (uint8_t a = 0; a < 12; ++a) {
    for (uint8_t b = 0; b < 12; ++b) {
      const auto x = static_cast<DType>(a), y = static_cast<DType>(b);
      EXPECT_EQ(PromoteTypes(x, y), PromoteTypes(y, x));
    }
  }
}

TEST(Broadcast, LeavesSymbolsAgainstNumbersOpen) {
  const Dim s0 = Dim::Symbol(0);
  EXPECT_EQ(Broadcast({s0, 1}, {4}), (Dims{s0, 4}));
  EXPECT_EQ(Broadcast({s0}, {s0}), (Dims{s0}));
  EXPECT_EQ(Broadcast({s0}, {4}), std::nullopt);
  EXPECT_EQ(Broadcast({3}, {4}), std::nullopt);
}

TEST(ViewStrides, KnowsChunksOfMemory) {
  const Type transposed{DType::kF32, {2, 4, 3}, {12, 1, 4}};
  EXPECT_EQ(ViewStrides(transposed, {2, 12}), std::nullopt);
  EXPECT_EQ(ViewStrides(transposed, {2, 2, 2, 3}), (Dims{12, 2, 1, 4}));
  EXPECT_EQ(ViewStrides(transposed, {1, 2, 4, 3, 1}), (Dims{24, 12, 1, 4, 4}));
  const Dim s0 = Dim::Symbol(0);
  EXPECT_EQ(ViewStrides({DType::kF32, {s0, 6}, {6, 1}}, {Dim(2) * s0, 3}), (Dims{3, 1}));
  EXPECT_EQ(ViewStrides({DType::kF32, {0, 6}, {6, 1}}, {3, 0}), (Dims{1, 1}));
}

TEST(Ops, NamesOccurOnce) {
  std::set<std::string_view> names;
  for (const OpInfo& op : AllOps()) EXPECT_TRUE(names.insert(op.name).second) << op.name;
}

TEST(IsPure, DependsOnTraining) {
  Node dropout;
  dropout.op = "aten.dropout";
  dropout.args = {Ref{0}, 0.5, true};
  EXPECT_FALSE(IsPure(dropout));
  dropout.args[2] = false;
  EXPECT_TRUE(IsPure(dropout));
  dropout.effects = kRandom;
  EXPECT_FALSE(IsPure(dropout));
}

/// One node over fixed inputs, read as text: the verifier accepts it if inference does.
bool Accepts(const std::string& node) {
  const std::string text =
      "graph @f(%x: f32[2, 3], %i: i64[2, 3], %z: f64[], %w: f32[5, 3], %m: f32[2, 3, 8, 8], "
      "%k: f32[4, 3, 3, 3], %t: f32[3, 4, 3, 3], %s: f32[2, 5, 4]) { " +
      std::string(node.starts_with('%') ? "" : "%r = ") + node + " return }";
  return Parse(text).has_value();
}

TEST(Infer, AgreesWithWhatEagerMakes) {
  EXPECT_TRUE(Accepts("aten.add.Tensor(%i, number 1.0, 1) : f32[2, 3]"));
  EXPECT_FALSE(Accepts("aten.add.Tensor(%i, number 1.0, 1) : i64[2, 3]"));
  EXPECT_TRUE(Accepts("aten.add.Tensor(%x, %z, 1) : f32[2, 3]"));
  EXPECT_TRUE(Accepts("aten.div.Tensor(%i, %i) : f32[2, 3]"));
  EXPECT_TRUE(Accepts("aten.linear(%x, %w, none) : f32[2, 5]"));
  EXPECT_FALSE(Accepts("aten.linear(%x, %w, none) : f32[5, 2]"));
  EXPECT_TRUE(Accepts("aten.sum.dim_IntList(%i, [-1], true, none) : i64[2, 1]"));
  EXPECT_TRUE(Accepts("aten.mean(%x, none) : f32[]"));
  EXPECT_TRUE(Accepts("aten.embedding(%w, %i, -1, false, false) : f32[2, 3, 3]"));
  EXPECT_TRUE(Accepts("aten.conv2d(%m, %k, none, [2, 2], [1, 1], [1, 1], 1) : f32[2, 4, 4, 4]"));
  EXPECT_FALSE(Accepts("aten.conv2d(%m, %k, none, [2, 2], [1, 1], [1, 1], 1) : f32[2, 4, 5, 4]"));
  EXPECT_TRUE(Accepts("aten.arange.start_step(5, 0, -2, none, none, none, none) : i64[3]"));
  EXPECT_TRUE(
      Accepts("aten.slice.Tensor(%x, 1, -2, 9223372036854775807, 2) : f32[2, 1] "
              "strides [3, 2]"));
  EXPECT_TRUE(Accepts("aten.einsum(\"ij,kj->ik\", [%x, %w], none) : f32[2, 5]"));
  EXPECT_FALSE(Accepts("aten.einsum(\"ij,kj->ki\", [%x, %w], none) : f32[2, 5]"));
  EXPECT_TRUE(Accepts("aten.avg_pool2d(%m, [3, 3], [2, 2], [1, 1], true, true, none) : f32[2, 3, 5, 5]"));
  EXPECT_TRUE(Accepts("aten.max_pool2d(%m, [2, 2], [3, 3], [1, 1], [1, 1], true) : f32[2, 3, 3, 3]"));
  EXPECT_FALSE(Accepts("aten.max_pool2d(%m, [2, 2], [3, 3], [1, 1], [1, 1], true) : f32[2, 3, 4, 4]"));
  EXPECT_TRUE(Accepts("aten.upsample_nearest2d.vec(%m, none, [1.5, 0.25]) : f32[2, 3, 12, 2]"));
  EXPECT_TRUE(
      Accepts("aten.conv_transpose2d.input(%m, %t, none, [2, 2], [1, 1], [1, 1], 1, [1, 1]) : "
              "f32[2, 4, 16, 16]"));
  const std::string attention =
      "%r, %a = aten._native_multi_head_attention(%s, %s, %s, 4, 2, %w, none, %w, none, none, true, ";
  EXPECT_TRUE(Accepts(attention + "true, none) : f32[2, 5, 4], f32[2, 5, 5]"));
  EXPECT_TRUE(Accepts(attention + "false, none) : f32[2, 5, 4], f32[2, 2, 5, 5]"));
  EXPECT_FALSE(Accepts(attention + "false, none) : f32[2, 5, 4], f32[2, 5, 5]"));
  EXPECT_TRUE(Accepts("aten.unfold(%x, 1, 2, 1) : f32[2, 2, 2] strides [3, 1, 1]"));
  // A view must have the strides that its operand's memory gives it.
  EXPECT_FALSE(Accepts("aten.t(%x) : f32[3, 2]"));
  EXPECT_TRUE(Accepts("aten.t(%x) : f32[3, 2] strides [1, 3]"));
  EXPECT_TRUE(Accepts("someone.custom(%x) : i8[7]"));
}

}  // namespace
}  // namespace ingot::compiler
