// SPDX-License-Identifier: Apache-2.0
// Views that have the elements of their operand by other sizes, or some of them many times.
#include <algorithm>
#include <numeric>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

bool Push(const Type& like, Dims sizes, Dims strides, Results& results) {
  results.push_back({like.dtype, std::move(sizes), std::move(strides)});
  return true;
}

bool Viewed(const Type& type, Dims sizes, bool must_be_view, Results& results) {
  std::optional<Dims> resolved = ResolveSizes(type.sizes, std::move(sizes));
  if (!resolved) return false;
  std::optional<Dims> strides = ViewStrides(type, *resolved);
  if (!strides && must_be_view) return false;
  results.push_back({type.dtype, std::move(*resolved), std::move(strides)});
  return true;
}

bool Expanded(const Type& type, const Dims& wanted, Results& results) {
  if (wanted.size() < type.rank()) return false;
  const size_t offset = wanted.size() - type.rank();
  Dims sizes = wanted, strides(wanted.size(), Dim(0));
  for (size_t i = 0; i < type.rank(); ++i) {
    Dim& size = sizes[offset + i];
    if (type.sizes[i].is_one() && size != Dim(-1) && !size.is_one()) continue;
    if (size != Dim(-1) && !SameSize(size, type.sizes[i])) return false;
    size = type.sizes[i];
    strides[offset + i] = type.strides[i];
  }
  return Push(type, std::move(sizes), std::move(strides), results);
}

}  // namespace

bool ViewInOrder(const Call&, std::span<const Dims>, std::vector<ViewMap>& maps) {
  maps.push_back({.in_order = true});
  return true;
}

/// Dims of size 1 are that one place everywhere; dims that are not there before are in front.
bool ViewExpand(const Call& call, std::span<const Dims> sizes, std::vector<ViewMap>& maps) {
  const Dims& from = call.TypeAt(0)->sizes;
  if (sizes.size() != 1 || sizes[0].size() < from.size()) return false;
  const size_t added = sizes[0].size() - from.size();
  ViewMap map;
  for (size_t d = 0; d < from.size(); ++d) {
    if (!from[d].is_one() && from[d] != sizes[0][added + d]) return false;
    map.axes.push_back(from[d].is_one() ? ViewMap::Axis::At(0) : ViewMap::Axis::Along(added + d));
  }
  maps.push_back(std::move(map));
  return true;
}

bool InferView(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  std::optional<Dims> sizes = call.DimsAt(1);
  return type && sizes && Viewed(*type, std::move(*sizes), true, results);
}

bool InferReshape(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  std::optional<Dims> sizes = call.DimsAt(1);
  if (!type || !sizes || !Viewed(*type, std::move(*sizes), false, results)) return false;
  // Whether torch copies is its own choice (it also looks at dims of size 1).
  results[0].strides.reset();
  return true;
}

bool InferReshapeAs(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* other = call.TypeAt(1);
  if (!type || !other || !Viewed(*type, other->sizes, false, results)) return false;
  results[0].strides.reset();
  return true;
}

bool InferViewAs(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* other = call.TypeAt(1);
  return type && other && Viewed(*type, other->sizes, true, results);
}

bool InferViewAsReal(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || !IsComplex(type->dtype)) return false;
  Dims sizes = type->sizes, strides = type->strides;
  for (Dim& stride : strides) stride = stride * Dim(2);
  sizes.push_back(Dim(2));
  strides.push_back(Dim(1));
  results.push_back({type->dtype == DType::kC128 ? DType::kF64 : DType::kF32, std::move(sizes), std::move(strides)});
  return true;
}

/// real and imag of complex tensors.
bool InferPartOfComplex(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || !IsComplex(type->dtype)) return false;
  Dims strides = type->strides;
  for (Dim& stride : strides) stride = stride * Dim(2);
  results.push_back({type->dtype == DType::kC128 ? DType::kF64 : DType::kF32, type->sizes, std::move(strides)});
  return true;
}

bool InferViewAsComplex(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const bool has_type = type && (type->dtype == DType::kF32 || type->dtype == DType::kF64);
  if (!has_type || type->sizes.empty() || !SameSize(type->sizes.back(), Dim(2))) return false;
  Dims sizes(type->sizes.begin(), type->sizes.end() - 1), strides;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto stride = type->strides[i].DivideExactly(Dim(2));
    if (!stride) return false;
    strides.push_back(*stride);
  }
  const DType dtype = type->dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  results.push_back({dtype, std::move(sizes), std::move(strides)});
  return true;
}

bool InferFlatten(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  const std::optional<size_t> first = WrapDim(call.IntAt(1).value_or(0), type->rank());
  const std::optional<size_t> last = WrapDim(call.IntAt(2).value_or(-1), type->rank());
  if (!first || !last || *first > *last) return false;
  Dims sizes(type->sizes.begin(), type->sizes.begin() + std::min(*first, type->rank()));
  Dim merged = 1;
  for (size_t i = *first; i <= *last && i < type->rank(); ++i) merged = merged * type->sizes[i];
  sizes.push_back(merged);
  for (size_t i = *last + 1; i < type->rank(); ++i) sizes.push_back(type->sizes[i]);
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferUnflatten(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  std::optional<Dims> parts = call.DimsAt(2);
  if (!type || !dim || !parts || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  if (!at) return false;
  parts = ResolveSizes(std::span(&type->sizes[*at], 1), std::move(*parts));
  if (!parts) return false;
  Dims sizes = type->sizes;
  sizes.erase(sizes.begin() + *at);
  sizes.insert(sizes.begin() + *at, parts->begin(), parts->end());
  return Viewed(*type, std::move(sizes), true, results);
}

bool InferUnsqueeze(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  if (!type || !dim) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank() + 1);
  if (!at) return false;
  Dims sizes = type->sizes, strides = type->strides;
  const Dim stride = *at < type->rank() ? sizes[*at] * strides[*at] : Dim(1);
  sizes.insert(sizes.begin() + *at, Dim(1));
  strides.insert(strides.begin() + *at, stride);
  return Push(*type, std::move(sizes), std::move(strides), results);
}

bool InferSqueeze(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  Dims sizes, strides;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (!type->sizes[i].is_const()) return false;
    if (type->sizes[i].is_one()) continue;
    sizes.push_back(type->sizes[i]);
    strides.push_back(type->strides[i]);
  }
  return Push(*type, std::move(sizes), std::move(strides), results);
}

bool InferSqueezeDims(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<std::vector<int64_t>> dims = call.IntsAt(1);
  if (!type || !dims) return false;
  std::vector<bool> drop(std::max<size_t>(type->rank(), 1), false);
  for (int64_t dim : *dims) {
    const std::optional<size_t> at = WrapDim(dim, type->rank());
    if (!at) return false;
    drop[*at] = true;
  }
  Dims sizes, strides;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (drop[i] && !type->sizes[i].is_const()) return false;
    if (drop[i] && type->sizes[i].is_one()) continue;
    sizes.push_back(type->sizes[i]);
    strides.push_back(type->strides[i]);
  }
  return Push(*type, std::move(sizes), std::move(strides), results);
}

bool InferExpand(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> sizes = call.DimsAt(1);
  return type && sizes && Expanded(*type, *sizes, results);
}

bool InferExpandAs(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* other = call.TypeAt(1);
  return type && other && Expanded(*type, other->sizes, results);
}

bool InferBroadcastTensors(const Call& call, Results& results) {
  const auto types = call.TypesAt(0);
  if (!types) return false;
  std::optional<Dims> sizes = Dims{};
  for (const Type* type : *types) {
    sizes = Broadcast(*sizes, type->sizes);
    if (!sizes) return false;
  }
  return std::ranges::all_of(*types, [&](const Type* type) { return Expanded(*type, *sizes, results); });
}

bool InferMeshgrid(const Call& call, Results& results) {
  const auto types = call.TypesAt(0);
  if (!types) return false;
  std::vector<size_t> dim_of(types->size());
  std::iota(dim_of.begin(), dim_of.end(), size_t{0});
  if (call.NameAt(1).value_or("ij") == "xy" && dim_of.size() > 1) std::swap(dim_of[0], dim_of[1]);
  Dims sizes(types->size());
  for (size_t i = 0; i < types->size(); ++i) sizes[dim_of[i]] = (*types)[i]->Elements();
  for (size_t i = 0; i < types->size(); ++i) {
    const Type& type = *(*types)[i];
    if (type.rank() > 1) return false;
    Dims strides(types->size(), Dim(0));
    if (type.rank() == 1) strides[dim_of[i]] = type.strides[0];
    Push(type, sizes, std::move(strides), results);
  }
  return true;
}

}  // namespace ingot::compiler
