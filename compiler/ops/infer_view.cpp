// SPDX-License-Identifier: Apache-2.0
// Inference of views: sizes and the exact strides.
#include <algorithm>
#include <span>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

using Results = std::vector<Inferred>;

/// Bound on the parts of one split, so that no size can make a list of results explode.
constexpr int64_t kPartsMax = 1 << 16;

bool Push(const Type& like, Dims sizes, Dims strides, Results& results) {
  results.push_back({like.dtype, std::move(sizes), std::move(strides)});
  return true;
}

bool Permuted(const Type& type, const std::vector<size_t>& order, Results& results) {
  Dims sizes, strides;
  for (size_t dim : order) {
    sizes.push_back(type.sizes[dim]);
    strides.push_back(type.strides[dim]);
  }
  return Push(type, std::move(sizes), std::move(strides), results);
}

std::vector<size_t> Identity(size_t rank) {
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  return order;
}

bool Swapped(const Type& type, int64_t a, int64_t b, Results& results) {
  const std::optional<size_t> i = WrapDim(a, type.rank()), j = WrapDim(b, type.rank());
  if (!i || !j) return false;
  std::vector<size_t> order = Identity(type.rank());
  if (!order.empty()) std::swap(order[*i], order[*j]);
  return Permuted(type, order, results);
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

/// A bound of a slice with negative values counted from the end; nullopt where symbols leave its
/// place open.
std::optional<Dim> Bound(const Dim& bound, const Dim& size) {
  if (bound == size) return bound;
  if (bound.is_const()) {
    const int64_t value = bound.const_value();
    if (value == INT64_MAX) return size;
    if (size.is_const()) {
      const int64_t limit = size.const_value();
      return Dim(std::clamp(value < 0 ? value + limit : value, int64_t{0}, limit));
    }
    if (value == 0) return bound;
    // A symbolic size of at least |value| is not known; the recorded run decides.
    return std::nullopt;
  }
  return std::nullopt;
}

bool Sliced(const Type& type, size_t dim, const Dim& start, const Dim& end, int64_t step, Results& results) {
  Dims sizes = type.sizes, strides = type.strides;
  const Dim length = end - start;
  if (length.is_const()) {
    const int64_t value = std::max<int64_t>(length.const_value(), 0);
    sizes[dim] = Dim(value / step + (value % step != 0));
  } else {
    const auto taken = FloorQuotient(length + Dim(step - 1), Dim(step));
    if (!taken) return false;
    sizes[dim] = *taken;
  }
  strides[dim] = strides[dim] * Dim(step);
  return Push(type, std::move(sizes), std::move(strides), results);
}

bool Parts(const Type& type, size_t dim, const Dims& lengths, Results& results) {
  for (const Dim& length : lengths) {
    Dims sizes = type.sizes;
    sizes[dim] = length;
    Push(type, std::move(sizes), type.strides, results);
  }
  return true;
}

/// Parts of one length, the last of what is left: as many as there were.
std::optional<Dims> EqualParts(const Dim& size, const Dim& part) {
  if (!IsAtLeastZero(part - Dim(1)).value_or(false)) return std::nullopt;
  Dims lengths;
  for (Dim left = size;; left = left - part) {
    const auto goes_on = IsAtLeastZero(left - part - Dim(1));
    if (!goes_on || std::ssize(lengths) > kPartsMax) return std::nullopt;
    lengths.push_back(*goes_on ? part : left);
    if (!*goes_on) return lengths;
  }
}

}  // namespace

bool InferAlias(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && Push(*type, type->sizes, type->strides, results);
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

bool InferTranspose(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> a = call.IntAt(1), b = call.IntAt(2);
  return type && a && b && Swapped(*type, *a, *b, results);
}

bool InferT(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || type->rank() > 2) return false;
  return type->rank() < 2 ? InferAlias(call, results) : Swapped(*type, 0, 1, results);
}

bool InferNumpyT(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  std::vector<size_t> order = Identity(type->rank());
  std::reverse(order.begin(), order.end());
  return Permuted(*type, order, results);
}

bool InferMT(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && type->rank() >= 2 && Swapped(*type, -2, -1, results);
}

bool InferPermute(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<std::vector<int64_t>> dims = call.IntsAt(1);
  if (!type || !dims || dims->size() != type->rank()) return false;
  std::vector<size_t> order;
  for (int64_t dim : *dims) {
    const std::optional<size_t> at = WrapDim(dim, type->rank());
    if (!at || std::find(order.begin(), order.end(), *at) != order.end()) return false;
    order.push_back(*at);
  }
  return Permuted(*type, order, results);
}

bool InferMovedim(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> from = call.IntAt(1), to = call.IntAt(2);
  if (!type || !from || !to || type->sizes.empty()) return false;
  const std::optional<size_t> i = WrapDim(*from, type->rank()), j = WrapDim(*to, type->rank());
  if (!i || !j) return false;
  std::vector<size_t> order = Identity(type->rank());
  order.erase(order.begin() + *i);
  order.insert(order.begin() + *j, *i);
  return Permuted(*type, order, results);
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
  std::vector<size_t> dim_of = Identity(types->size());
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

bool InferSelect(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  if (!type || !dim || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  if (!at) return false;
  Dims sizes = type->sizes, strides = type->strides;
  sizes.erase(sizes.begin() + *at);
  strides.erase(strides.begin() + *at);
  return Push(*type, std::move(sizes), std::move(strides), results);
}

bool InferSlice(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(1).value_or(0), type->rank());
  const std::optional<int64_t> step = call.IsNone(4) ? std::optional<int64_t>(1) : call.IntAt(4);
  if (!at || !step || *step < 1) return false;
  const Dim& size = type->sizes[*at];
  const std::optional<Dim> start = Bound(call.DimAt(2).value_or(Dim(0)), size);
  const std::optional<Dim> end = Bound(call.DimAt(3).value_or(size), size);
  return start && end && Sliced(*type, *at, *start, *end, *step, results);
}

bool InferNarrow(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  const std::optional<Dim> length = call.DimAt(3);
  if (!type || !dim || !length || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  return at && Parts(*type, *at, {*length}, results);
}

bool InferSplit(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dim> part = call.DimAt(1);
  if (!type || !part || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(0), type->rank());
  if (!at) return false;
  const std::optional<Dims> lengths = EqualParts(type->sizes[*at], *part);
  return lengths && Parts(*type, *at, *lengths, results);
}

bool InferSplitSizes(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> lengths = call.DimsAt(1);
  if (!type || !lengths || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(0), type->rank());
  return at && Parts(*type, *at, *lengths, results);
}

bool InferChunk(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> chunks = call.IntAt(1);
  if (!type || !chunks || *chunks < 1 || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(0), type->rank());
  // An empty dim makes as many chunks as asked; too rare to be worth a rule.
  if (!at || type->sizes[*at].is_zero()) return false;
  const auto part = FloorQuotient(type->sizes[*at] + Dim(*chunks - 1), Dim(*chunks));
  const std::optional<Dims> lengths = part ? EqualParts(type->sizes[*at], *part) : std::nullopt;
  return lengths && Parts(*type, *at, *lengths, results);
}

bool InferTensorSplit(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> count = call.IntAt(1);
  if (!type || !count || *count < 1 || *count > kPartsMax || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(0), type->rank());
  if (!at) return false;
  Dims lengths;
  // The first parts take one more each of what is left over.
  for (int64_t i = 0; i < *count; ++i) {
    const auto length = FloorQuotient(type->sizes[*at] + Dim(*count - 1 - i), Dim(*count));
    if (!length) return false;
    lengths.push_back(*length);
  }
  return Parts(*type, *at, lengths, results);
}

bool InferTensorSplitAt(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> bounds = call.DimsAt(1);
  if (!type || !bounds || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(0), type->rank());
  if (!at) return false;
  const Dim& size = type->sizes[*at];
  // Bounds as those of slices: from the end below 0, and no further than the dim goes.
  const auto within = [](Dim bound, const Dim& low, const Dim& high) -> std::optional<Dim> {
    const auto is_above = IsAtLeastZero(bound - low), is_below = IsAtLeastZero(high - bound);
    if (!is_above || !is_below) return std::nullopt;
    return !*is_above ? low : !*is_below ? high : bound;
  };
  Dims lengths;
  Dim start = 0;
  for (size_t i = 0; i <= bounds->size(); ++i) {
    Dim end = i < bounds->size() ? (*bounds)[i] : size;
    const auto is_from_front = IsAtLeastZero(end);
    if (!is_from_front) return false;
    if (!*is_from_front) end = end + size;
    const auto first = within(start, 0, size);
    const auto last = first ? within(end, *first, size) : std::nullopt;
    if (!last) return false;
    lengths.push_back(*last - *first);
    start = end;
  }
  return Parts(*type, *at, lengths, results);
}

bool InferUnbind(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(1).value_or(0), type->rank());
  if (!at) return false;
  // As many results as there were.
  const Dim& size = type->sizes[*at];
  const Dim count = size.is_const() ? size : Dim(std::ssize(call.node().results));
  if (!SameSize(size, count) || count.const_value() > kPartsMax) return false;
  Dims sizes = type->sizes, strides = type->strides;
  sizes.erase(sizes.begin() + *at);
  strides.erase(strides.begin() + *at);
  for (int64_t i = 0; i < count.const_value(); ++i) {
    Push(*type, sizes, strides, results);
  }
  return true;
}

}  // namespace ingot::compiler
