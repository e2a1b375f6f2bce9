// SPDX-License-Identifier: Apache-2.0
// Inference of operators that walk over images and rows in windows: pooling, unfolding, shuffling of pixels.
#include <algorithm>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

/// "aten.max_pool2d" has two.
size_t SpatialDims(const Call& call) {
  const std::string_view op = call.node().op;
  const size_t at = op.find("d", op.find_first_of("123"));
  return at == op.npos || at == 0 ? 0 : static_cast<size_t>(op[at - 1] - '0');
}

/// An entry for each spatial dim; one stands for all. `otherwise` where none is given.
std::optional<Dims> Spatial(const Call& call, size_t at, size_t count, const Dims& otherwise) {
  const std::optional<Dims> dims = call.DimsAt(at);
  if (!dims || dims->empty()) return otherwise;
  if (dims->size() == 1) return Dims(count, dims->front());
  return dims->size() == count ? dims : std::nullopt;
}

/// How often a window fits; where it may lap over the end, it begins within.
std::optional<Dim> WindowCount(const Dim& size, const Dim& kernel, const Dim& stride, const Dim& padding,
                               const Dim& dilation, bool laps_over) {
  const Dim span = size + Dim(2) * padding - dilation * (kernel - Dim(1)) - Dim(1);
  if (span.is_const() && span.const_value() < 0) return std::nullopt;
  const auto steps = FloorQuotient(laps_over ? span + stride - Dim(1) : span, stride);
  if (!steps) return std::nullopt;
  if (!laps_over) return *steps + Dim(1);
  const auto begin_within = FloorQuotient(size + padding + stride - Dim(1), stride);
  return begin_within ? std::optional(Smaller(*steps + Dim(1), *begin_within)) : std::nullopt;
}

bool Pooled(const Call& call, bool has_dilation, bool has_indices, Results& results) {
  const Type* type = call.TypeAt(0);
  const size_t count = SpatialDims(call);
  if (!type || count == 0 || type->rank() < count + 1 || type->rank() > count + 2) return false;
  const Dims ones(count, Dim(1));
  const auto kernel = Spatial(call, 1, count, {});
  if (!kernel || kernel->empty()) return false;
  const auto stride = Spatial(call, 2, count, *kernel), padding = Spatial(call, 3, count, Dims(count, Dim(0)));
  const auto dilation = has_dilation ? Spatial(call, 4, count, ones) : ones;
  if (!stride || !padding || !dilation) return false;
  const bool laps_over = call.BoolAt(has_dilation ? 5 : 4).value_or(false);
  Dims sizes = type->sizes;
  for (size_t i = 0; i < count; ++i) {
    Dim& size = sizes[sizes.size() - count + i];
    // No window lies in the padding alone.
    if (!IsAtLeastZero((*kernel)[i] - Dim(2) * (*padding)[i]).value_or(false)) return false;
    const auto windows = WindowCount(size, (*kernel)[i], (*stride)[i], (*padding)[i], (*dilation)[i], laps_over);
    if (!windows) return false;
    size = *windows;
  }
  if (has_indices) results.push_back({DType::kI64, sizes});
  results.insert(results.begin(), {type->dtype, std::move(sizes)});
  return true;
}

bool AdaptivelyPooled(const Call& call, bool has_indices, Results& results) {
  const Type* type = call.TypeAt(0);
  const size_t count = SpatialDims(call);
  if (!type || count == 0 || type->rank() < count + 1 || type->rank() > count + 2) return false;
  const auto output = Spatial(call, 1, count, {});
  if (!output || output->empty()) return false;
  Dims sizes = type->sizes;
  std::ranges::copy(*output, sizes.end() - static_cast<ptrdiff_t>(count));
  if (has_indices) results.push_back({DType::kI64, sizes});
  results.insert(results.begin(), {type->dtype, std::move(sizes)});
  return true;
}

/// Windows of two dims of `sizes`, as im2col and col2im walk them; their arguments begin at `at`.
std::optional<Dim> Blocks(const Call& call, size_t at, const Dim& height, const Dim& width) {
  const Dims ones(2, Dim(1));
  const auto kernel = Spatial(call, at, 2, {}), dilation = Spatial(call, at + 1, 2, ones);
  const auto padding = Spatial(call, at + 2, 2, Dims(2, Dim(0))), stride = Spatial(call, at + 3, 2, ones);
  if (!kernel || kernel->empty() || !dilation || !padding || !stride) return std::nullopt;
  Dim blocks = 1;
  for (size_t i = 0; i < 2; ++i) {
    const auto windows =
        WindowCount(i == 0 ? height : width, (*kernel)[i], (*stride)[i], (*padding)[i], (*dilation)[i], false);
    if (!windows || !IsAtLeastZero(*windows - Dim(1)).value_or(false)) return std::nullopt;
    blocks = blocks * *windows;
  }
  return blocks;
}

/// a / b where nothing is left over.
std::optional<Dim> Exactly(const Dim& a, const Dim& b) {
  const auto quotient = FloorQuotient(a, b);
  return quotient && SameSize(a, *quotient * b) ? quotient : std::nullopt;
}

}  // namespace

bool InferMaxPool(const Call& call, Results& results) { return Pooled(call, true, false, results); }
bool InferMaxPoolIndices(const Call& call, Results& results) { return Pooled(call, true, true, results); }
bool InferAvgPool(const Call& call, Results& results) { return Pooled(call, false, false, results); }
bool InferAdaptivePool(const Call& call, Results& results) { return AdaptivelyPooled(call, false, results); }
bool InferAdaptiveMaxPool(const Call& call, Results& results) { return AdaptivelyPooled(call, true, results); }

bool InferUnfold(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto dim = call.IntAt(1);
  const auto length = call.DimAt(2), step = call.DimAt(3);
  if (!type || !dim || !length || !step || type->sizes.empty()) return false;
  const std::optional<size_t> at = WrapDim(*dim, type->rank());
  const auto windows = at ? WindowCount(type->sizes[*at], *length, *step, 0, 1, false) : std::nullopt;
  if (!windows) return false;
  Dims sizes = type->sizes;
  sizes[*at] = *windows;
  sizes.push_back(*length);
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

/// The place in a window is a dim of its own, behind all others.
bool ViewUnfold(const Call& call, std::span<const Dims>, std::vector<ViewMap>& maps) {
  const size_t rank = call.TypeAt(0)->rank();
  const auto dim = call.IntAt(1);
  const auto step = call.DimAt(3);
  const auto at = dim ? WrapDim(*dim, rank) : std::nullopt;
  if (!at || !step) return false;
  maps.push_back(ViewMap::Identity(rank));
  // One element is one window.
  if (rank == 0) return true;
  maps.back().axes[*at].along = {{*at, *step}, {rank, Dim(1)}};
  return true;
}

bool InferIm2Col(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto kernel = Spatial(call, 1, 2, {});
  if (!type || type->rank() < 3 || type->rank() > 4 || !kernel || kernel->empty()) return false;
  const size_t channels = type->rank() - 3;
  const auto blocks = Blocks(call, 1, type->sizes[channels + 1], type->sizes[channels + 2]);
  if (!blocks) return false;
  Dims sizes(type->sizes.begin(), type->sizes.begin() + static_cast<ptrdiff_t>(channels));
  sizes.push_back(type->sizes[channels] * guards::Product(*kernel));
  sizes.push_back(*blocks);
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferCol2Im(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto output = Spatial(call, 1, 2, {}), kernel = Spatial(call, 2, 2, {});
  if (!type || type->rank() < 2 || type->rank() > 3 || !output || output->empty() || !kernel || kernel->empty())
    return false;
  const auto blocks = Blocks(call, 2, output->front(), output->back());
  const auto channels = Exactly(type->sizes[type->rank() - 2], guards::Product(*kernel));
  if (!blocks || !channels || !SameSize(*blocks, type->sizes.back())) return false;
  Dims sizes(type->sizes.begin(), type->sizes.end() - 2);
  sizes.insert(sizes.end(), {*channels, output->front(), output->back()});
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferPixelShuffle(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto factor = call.DimAt(1);
  if (!type || !factor || type->rank() < 3) return false;
  Dims sizes = type->sizes;
  const size_t at = type->rank() - 3;
  const auto channels = Exactly(sizes[at], *factor * *factor);
  if (!channels) return false;
  sizes[at] = *channels;
  for (const size_t i : {at + 1, at + 2}) sizes[i] = sizes[i] * *factor;
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferPixelUnshuffle(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto factor = call.DimAt(1);
  if (!type || !factor || type->rank() < 3) return false;
  Dims sizes = type->sizes;
  const size_t at = type->rank() - 3;
  sizes[at] = sizes[at] * *factor * *factor;
  for (const size_t i : {at + 1, at + 2}) {
    const auto size = Exactly(sizes[i], *factor);
    if (!size) return false;
    sizes[i] = *size;
  }
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool InferAffineGrid(const Call& call, Results& results) {
  const Type* theta = call.TypeAt(0);
  const auto output = call.DimsAt(1);
  if (!theta || theta->rank() != 3 || !output || output->size() < 4 || output->size() > 5) return false;
  if (!SameSize(theta->sizes[0], output->front())) return false;
  Dims sizes = *output;
  sizes.erase(sizes.begin() + 1);
  sizes.push_back(Dim(std::ssize(*output) - 2));
  results.push_back({theta->dtype, std::move(sizes)});
  return true;
}

bool InferGridSampler(const Call& call, Results& results) {
  const Type *type = call.TypeAt(0), *grid = call.TypeAt(1);
  if (!type || !grid || type->rank() < 4 || type->rank() > 5 || grid->rank() != type->rank()) return false;
  if (!SameSize(type->sizes[0], grid->sizes[0]) || !SameSize(grid->sizes.back(), Dim(std::ssize(type->sizes) - 2)))
    return false;
  Dims sizes(type->sizes.begin(), type->sizes.begin() + 2);
  sizes.insert(sizes.end(), grid->sizes.begin() + 1, grid->sizes.end() - 1);
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

}  // namespace ingot::compiler
