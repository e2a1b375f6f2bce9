// SPDX-License-Identifier: Apache-2.0
// Inference of gathers, of moves by a fixed map, and of creation.
#include <algorithm>
#include <cstdint>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

/// The result of a creation with an optional element type argument.
bool Create(const Call& call, size_t dtype_at, Dims sizes, Results& results) {
  const std::optional<DType> dtype = call.DTypeAt(dtype_at);
  results.push_back({dtype.value_or(DType::kF32), std::move(sizes)});
  results.back().default_dtype = !dtype;
  return true;
}

/// Full without an element type takes that of its number.
bool Fill(const Call& call, size_t value_at, size_t dtype_at, Dims sizes, Results& results) {
  const std::optional<DType> dtype = call.DTypeAt(dtype_at);
  if (dtype) return Push(*dtype, std::move(sizes), results);
  const std::optional<Number> value = call.ScalarAt(value_at);
  if (!value) return false;
  Push(DTypeOf(*value), std::move(sizes), results);
  results.back().default_dtype = IsFloat(results.back().dtype);
  return true;
}

}  // namespace

bool InferEmbedding(const Call& call, Results& results) {
  const Type* weight = call.TypeAt(0);
  const Type* indices = call.TypeAt(1);
  if (!weight || !indices || weight->rank() != 2) return false;
  Dims sizes = indices->sizes;
  sizes.push_back(weight->sizes[1]);
  return Push(weight->dtype, std::move(sizes), results);
}

bool InferIndex(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const RefList* list = call.Get<RefList>(1);
  if (!type || !list || list->ids.size() > type->rank()) return false;
  Dims picked, before, after;
  bool seen = false, gap = false, split = false;
  for (size_t i = 0; i < type->rank(); ++i) {
    const ValueId id = i < list->ids.size() ? list->ids[i] : kNoValue;
    if (id == kNoValue) {
      (seen ? after : before).push_back(type->sizes[i]);
      gap |= seen;
      continue;
    }
    const Type& index = call.graph().type(id);
    // Masks make sizes that depend on data.
    if (index.dtype == DType::kBool || index.dtype == DType::kU8) return false;
    std::optional<Dims> sizes = Broadcast(picked, index.sizes);
    if (!sizes) return false;
    picked = std::move(*sizes);
    split |= gap;
    seen = true;
  }
  // Index tensors that do not stand together put their dims in front.
  Dims sizes = split ? picked : before;
  const Dims& middle = split ? before : picked;
  sizes.insert(sizes.end(), middle.begin(), middle.end());
  sizes.insert(sizes.end(), after.begin(), after.end());
  return Push(type->dtype, std::move(sizes), results);
}

bool InferIndexSelect(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> dim = call.IntAt(1);
  const Type* index = call.TypeAt(2);
  if (!type || !dim || !index || type->sizes.empty() || index->rank() > 1) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  if (!at) return false;
  Dims sizes = type->sizes;
  sizes[*at] = index->Elements();
  return Push(type->dtype, std::move(sizes), results);
}

bool InferGather(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const Type* index = call.TypeAt(2);
  return type && index && Push(type->dtype, index->sizes, results);
}

bool InferCat(const Call& call, Results& results) {
  auto types = call.TypesAt(0);
  if (!types) return false;
  DType dtype = types->front()->dtype;
  for (const Type* type : *types) dtype = PromoteTypes(dtype, type->dtype);
  // Torch skips empty tensors of rank 1 beside others, but for their element type.
  const auto is_nothing = [](const Type* type) { return type->rank() == 1 && type->sizes[0].is_zero(); };
  if (!std::all_of(types->begin(), types->end(), is_nothing)) std::erase_if(*types, is_nothing);
  Dims sizes = types->front()->sizes;
  const std::optional<size_t> at = WrapDim(call.IntAt(1).value_or(0), sizes.size());
  if (!at || sizes.empty()) return false;
  for (size_t i = 1; i < types->size(); ++i) {
    const Type& type = *(*types)[i];
    if (type.rank() != sizes.size()) return false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != *at && !SameSize(sizes[d], type.sizes[d])) return false;
    }
    sizes[*at] = sizes[*at] + type.sizes[*at];
  }
  return Push(dtype, std::move(sizes), results);
}

bool InferStack(const Call& call, Results& results) {
  const auto types = call.TypesAt(0);
  if (!types) return false;
  Dims sizes = types->front()->sizes;
  const std::optional<size_t> at = WrapDim(call.IntAt(1).value_or(0), sizes.size() + 1);
  if (!at) return false;
  DType dtype = types->front()->dtype;
  for (const Type* type : *types) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (type->rank() != sizes.size() || !SameSize(sizes[d], type->sizes[d])) return false;
    }
    dtype = PromoteTypes(dtype, type->dtype);
  }
  sizes.insert(sizes.begin() + *at, Dim(static_cast<int64_t>(types->size())));
  return Push(dtype, std::move(sizes), results);
}

bool InferRepeat(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> repeats = call.DimsAt(1);
  if (!type || !repeats || repeats->size() < type->rank()) return false;
  Dims sizes = *repeats;
  const size_t offset = sizes.size() - type->rank();
  for (size_t i = 0; i < type->rank(); ++i) sizes[offset + i] = sizes[offset + i] * type->sizes[i];
  return Push(type->dtype, std::move(sizes), results);
}

/// As gather, but that dims of size 1 of either stand for those of the other.
bool InferTakeAlongDim(const Call& call, Results& results) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(1);
  const auto dim = call.IntAt(2);
  if (!type || !index || !dim || type->rank() != index->rank()) return false;
  const auto at = WrapDim(*dim, type->rank());
  if (!at || *at >= type->rank()) return false;
  Dims of_type = type->sizes;
  of_type[*at] = index->sizes[*at];
  auto sizes = Broadcast(of_type, index->sizes);
  return sizes && Push(type->dtype, std::move(*sizes), results);
}

/// Tensors of two dims and more, one behind the other along a dim of their own.
template <size_t at>
bool Joined(const Call& call, Results& results) {
  const auto types = call.TypesAt(0);
  if (!types) return false;
  DType dtype = types->front()->dtype;
  Dims sizes = types->front()->sizes;
  for (size_t i = 0; i < types->size(); ++i) {
    const Type& type = *(*types)[i];
    if (type.rank() < 2 || type.rank() != sizes.size()) return false;
    dtype = PromoteTypes(dtype, type.dtype);
    for (size_t d = 0; i > 0 && d < type.rank(); ++d) {
      if (d != at && !SameSize(type.sizes[d], sizes[d])) return false;
    }
    if (i > 0) sizes[at] = sizes[at] + type.sizes[at];
  }
  return Push(dtype, std::move(sizes), results);
}
bool InferVStack(const Call& call, Results& results) { return Joined<0>(call, results); }
bool InferHStack(const Call& call, Results& results) { return Joined<1>(call, results); }

/// randint([low,] high, sizes, dtype)
bool InferRandInt(const Call& call, Results& results) {
  const auto sizes = call.DimsAt(1);
  return sizes && Push(call.DTypeAt(2).value_or(DType::kI64), *sizes, results);
}
bool InferRandIntLow(const Call& call, Results& results) {
  const auto sizes = call.DimsAt(2);
  return sizes && Push(call.DTypeAt(3).value_or(DType::kI64), *sizes, results);
}
bool InferRandPerm(const Call& call, Results& results) {
  const auto count = call.DimAt(0);
  return count && Push(call.DTypeAt(1).value_or(DType::kI64), {*count}, results);
}
/// multinomial(weights, count)
bool InferMultinomial(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto count = call.DimAt(1);
  if (!type || !count || type->rank() == 0) return false;
  Dims sizes = type->sizes;
  sizes.back() = *count;
  return Push(DType::kI64, std::move(sizes), results);
}

/// As repeat, with ones in front of too few repeats.
bool InferTile(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> repeats = call.DimsAt(1);
  if (!type || !repeats) return false;
  if (repeats->size() >= type->rank()) return InferRepeat(call, results);
  Dims sizes = type->sizes;
  const size_t offset = sizes.size() - repeats->size();
  for (size_t i = 0; i < repeats->size(); ++i) sizes[offset + i] = sizes[offset + i] * (*repeats)[i];
  return Push(type->dtype, std::move(sizes), results);
}

/// One half of a dim by what the other half makes of it.
bool InferGlu(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto at = type ? WrapDim(call.IntAt(1).value_or(-1), type->rank()) : std::nullopt;
  if (!at || *at >= type->rank()) return false;
  Dims sizes = type->sizes;
  const auto half = FloorQuotient(sizes[*at], Dim(2));
  if (!half || !SameSize(*half * Dim(2), sizes[*at])) return false;
  sizes[*at] = *half;
  return Push(type->dtype, std::move(sizes), results);
}

/// A batch of sequences that are as long as the longest.
bool InferPadSequence(const Call& call, Results& results) {
  const auto types = call.TypesAt(0);
  const auto batch_first = call.IsNone(1) ? std::optional(false) : call.BoolAt(1);
  if (!types || types->front()->rank() == 0 || !batch_first) return false;
  const Type& first = *types->front();
  Dim longest = first.sizes[0];
  for (const Type* type : *types) {
    if (type->dtype != first.dtype || type->rank() != first.rank()) return false;
    for (size_t i = 1; i < first.rank(); ++i) {
      if (!SameSize(type->sizes[i], first.sizes[i])) return false;
    }
    const auto is_shorter = IsAtLeastZero(longest - type->sizes[0]);
    if (!is_shorter) return false;
    if (!*is_shorter) longest = type->sizes[0];
  }
  const Dim count(std::ssize(*types));
  Dims sizes = *batch_first ? Dims{count, longest} : Dims{longest, count};
  sizes.insert(sizes.end(), first.sizes.begin() + 1, first.sizes.end());
  return Push(first.dtype, std::move(sizes), results);
}

bool InferRepeatInterleave(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dim> repeats = call.DimAt(1);
  const std::optional<Dim> total = call.DimAt(3);
  if (!type || !repeats || (!total && !call.IsNone(3))) return false;
  const auto is_told = [&total](const Dim& size) { return !total || SameSize(size, *total); };
  if (call.IsNone(2)) {
    const Dim size = type->Elements() * *repeats;
    return is_told(size) && Push(type->dtype, {size}, results);
  }
  const std::optional<int64_t> dim = call.IntAt(2);
  if (!dim || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  if (!at) return false;
  Dims sizes = type->sizes;
  sizes[*at] = sizes[*at] * *repeats;
  if (!is_told(sizes[*at])) return false;
  return Push(type->dtype, std::move(sizes), results);
}

bool InferDiff(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto times = call.IsNone(1) ? std::optional<int64_t>(1) : call.IntAt(1);
  if (!type || !times || *times < 1 || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(call.IntAt(2).value_or(-1), type->rank());
  if (!at) return false;
  Dims sizes = type->sizes;
  for (const size_t more : {3, 4}) {  // Put before it and behind it.
    const Type* put = call.TypeAt(more);
    if (!put && call.IsNone(more)) continue;
    if (!put || put->rank() != sizes.size() || put->dtype != type->dtype) return false;
    sizes[*at] = sizes[*at] + put->sizes[*at];
  }
  sizes[*at] = sizes[*at] - Dim(*times);
  if (sizes[*at].is_const() && sizes[*at].const_value() < 0) sizes[*at] = Dim(0);
  return Push(type->dtype, std::move(sizes), results);
}

bool InferOneHot(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto classes = call.DimAt(1);
  // Without a number of classes the largest index says it.
  if (!type || !classes || (classes->is_const() && classes->const_value() < 1)) return false;
  Dims sizes = type->sizes;
  sizes.push_back(*classes);
  return Push(DType::kI64, std::move(sizes), results);
}

bool InferLinspace(const Call& call, Results& results) {
  const auto count = call.DimAt(2);
  const auto start = call.ScalarAt(0), end = call.ScalarAt(1);
  return start && end && count && Create(call, 3, {*count}, results);
}

bool InferPad(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> pad = call.DimsAt(1);
  if (!type || !pad || pad->size() % 2 != 0 || pad->size() / 2 > type->rank()) return false;
  Dims sizes = type->sizes;
  for (size_t i = 0; i < pad->size() / 2; ++i) {
    Dim& size = sizes[sizes.size() - 1 - i];
    size = size + (*pad)[2 * i] + (*pad)[2 * i + 1];
  }
  return Push(type->dtype, std::move(sizes), results);
}

bool InferArange(const Call& call, Results& results) {
  const bool only_end = call.node().op == "aten.arange";
  const size_t dtype_at = only_end ? 1 : call.node().op == "aten.arange.start" ? 2 : 3;
  const auto start = only_end ? std::optional(Number{Dim(0)}) : call.ScalarAt(0);
  const auto end = call.ScalarAt(only_end ? 0 : 1);
  const auto step = dtype_at == 3 ? call.ScalarAt(2) : std::optional(Number{Dim(1)});
  if (!start || !end || !step) return false;
  const Dim* first = std::get_if<Dim>(&start->value);
  const Dim* last = std::get_if<Dim>(&end->value);
  const Dim* by = std::get_if<Dim>(&step->value);
  // Float bounds round in ways not worth a rule.
  if (!first || !last || !by || !by->is_const() || by->is_zero()) return false;
  const Dim length = *last - *first;
  Dim count = length;
  if (length.is_const()) {
    const int64_t n = length.const_value(), s = by->const_value();
    if (n == INT64_MIN) return false;
    count = (n > 0) == (s > 0) ? Dim(n / s + (n % s != 0)) : Dim(0);
  } else if (!by->is_one()) {
    return false;
  }
  return Push(call.DTypeAt(dtype_at).value_or(DType::kI64), {count}, results);
}

bool InferFull(const Call& call, Results& results) {
  std::optional<Dims> sizes = call.DimsAt(0);
  return sizes && Fill(call, 1, 2, std::move(*sizes), results);
}

bool InferZeros(const Call& call, Results& results) {
  std::optional<Dims> sizes = call.DimsAt(0);
  return sizes && Create(call, 1, std::move(*sizes), results);
}

bool InferFullLike(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && Push(call.DTypeAt(2).value_or(type->dtype), type->sizes, results);
}

bool InferZerosLike(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && Push(call.DTypeAt(1).value_or(type->dtype), type->sizes, results);
}

bool InferNewFull(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  std::optional<Dims> sizes = call.DimsAt(1);
  return type && sizes && Push(call.DTypeAt(3).value_or(type->dtype), std::move(*sizes), results);
}

bool InferNewZeros(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  std::optional<Dims> sizes = call.DimsAt(1);
  return type && sizes && Push(call.DTypeAt(2).value_or(type->dtype), std::move(*sizes), results);
}

bool InferScalarTensor(const Call& call, Results& results) { return Create(call, 1, {}, results); }

bool InferEye(const Call& call, Results& results) {
  const std::optional<Dim> n = call.DimAt(0);
  return n && Create(call, 1, {*n, *n}, results);
}

}  // namespace ingot::compiler
