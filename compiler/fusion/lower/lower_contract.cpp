// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lower/lower.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

enum class Bytes : uint8_t { kAreIntegers, kAreWeights };

/// A product of matrices, where vectors can run along its depth or its columns.
ExprId Product(const Rule& r, size_t left, size_t right, uint16_t depth, Coords left_map, Coords right_map,
               Bytes bytes = Bytes::kAreIntegers) {
  const Type* a = r.call.TypeAt(left);
  const Type* b = r.call.TypeAt(right);
  const Type& result = r.result();
  const DType sum = ComputeType(result.dtype);
  const bool is_taken = sum == DType::kF32 || sum == DType::kF64 || sum == DType::kI32;
  // Bytes may be multiplied into i32, and are weights of floats where the operator says so; whatever else differs from
  // the result is PyTorch's matter.
  const auto fits = [&](const Type& type) {
    const bool takes_bytes = sum == DType::kI32 || (&type == b && bytes == Bytes::kAreWeights);
    return type.dtype == result.dtype || (takes_bytes && type.dtype == DType::kI8);
  };
  if (!is_taken || !fits(*a) || !fits(*b)) return kNoExpr;
  // Without columns there is nothing to tile: ATen's own products of vectors do.
  if (result.rank() == 0 || result.sizes.back().is_one()) return kNoExpr;
  const auto is_dense_along = [](const Type& type, const Coords& map, uint16_t var) {
    for (size_t k = 0; k < map.size(); ++k) {
      if (map[k].vars.size() == 1 && map[k].vars[0].first == var) return type.strides[k].is_one();
    }
    return false;
  };
  const auto column = static_cast<uint16_t>(result.rank() - 1);
  const bool along_depth = is_dense_along(*a, left_map, depth) && is_dense_along(*b, right_map, depth);
  // bf16 along columns would go through f32, twice as slow as ATen where there are many rows.
  const bool along_columns = result.dtype != DType::kBF16 && is_dense_along(*b, right_map, column);
  if (!along_depth && !along_columns) return kNoExpr;
  return r.pool.Contract(sum, r.pool.Cast(r.Tensor(left), sum), r.pool.Cast(r.Tensor(right), sum), result.sizes,
                         {depth}, std::move(left_map), std::move(right_map));
}

/// linear(x[..., K], w[N, K], b[N])
Results Linear(const Rule& r) {
  const Type* x = r.call.TypeAt(0);
  const Type* w = r.call.TypeAt(1);
  if (!x || !w || w->rank() != 2 || x->rank() == 0) return {};
  const size_t rank = r.result().rank();
  Coords left;
  for (size_t k = 0; k + 1 < rank; ++k) left.push_back(Along(k));
  const uint16_t depth = r.pool.DepthVar(w->sizes[1]);
  left.push_back(Affine::Var(depth));
  const ExprId product = Product(r, 0, 1, depth, std::move(left), {Along(rank - 1), Affine::Var(depth)});
  if (r.call.IsNone(2)) return {product};
  return {r.pool.Map(Op::kAdd, {product, r.Operand(2, ComputeType(r.result().dtype))})};
}

/// _weight_int8pack_mm(x[M, K], w[N, K], scales[N]): a scale for each output, which its sum meets.
Results WeightInt8(const Rule& r) {
  const Type *x = r.call.TypeAt(0), *w = r.call.TypeAt(1), *scales = r.call.TypeAt(2);
  if (!x || !w || !scales || x->rank() != 2 || w->rank() != 2 || w->dtype != DType::kI8) return {};
  if (!scales->IsContiguous()) return r.No("scales that PyTorch reads as if they lay side by side");
  const uint16_t depth = r.pool.DepthVar(w->sizes[1]);
  const ExprId product =
      Product(r, 0, 1, depth, {Along(0), Affine::Var(depth)}, {Along(1), Affine::Var(depth)}, Bytes::kAreWeights);
  return {r.pool.Map(Op::kMul, {product, r.Operand(2, ComputeType(r.result().dtype))})};
}

/// Two batches of matrices of equal rank, from arguments `left` on.
ExprId MatrixProduct(const Rule& r, size_t left) {
  const Type* a = r.call.TypeAt(left);
  const Type* b = r.call.TypeAt(left + 1);
  const size_t rank = r.result().rank();
  if (!a || !b || a->rank() < 2 || b->rank() < 2 || rank < 2) return kNoExpr;
  if (a->rank() > rank || b->rank() > rank || std::max(a->rank(), b->rank()) != rank) return kNoExpr;
  const uint16_t depth = r.pool.DepthVar(a->sizes.back());
  const auto map_of = [&](const Type& type, bool is_left) {
    Coords map;
    for (size_t k = 0; k + 2 < type.rank(); ++k) {
      // A batch of one goes with every other.
      map.push_back(type.sizes[k].is_one() ? Affine() : Along(rank - type.rank() + k));
    }
    map.push_back(is_left ? Along(rank - 2) : Affine::Var(depth));
    map.push_back(is_left ? Affine::Var(depth) : Along(rank - 1));
    return map;
  };
  return Product(r, left, left + 1, depth, map_of(*a, true), map_of(*b, false));
}

Results Matmul(const Rule& r) { return {MatrixProduct(r, 0)}; }

/// addmm(c, a, b, *, beta, alpha) and baddbmm
Results Addmm(const Rule& r) {
  const DType t = ComputeType(r.result().dtype);
  if (!guards::IsFloat(t)) return {};
  const double beta = r.FloatAt(3, 1), alpha = r.FloatAt(4, 1);
  // Its libraries pass the operands over, infinities included, or do not, by their types and sizes.
  if (alpha == 0) return r.No("a product times 0, which PyTorch's libraries may leave out");
  ExprPool& p = r.pool;
  ExprId product = MatrixProduct(r, 1);
  if (alpha != 1) product = p.Map(Op::kMul, {product, p.Float(alpha, t)});
  // With a beta of 0 nothing of `c` reaches the result, NaN included.
  if (beta == 0) return {product};
  ExprId added = r.Operand(0, t);
  if (beta != 1) added = p.Map(Op::kMul, {added, p.Float(beta, t)});
  return {p.Map(Op::kAdd, {product, added})};
}

}  // namespace

const RuleTable& ContractRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define CONTRACT(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
