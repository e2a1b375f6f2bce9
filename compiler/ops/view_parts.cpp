// SPDX-License-Identifier: Apache-2.0
// Views of a part of their operand, or of one part after the other, along one dim.
#include <algorithm>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

using Maps = std::vector<ViewMap>;
using Sizes = std::span<const Dims>;

/// Bound on the parts of one split, so that no size can make a list of results explode.
constexpr int64_t kPartsMax = 1 << 16;

/// The dim that argument `arg` names, or the first where it names none; nullopt: the operand has no such dim.
std::optional<size_t> AxisAt(const Call& call, size_t arg) {
  const Type* type = call.TypeAt(0);
  const auto dim = call.IsNone(arg) ? std::optional<int64_t>(0) : call.IntAt(arg);
  return !type || type->sizes.empty() || !dim ? std::nullopt : WrapDim(*dim, type->rank());
}

std::optional<int64_t> StepAt(const Call& call, size_t arg) {
  const auto step = call.IsNone(arg) ? std::optional<int64_t>(1) : call.IntAt(arg);
  return step && *step >= 1 ? step : std::nullopt;
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
  Dims sizes = type.sizes;
  const Dim length = end - start;
  if (length.is_const()) {
    const int64_t value = std::max<int64_t>(length.const_value(), 0);
    sizes[dim] = Dim(value / step + (value % step != 0));
  } else {
    const auto taken = FloorQuotient(length + Dim(step - 1), Dim(step));
    if (!taken) return false;
    sizes[dim] = *taken;
  }
  results.push_back({type.dtype, std::move(sizes)});
  return true;
}

bool Parts(const Type& type, size_t dim, const Dims& lengths, Results& results) {
  for (const Dim& length : lengths) {
    results.push_back({type.dtype, type.sizes});
    results.back().sizes[dim] = length;
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

/// Along dim `dim` the operand is seen from `start` on, and as it is along the others.
ViewMap From(const Call& call, size_t dim, Dim start, int64_t step = 1) {
  ViewMap map = ViewMap::Identity(call.TypeAt(0)->rank());
  map.axes[dim] = ViewMap::Axis::Along(dim, std::move(start), step);
  return map;
}

/// One place of dim `dim`, which is gone.
ViewMap One(const Call& call, size_t dim, Dim index) {
  ViewMap map = ViewMap::Identity(call.TypeAt(0)->rank() - 1);
  map.axes.insert(map.axes.begin() + static_cast<ptrdiff_t>(dim), ViewMap::Axis::At(std::move(index)));
  return map;
}

}  // namespace

/// select(x, dim, index)
bool ViewSelect(const Call& call, Sizes, Maps& maps) {
  const auto at = AxisAt(call, 1);
  const auto index = call.DimAt(2);
  if (!at || !index) return false;
  maps.push_back(One(call, *at, *index));
  return true;
}

/// slice(x, dim, start, end, step)
bool InferSlice(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  const auto at = AxisAt(call, 1);
  const auto step = StepAt(call, 4);
  if (!at || !step) return false;
  const Dim& size = type->sizes[*at];
  const std::optional<Dim> start = Bound(call.DimAt(2).value_or(Dim(0)), size);
  const std::optional<Dim> end = Bound(call.DimAt(3).value_or(size), size);
  return start && end && Sliced(*type, *at, *start, *end, *step, results);
}

bool ViewSlice(const Call& call, Sizes, Maps& maps) {
  const auto at = AxisAt(call, 1);
  const auto step = StepAt(call, 4);
  if (!at || !step) return false;
  const Dim start = call.DimAt(2).value_or(Dim(0));
  maps.push_back(From(call, *at, Bound(start, call.TypeAt(0)->sizes[*at]).value_or(start), *step));
  return true;
}

/// narrow(x, dim, start, length)
bool InferNarrow(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dim> length = call.DimAt(3);
  if (!type || !length) return false;
  const auto at = AxisAt(call, 1);
  return at && Parts(*type, *at, {*length}, results);
}

bool ViewNarrow(const Call& call, Sizes, Maps& maps) {
  const auto at = AxisAt(call, 1);
  const auto start = call.DimAt(2);
  if (!at || !start) return false;
  maps.push_back(From(call, *at, *start));
  return true;
}

bool InferSplit(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dim> part = call.DimAt(1);
  if (!type || !part) return false;
  const auto at = AxisAt(call, 2);
  if (!at) return false;
  const std::optional<Dims> lengths = EqualParts(type->sizes[*at], *part);
  return lengths && Parts(*type, *at, *lengths, results);
}

bool InferSplitSizes(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<Dims> lengths = call.DimsAt(1);
  if (!type || !lengths) return false;
  const auto at = AxisAt(call, 2);
  return at && Parts(*type, *at, *lengths, results);
}

bool InferChunk(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> chunks = call.IntAt(1);
  if (!type || !chunks || *chunks < 1) return false;
  const auto at = AxisAt(call, 2);
  // An empty dim makes as many chunks as asked; too rare to be worth a rule.
  if (!at || type->sizes[*at].is_zero()) return false;
  const auto part = FloorQuotient(type->sizes[*at] + Dim(*chunks - 1), Dim(*chunks));
  const std::optional<Dims> lengths = part ? EqualParts(type->sizes[*at], *part) : std::nullopt;
  return lengths && Parts(*type, *at, *lengths, results);
}

bool InferTensorSplit(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const std::optional<int64_t> count = call.IntAt(1);
  if (!type || !count || *count < 1 || *count > kPartsMax) return false;
  const auto at = AxisAt(call, 2);
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
  if (!type || !bounds) return false;
  const auto at = AxisAt(call, 2);
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
  if (!Parts(*type, *at, lengths, results)) return false;
  // Parts may overlap, so it is no view by a rule, but each lies in its operand.
  for (Inferred& result : results) result.strides = type->strides;
  return true;
}

/// Whatever splits dim number argument 2: each part begins where those before it end.
bool ViewSplit(const Call& call, Sizes sizes, Maps& maps) {
  const auto at = AxisAt(call, 2);
  Dim start = 0;
  for (const Dims& part : sizes) {
    if (!at || part.size() != call.TypeAt(0)->rank()) return false;
    maps.push_back(From(call, *at, start));
    start = start + part[*at];
  }
  return true;
}

bool InferUnbind(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type) return false;
  const auto at = AxisAt(call, 1);
  if (!at) return false;
  // As many results as there were.
  const Dim& size = type->sizes[*at];
  const Dim count = size.is_const() ? size : Dim(std::ssize(call.node().results));
  if (!SameSize(size, count) || count.const_value() > kPartsMax) return false;
  Dims sizes = type->sizes;
  sizes.erase(sizes.begin() + *at);
  results.assign(static_cast<size_t>(count.const_value()), {type->dtype, sizes});
  return true;
}

bool ViewUnbind(const Call& call, Sizes sizes, Maps& maps) {
  const auto at = AxisAt(call, 1);
  for (size_t i = 0; at && i < sizes.size(); ++i) maps.push_back(One(call, *at, Dim(static_cast<int64_t>(i))));
  return at.has_value();
}

}  // namespace ingot::compiler
