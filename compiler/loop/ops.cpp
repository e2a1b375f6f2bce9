// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/ops.h"

#include <algorithm>
#include <iterator>

namespace ingot::compiler::loop {
namespace {

constexpr OpTraits kOps[] = {
    {ScalarOp::kConst, "const", 0, OpClass::kConst},
    {ScalarOp::kSize, "size", 0, OpClass::kSize},
    {ScalarOp::kIndex, "index", 0, OpClass::kIndex},
    {ScalarOp::kLoad, "load", 0, OpClass::kLoad},
    {ScalarOp::kStore, "store", 1, OpClass::kStore},
    {ScalarOp::kCast, "cast", 1, OpClass::kCast},
    {ScalarOp::kAdd, "add", 2, OpClass::kArith},
    {ScalarOp::kSub, "sub", 2, OpClass::kArith},
    {ScalarOp::kMul, "mul", 2, OpClass::kArith},
    {ScalarOp::kDiv, "div", 2, OpClass::kArith},
    {ScalarOp::kFloorDiv, "floordiv", 2, OpClass::kArith, Digits::kDiscrete},
    {ScalarOp::kRem, "rem", 2, OpClass::kArith, Digits::kDiscrete},
    {ScalarOp::kMin, "min", 2, OpClass::kArith},
    {ScalarOp::kMax, "max", 2, OpClass::kArith},
    {ScalarOp::kPow, "pow", 2, OpClass::kArith, Digits::kSteps},
    {ScalarOp::kAtan2, "atan2", 2, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kFma, "fma", 3, OpClass::kFloatArith},
    {ScalarOp::kNeg, "neg", 1, OpClass::kArith},
    {ScalarOp::kAbs, "abs", 1, OpClass::kArith},
    {ScalarOp::kSign, "sign", 1, OpClass::kArith, Digits::kDiscrete},
    {ScalarOp::kSqrt, "sqrt", 1, OpClass::kFloatArith},
    {ScalarOp::kRsqrt, "rsqrt", 1, OpClass::kFloatArith},
    {ScalarOp::kRecip, "recip", 1, OpClass::kFloatArith},
    {ScalarOp::kExp, "exp", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kExpm1, "expm1", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kLog, "log", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kLog1p, "log1p", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kLog2, "log2", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kSin, "sin", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kCos, "cos", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kTanh, "tanh", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kErf, "erf", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kSigmoid, "sigmoid", 1, OpClass::kFloatArith, Digits::kRounded},
    {ScalarOp::kFloor, "floor", 1, OpClass::kFloatArith, Digits::kDiscrete},
    {ScalarOp::kCeil, "ceil", 1, OpClass::kFloatArith, Digits::kDiscrete},
    {ScalarOp::kRound, "round", 1, OpClass::kFloatArith, Digits::kDiscrete},
    {ScalarOp::kTrunc, "trunc", 1, OpClass::kFloatArith, Digits::kDiscrete},
    {ScalarOp::kEq, "eq", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kNe, "ne", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kLt, "lt", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kLe, "le", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kGt, "gt", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kGe, "ge", 2, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kAnd, "and", 2, OpClass::kLogic},
    {ScalarOp::kOr, "or", 2, OpClass::kLogic},
    {ScalarOp::kXor, "xor", 2, OpClass::kLogic},
    {ScalarOp::kNot, "not", 1, OpClass::kLogic},
    {ScalarOp::kShl, "shl", 2, OpClass::kIntArith},
    {ScalarOp::kShr, "shr", 2, OpClass::kIntArith},
    {ScalarOp::kIsNan, "isnan", 1, OpClass::kCompare, Digits::kDiscrete},
    {ScalarOp::kSelect, "select", 3, OpClass::kSelect},
    {ScalarOp::kScanSum, "scan_sum", 1, OpClass::kScan, Digits::kRounded},
    {ScalarOp::kScanProd, "scan_prod", 1, OpClass::kScan, Digits::kRounded},
    {ScalarOp::kScanMax, "scan_max", 1, OpClass::kScan},
    {ScalarOp::kScanMin, "scan_min", 1, OpClass::kScan},
    {ScalarOp::kReduceSum, "reduce_sum", 1, OpClass::kReduce, Digits::kRounded},
    {ScalarOp::kReduceProd, "reduce_prod", 1, OpClass::kReduce, Digits::kRounded},
    {ScalarOp::kReduceMax, "reduce_max", 1, OpClass::kReduce},
    {ScalarOp::kReduceMin, "reduce_min", 1, OpClass::kReduce},
    {ScalarOp::kReduceAny, "reduce_any", 1, OpClass::kReduceBool},
    {ScalarOp::kReduceAll, "reduce_all", 1, OpClass::kReduceBool},
    {ScalarOp::kReduceMaxNumber, "reduce_max_number", 1, OpClass::kReduce},
    {ScalarOp::kReduceArgMax, "reduce_argmax", 1, OpClass::kReduceArg, Digits::kDiscrete},
    {ScalarOp::kReduceArgMin, "reduce_argmin", 1, OpClass::kReduceArg, Digits::kDiscrete},
    {ScalarOp::kReduceDot, "reduce_dot", 2, OpClass::kReduceDot, Digits::kRounded},
};

constexpr bool InEnumOrder() {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return std::size(kOps) == static_cast<size_t>(ScalarOp::kReduceDot) + 1;
}
static_assert(InEnumOrder());

}  // namespace

bool IsDiscrete(ScalarOp op, DType from, DType to) {
  if (!guards::IsFloat(from)) return false;
  if (op == ScalarOp::kCast) return !guards::IsFloat(to) || guards::IsFloat8(to);
  const Digits digits = TraitsOf(op).digits;
  return digits == Digits::kDiscrete || digits == Digits::kSteps;
}

bool IsExact(ScalarOp op, DType from) {
  const Digits digits = TraitsOf(op).digits;
  return !guards::IsFloat(from) || digits == Digits::kExact || digits == Digits::kDiscrete;
}

const OpTraits& TraitsOf(ScalarOp op) { return kOps[static_cast<uint8_t>(op)]; }

ScalarOp ReductionOf(ScalarOp scan) {
  switch (scan) {
    case ScalarOp::kScanSum: return ScalarOp::kReduceSum;
    case ScalarOp::kScanProd: return ScalarOp::kReduceProd;
    case ScalarOp::kScanMax: return ScalarOp::kReduceMax;
    case ScalarOp::kScanMin: return ScalarOp::kReduceMin;
    default: return scan;
  }
}

std::optional<ScalarOp> OpFromName(std::string_view name) {
  const auto* it =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const OpTraits& row) { return row.name == name; });
  if (it == std::end(kOps)) return std::nullopt;
  return it->op;
}

}  // namespace ingot::compiler::loop
