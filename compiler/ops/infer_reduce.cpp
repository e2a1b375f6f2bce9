// SPDX-License-Identifier: Apache-2.0
// Inference of reductions, normalisations and pooling.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

/// Sizes after folding the dims listed in argument `dims_at`; none or an empty list folds all.
std::optional<Dims> Reduced(const Call& call, size_t dims_at, size_t keep_at) {
  const Type* type = call.TypeAt(0);
  if (!type) return std::nullopt;
  std::vector<bool> folded(std::max<size_t>(type->rank(), 1), false);
  std::vector<int64_t> dims;
  if (!call.IsNone(dims_at)) {
    const std::optional<std::vector<int64_t>> listed = call.IntsAt(dims_at);
    if (!listed) return std::nullopt;
    dims = *listed;
  }
  if (dims.empty()) folded.assign(folded.size(), true);
  for (int64_t dim : dims) {
    const std::optional<size_t> at = WrapDim(dim, type->rank());
    if (!at) return std::nullopt;
    folded[*at] = true;
  }
  const bool keep = call.BoolAt(keep_at).value_or(false);
  Dims sizes;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (!folded[i]) {
      sizes.push_back(type->sizes[i]);
    } else if (keep) {
      sizes.push_back(Dim(1));
    }
  }
  return sizes;
}

bool PushReduced(const Call& call, size_t dims_at, size_t keep_at, DType dtype, Results& results) {
  std::optional<Dims> sizes = Reduced(call, dims_at, keep_at);
  if (!sizes) return false;
  results.push_back({dtype, std::move(*sizes)});
  return true;
}

/// Sums of integers and bools are 64 bit wide.
DType SumType(const Call& call, size_t dtype_at) {
  const DType own = call.TypeAt(0)->dtype;
  const bool wide = own == DType::kBool || IsInteger(own);
  return call.DTypeAt(dtype_at).value_or(wide ? DType::kI64 : own);
}

/// size * factor rounded down, as PyTorch computes it in doubles: where the factor is a fraction of a small power of
/// two the product is exact for every size there is.
std::optional<Dim> ScaledSize(const Dim& size, double factor) {
  constexpr int64_t kParts = 64, kFactorMax = 64;
  const double parts = factor * kParts;
  if (!(parts >= 1 && parts <= kFactorMax * kParts) || parts != std::floor(parts)) return std::nullopt;
  const auto numerator = static_cast<int64_t>(parts);
  const int64_t common = std::gcd(numerator, kParts);
  return FloorQuotient(size * Dim(numerator / common), Dim(kParts / common));
}

}  // namespace

bool InferSumAll(const Call& call, Results& results) {
  if (!call.TypeAt(0)) return false;
  results.push_back({SumType(call, 1), {}});
  return true;
}

bool InferSum(const Call& call, Results& results) {
  return call.TypeAt(0) && PushReduced(call, 1, 2, SumType(call, 3), results);
}

bool InferMeanAll(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({call.DTypeAt(1).value_or(type->dtype), {}});
  return true;
}

bool InferMean(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && PushReduced(call, 1, 2, call.DTypeAt(3).value_or(type->dtype), results);
}

bool InferVarDim(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && IsFloat(type->dtype) && PushReduced(call, 1, 3, type->dtype, results);
}

bool InferVarCorrection(const Call& call, Results& results) { return InferVarDim(call, results); }

bool InferVarMean(const Call& call, Results& results) {
  return InferVarDim(call, results) && InferVarDim(call, results);
}

bool InferCountNonzero(const Call& call, Results& results) {
  return call.TypeAt(0) && PushReduced(call, 1, std::numeric_limits<size_t>::max(), DType::kI64, results);
}

/// aminmax(x, dim, keepdim)
bool InferAminmax(const Call& call, Results& results) {
  return InferReduceSame(call, results) && InferReduceSame(call, results);
}

/// kthvalue(x, k, dim, keepdim)
bool InferKthValue(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && PushReduced(call, 2, 3, type->dtype, results) && PushReduced(call, 2, 3, DType::kI64, results);
}

bool InferReduceSame(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && PushReduced(call, 1, 2, type->dtype, results);
}

bool InferLogSumExp(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && IsFloat(type->dtype) && PushReduced(call, 1, 2, type->dtype, results);
}

bool InferAllSame(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({type->dtype, {}});
  return true;
}

bool InferMaxDim(const Call& call, Results& results) {
  return InferReduceSame(call, results) && PushReduced(call, 1, 2, DType::kI64, results);
}

bool InferArgMax(const Call& call, Results& results) { return PushReduced(call, 1, 2, DType::kI64, results); }

bool InferAnyAll(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({type->dtype == DType::kU8 ? DType::kU8 : DType::kBool, {}});
  return true;
}

bool InferAny(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  const bool byte = type->dtype == DType::kU8;
  return PushReduced(call, 1, 2, byte ? DType::kU8 : DType::kBool, results);
}

bool InferSoftmax(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({call.DTypeAt(2).value_or(type->dtype), type->sizes});
  return true;
}

bool InferSoftmaxPlain(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({call.BoolAt(2).value_or(false) ? DType::kF32 : type->dtype, type->sizes});
  return true;
}

bool InferCumsum(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({SumType(call, 2), type->sizes});
  return true;
}

bool InferRmsNorm(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* weight = call.TypeAt(2);
  if (!type) return false;
  results.push_back({weight ? PromoteTypes(type->dtype, weight->dtype) : type->dtype, type->sizes});
  return true;
}

/// Resized images: to sizes that are given, or by a factor for each dim.
bool InferUpsample(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> output = call.DimsAt(1);
  if (!type || (!output && !call.IsNone(1))) return false;
  const auto* factors = output ? nullptr : call.Get<std::vector<double>>(call.size() - 1);
  const size_t spatial = output ? output->size() : factors ? factors->size() : 0;
  if (spatial == 0 || type->rank() != spatial + 2) return false;
  Dims sizes = type->sizes;
  for (size_t i = 0; i < spatial; ++i) {
    const auto size = output ? std::optional((*output)[i]) : ScaledSize(sizes[i + 2], (*factors)[i]);
    if (!size) return false;
    sizes[i + 2] = *size;
  }
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferTopK(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dim> k = call.DimAt(1);
  if (!type || !k) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(-1), type->rank());
  if (!at) return false;
  Dims sizes = type->sizes;
  if (!sizes.empty()) sizes[*at] = *k;
  results.push_back({type->dtype, sizes});
  results.push_back({DType::kI64, sizes});
  return true;
}

bool InferArgSort(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({DType::kI64, type->sizes});
  return true;
}

/// norm(x, order, dims, keep) and linalg_vector_norm, which may be asked for an element type.
bool InferNorm(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && IsFloat(type->dtype) && PushReduced(call, 2, 3, call.DTypeAt(4).value_or(type->dtype), results);
}

bool InferSort(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({type->dtype, type->sizes});
  results.push_back({DType::kI64, type->sizes});
  return true;
}

}  // namespace ingot::compiler
