// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

/// The dim that argument 1 names; 0 of a tensor without dims, which is its own scan.
std::optional<uint32_t> ScannedAxis(const Rule& r) {
  const auto dim = r.call.IntAt(1);
  const Type* type = r.call.TypeAt(0);
  if (!dim || type == nullptr) return std::nullopt;
  const auto axis = WrapDim(*dim, type->rank());
  return axis ? std::optional(static_cast<uint32_t>(*axis)) : std::nullopt;
}

/// cumsum(x, dim, dtype): in what torch adds up in, f64 for f32 and f32 for what is narrower, rounded at each place.
template <Op op>
Results Running(const Rule& r) {
  const DType t = r.result().dtype;
  const auto axis = ScannedAxis(r);
  const ExprId x = r.Converted(0, t);
  if (!axis || x == kNoExpr || t == DType::kBool) return {};
  const DType wide = t == DType::kF32 ? DType::kF64 : ComputeType(t);
  return {r.pool.Cast(r.pool.Scan(op, r.pool.Cast(x, wide), *axis), t)};
}

/// cummax(x, dim): values, and of equal ones (or of NaN) the last position so far.
template <Op op>
Results RunningExtreme(const Rule& r) {
  const auto axis = ScannedAxis(r);
  const ExprId x = r.Tensor(0);
  if (!axis || x == kNoExpr || r.pool[x].dtype == DType::kBool) return {};
  ExprPool& p = r.pool;
  const DType t = p[x].dtype;
  const ExprId best = p.Scan(op, x, *axis);
  if (r.result().rank() == 0) return {best, p.Int(0)};
  ExprId is_best = p.Map(Op::kEq, DType::kBool, {x, best});
  if (guards::IsFloat(t)) is_best = p.Map(Op::kOr, DType::kBool, {is_best, p.Map(Op::kIsNan, DType::kBool, {x})});
  const ExprId here = p.Iota(p[x].sizes, Affine::Var(static_cast<uint16_t>(*axis)));
  const ExprId position = p.Map(Op::kSelect, DType::kI64, {is_best, here, p.Int(0)});
  return {best, p.Scan(Op::kScanMax, position, *axis)};
}

}  // namespace

const RuleTable& ScanRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define SCAN(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
