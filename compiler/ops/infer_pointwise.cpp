// SPDX-License-Identifier: Apache-2.0
// Inference of operators that work element by element, and of casts.
#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"

namespace ingot::compiler {
namespace {

/// Collects operands: their broadcast sizes and their promoted element type.
class Promotion {
 public:
  explicit Promotion(const Call& call) : call_(call) {}

  /// Takes argument `i`, a tensor or a scalar.
  bool Add(size_t i) {
    if (const Type* type = call_.TypeAt(i)) {
      operands_.push_back({type->dtype, type->sizes.empty() ? PromoteOperand::kZeroDim : PromoteOperand::kTensor});
      return AddSizes(*type);
    }
    const std::optional<Number> number = call_.ScalarAt(i);
    if (!number) return false;
    operands_.push_back({DTypeOf(*number), PromoteOperand::kNumber});
    return true;
  }
  /// Takes the sizes of argument `i` and not its element type.
  bool AddShape(size_t i) {
    const Type* type = call_.TypeAt(i);
    return type && AddSizes(*type);
  }
  Inferred Result() const {
    Inferred result{ResultType(operands_), sizes_};
    // A float number among integers alone brings in the default type.
    bool float_tensor = false, float_number = false;
    for (const PromoteOperand& operand : operands_) {
      const bool is_float = IsFloat(operand.dtype) || IsComplex(operand.dtype);
      (operand.kind == PromoteOperand::kNumber ? float_number : float_tensor) |= is_float;
    }
    result.default_dtype = float_number && !float_tensor;
    return result;
  }

 private:
  bool AddSizes(const Type& type) {
    std::optional<Dims> sizes = Broadcast(sizes_, type.sizes);
    if (!sizes) return false;
    sizes_ = std::move(*sizes);
    return true;
  }

  const Call& call_;
  Dims sizes_;
  std::vector<PromoteOperand> operands_;
};

void MakeFloat(Inferred& result) {
  if (IsFloat(result.dtype) || IsComplex(result.dtype)) return;
  result.dtype = DType::kF32;
  result.default_dtype = true;
}

bool WithDType(const Call& call, size_t position, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({call.DTypeAt(position).value_or(type->dtype), type->sizes});
  return true;
}

}  // namespace

bool InferUnary(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  results.push_back({type->dtype, type->sizes});
  return true;
}

bool InferFloatUnary(const Call& call, Results& results) {
  if (!InferUnary(call, results)) return false;
  MakeFloat(results[0]);
  return true;
}

bool InferAbs(const Call& call, Results& results) {
  if (!InferUnary(call, results)) return false;
  DType& dtype = results[0].dtype;
  if (IsComplex(dtype)) dtype = dtype == DType::kC128 ? DType::kF64 : DType::kF32;
  return true;
}

bool InferAngle(const Call& call, Results& results) { return InferAbs(call, results) && IsFloat(results[0].dtype); }

bool InferPolar(const Call& call, Results& results) {
  const Type *length = call.TypeAt(0), *angle = call.TypeAt(1);
  if (!length || !angle || length->dtype != angle->dtype) return false;
  if (length->dtype != DType::kF32 && length->dtype != DType::kF64) return false;
  std::optional<Dims> sizes = Broadcast(length->sizes, angle->sizes);
  if (!sizes) return false;
  results.push_back({length->dtype == DType::kF64 ? DType::kC128 : DType::kC64, std::move(*sizes)});
  return true;
}

bool InferSquare(const Call& call, Results& results) {
  if (!InferUnary(call, results)) return false;
  // pow(bool, 2) is an integer.
  if (results[0].dtype == DType::kBool) results[0].dtype = DType::kI64;
  return true;
}

bool InferPredicate(const Call& call, Results& results) {
  if (!InferUnary(call, results)) return false;
  results[0].dtype = DType::kBool;
  return true;
}

bool InferToDType(const Call& call, Results& results) { return WithDType(call, 1, results); }
bool InferToDevice(const Call& call, Results& results) { return WithDType(call, 2, results); }
bool InferToLayout(const Call& call, Results& results) { return WithDType(call, 1, results); }

bool InferToOther(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* other = call.TypeAt(1);
  if (!type || !other) return false;
  results.push_back({other->dtype, type->sizes});
  return true;
}

bool InferBinary(const Call& call, Results& results) {
  Promotion promotion(call);
  if (!promotion.Add(0) || !promotion.Add(1)) return false;
  results.push_back(promotion.Result());
  return true;
}

bool InferFloatBinary(const Call& call, Results& results) {
  if (!InferBinary(call, results)) return false;
  MakeFloat(results[0]);
  return true;
}

bool InferDivMode(const Call& call, Results& results) {
  if (!InferBinary(call, results)) return false;
  if (call.IsNone(2)) MakeFloat(results[0]);
  return true;
}

bool InferTernary(const Call& call, Results& results) {
  Promotion promotion(call);
  if (!promotion.Add(0) || !promotion.Add(1) || !promotion.Add(2)) return false;
  results.push_back(promotion.Result());
  return true;
}

bool InferClamp(const Call& call, Results& results) {
  Promotion promotion(call);
  if (!promotion.Add(0)) return false;
  for (size_t i : {1, 2}) {
    if (!call.IsNone(i) && !promotion.Add(i)) return false;
  }
  results.push_back(promotion.Result());
  return true;
}

bool InferCompare(const Call& call, Results& results) {
  if (!InferBinary(call, results)) return false;
  results[0].dtype = DType::kBool;
  results[0].default_dtype = false;
  return true;
}

bool InferWhere(const Call& call, Results& results) {
  Promotion promotion(call);
  if (!promotion.AddShape(0) || !promotion.Add(1) || !promotion.Add(2)) return false;
  results.push_back(promotion.Result());
  if (!call.TypeAt(1) && !call.TypeAt(2)) results[0].default_dtype = IsFloat(results[0].dtype);
  return true;
}

/// The dim along which two tensors are compared is gone.
bool InferCosineSimilarity(const Call& call, Results& results) {
  if (!InferFloatBinary(call, results)) return false;
  Dims& sizes = results[0].sizes;
  const auto at = WrapDim(call.IntAt(2).value_or(1), sizes.size());
  if (!at || *at >= sizes.size()) return false;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(*at));
  return true;
}

/// pairwise_distance(x, y, p, eps, keepdim)
bool InferPairwiseDistance(const Call& call, Results& results) {
  if (!InferFloatBinary(call, results)) return false;
  Dims& sizes = results[0].sizes;
  if (sizes.empty()) return false;
  if (call.BoolAt(4).value_or(false)) {
    sizes.back() = Dim(1);
  } else {
    sizes.pop_back();
  }
  return true;
}

/// A loss of each pair of elements, their mean or their sum: loss(x, y, reduction).
bool InferLoss(const Call& call, Results& results) {
  const auto reduction = call.IsNone(2) ? std::optional<int64_t>(1) : call.IntAt(2);
  if (!reduction || !InferBinary(call, results)) return false;
  if (*reduction != 0) results[0].sizes.clear();
  return true;
}

/// Whether each element is among others.
bool InferIsIn(const Call& call, Results& results) {
  const Type *type = call.TypeAt(0), *among = call.TypeAt(1);
  if (!type || !among) return false;
  results.push_back({DType::kBool, type->sizes});
  return true;
}

bool InferBucketize(const Call& call, Results& results) {
  const Type *type = call.TypeAt(0), *boundaries = call.TypeAt(1);
  if (!type || !boundaries) return false;
  results.push_back({call.BoolAt(2).value_or(false) ? DType::kI32 : DType::kI64, type->sizes});
  return true;
}

/// searchsorted, in boundaries that are the same for all.
bool InferSearchSorted(const Call& call, Results& results) {
  const Type *boundaries = call.TypeAt(0), *type = call.TypeAt(1);
  if (!type || !boundaries || boundaries->rank() != 1) return false;
  results.push_back({call.BoolAt(2).value_or(false) ? DType::kI32 : DType::kI64, type->sizes});
  return true;
}

bool InferMaskedFill(const Call& call, Results& results) {
  Promotion promotion(call);
  if (!promotion.Add(0) || !promotion.AddShape(1)) return false;
  results.push_back(promotion.Result());
  return true;
}

}  // namespace ingot::compiler
