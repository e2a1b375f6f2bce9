// SPDX-License-Identifier: Apache-2.0
// Inference of matrix products, convolutions and attention.
#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

using Results = std::vector<Inferred>;

bool Push(DType dtype, Dims sizes, Results& results) {
  results.push_back({dtype, std::move(sizes)});
  return true;
}

/// Sizes of torch.matmul over operands of any rank.
std::optional<Dims> Product(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const Dim& inner_a = a.back();
  const Dim& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (!SameSize(inner_a, inner_b)) return std::nullopt;
  const Dims batch_a(a.begin(), a.end() - std::min<size_t>(a.size(), 2));
  const Dims batch_b(b.begin(), b.end() - std::min<size_t>(b.size(), 2));
  std::optional<Dims> sizes = Broadcast(batch_a, batch_b);
  if (!sizes) return std::nullopt;
  if (a.size() > 1) sizes->push_back(a[a.size() - 2]);
  if (b.size() > 1) sizes->push_back(b.back());
  return sizes;
}

/// Entry `i` of an argument with one for each spatial dim, or one for all.
Dim SpatialAt(const Call& call, size_t at, size_t i, int64_t otherwise) {
  const std::optional<Dims> dims = call.DimsAt(at);
  if (!dims || dims->empty()) return Dim(otherwise);
  return dims->size() == 1 ? dims->front() : dims->at(std::min(i, dims->size() - 1));
}

}  // namespace

bool InferLinear(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || input->sizes.empty() || weight->sizes.empty()) return false;
  if (weight->rank() > 2 || !SameSize(input->sizes.back(), weight->sizes.back())) return false;
  Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
  if (weight->rank() == 2) sizes.push_back(weight->sizes[0]);
  return Push(input->dtype, std::move(sizes), results);
}

bool InferMatmul(const Call& call, Results& results) {
  const Type* a = call.TypeAt(0);
  const Type* b = call.TypeAt(1);
  if (!a || !b) return false;
  std::optional<Dims> sizes = Product(a->sizes, b->sizes);
  return sizes && Push(call.DTypeAt(2).value_or(a->dtype), std::move(*sizes), results);
}

bool InferAddmm(const Call& call, Results& results) {
  const Type* a = call.TypeAt(1);
  const Type* b = call.TypeAt(2);
  if (!a || !b) return false;
  std::optional<Dims> sizes = Product(a->sizes, b->sizes);
  return sizes && Push(call.DTypeAt(3).value_or(a->dtype), std::move(*sizes), results);
}

bool InferOuter(const Call& call, Results& results) {
  const Type* a = call.TypeAt(0);
  const Type* b = call.TypeAt(1);
  if (!a || !b || a->rank() != 1 || b->rank() != 1) return false;
  return Push(PromoteTypes(a->dtype, b->dtype), {a->sizes[0], b->sizes[0]}, results);
}

bool InferConv(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3) return false;
  const size_t spatial = weight->rank() - 2;
  if (input->rank() != weight->rank() && input->rank() + 1 != weight->rank()) return false;
  // "same" pads to the size there was, whatever its stride of 1 and the kernel need.
  const auto named = call.NameAt(4);
  Dims sizes = input->sizes;
  sizes[sizes.size() - spatial - 1] = weight->sizes[0];
  if (named == "same") return Push(input->dtype, std::move(sizes), results);
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = sizes[sizes.size() - spatial + i];
    const Dim stride = SpatialAt(call, 3, i, 1);
    const Dim span = size + Dim(2) * SpatialAt(call, 4, i, 0) -
                     SpatialAt(call, 5, i, 1) * (weight->sizes[2 + i] - Dim(1)) - Dim(1);
    const bool is_too_small = span.is_const() && span.const_value() < 0;
    const std::optional<Dim> steps = is_too_small ? std::nullopt : FloorQuotient(span, stride);
    if (!steps) return false;
    size = *steps + Dim(1);
  }
  return Push(input->dtype, std::move(sizes), results);
}

bool InferConvTranspose(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3) return false;
  const size_t spatial = weight->rank() - 2;
  if (input->rank() != weight->rank() && input->rank() + 1 != weight->rank()) return false;
  const auto groups = call.IsNone(6) ? std::optional(Dim(1)) : call.DimAt(6);
  if (!groups) return false;
  Dims sizes = input->sizes;
  sizes[sizes.size() - spatial - 1] = weight->sizes[1] * *groups;
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = sizes[sizes.size() - spatial + i];
    size = (size - Dim(1)) * SpatialAt(call, 3, i, 1) - Dim(2) * SpatialAt(call, 4, i, 0) +
           SpatialAt(call, 7, i, 1) * (weight->sizes[2 + i] - Dim(1)) + SpatialAt(call, 5, i, 0) + Dim(1);
  }
  return Push(input->dtype, std::move(sizes), results);
}

bool InferAttention(const Call& call, Results& results) {
  const Type* query = call.TypeAt(0);
  const Type* value = call.TypeAt(2);
  if (!query || !value || query->rank() < 2 || value->rank() < 2) return false;
  Dims sizes = query->sizes;
  sizes.back() = value->sizes.back();
  return Push(query->dtype, std::move(sizes), results);
}

}  // namespace ingot::compiler
