// SPDX-License-Identifier: Apache-2.0
// Inference of torch.ops.quantized_decomposed.
#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"

namespace ingot::compiler {
namespace {

/// The sizes of the first operand, and the type that argument `dtype_at` names; f32 where there is none.
bool LikeFirst(const Call& call, size_t dtype_at, Results& results) {
  const Type* x = call.TypeAt(0);
  if (x == nullptr) return false;
  if (!call.IsNone(dtype_at) && !call.DTypeAt(dtype_at)) return false;
  results.push_back({call.DTypeAt(dtype_at).value_or(DType::kF32), x->sizes});
  return true;
}

bool OfRows(const Call& call, DType scale, DType zero, Results& results) {
  const Type* x = call.TypeAt(0);
  if (x == nullptr || x->rank() == 0) return false;
  Dims sizes = x->sizes;
  sizes.back() = Dim(1);
  results.push_back({scale, sizes});
  results.push_back({zero, std::move(sizes)});
  return true;
}

}  // namespace

bool InferQuantize(const Call& call, Results& results) { return LikeFirst(call, 5, results); }
bool InferQuantizeChannel(const Call& call, Results& results) { return LikeFirst(call, 6, results); }
bool InferDequantize(const Call& call, Results& results) { return LikeFirst(call, 6, results); }
bool InferDequantizeChannel(const Call& call, Results& results) { return LikeFirst(call, 7, results); }

bool InferChooseToken(const Call& call, Results& results) {
  const Type* x = call.TypeAt(0);
  if (x == nullptr) return false;
  const DType t = x->dtype == DType::kF16 ? DType::kF32 : x->dtype;
  return OfRows(call, t, t, results);
}
bool InferChooseTokenAsymmetric(const Call& call, Results& results) {
  return OfRows(call, DType::kF64, DType::kI64, results);
}

}  // namespace ingot::compiler
