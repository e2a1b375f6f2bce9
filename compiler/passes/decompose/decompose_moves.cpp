// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/infer.h"
#include "compiler/passes/decompose/decompose_rules.h"

namespace ingot::compiler {
namespace {

/// The dims in front of the last three, then `behind`.
Dims WithBatch(const Type& type, Dims behind) {
  Dims sizes(type.sizes.begin(), type.sizes.end() - 3);
  sizes.insert(sizes.end(), behind.begin(), behind.end());
  return sizes;
}

/// The dims in front as they are, those behind in the order given.
std::vector<size_t> WithBatch(const Type& type, const std::vector<size_t>& behind) {
  const size_t batch = type.rank() - 3;
  std::vector<size_t> dims;
  for (size_t i = 0; i < batch; ++i) dims.push_back(i);
  for (const size_t dim : behind) dims.push_back(batch + dim);
  return dims;
}

}  // namespace

/// roll(x, shifts, dims): along each dim the end comes to the front.
Parts RollInParts(Composite& c) {
  const auto shifts = c.call().IntsAt(1), dims = c.call().IntsAt(2);
  if (!shifts || !dims || dims->empty() || shifts->size() != dims->size())
    return Whole("elements roll from row to row");
  TRY_ASSIGN(Ref x, c.Tensor(0));
  for (size_t i = 0; i < dims->size(); ++i) {
    const auto dim = WrapDim((*dims)[i], c.type(x).rank());
    if (!dim) return Whole("there is no such dim");
    const Dim size = c.type(x).sizes[*dim];
    // Of a size that is not known, how far it rolls is not either.
    if (!size.is_const() || size.const_value() < 1) return Whole("how far it rolls depends on a size");
    const int64_t extent = size.const_value();
    const int64_t front = ((-(*shifts)[i] % extent) + extent) % extent;  // What comes to the front.
    if (front == 0) continue;
    TRY_ASSIGN(const Ref behind, c.Slice(x, *dim, Dim(0), Dim(front)));
    TRY_ASSIGN(const Ref before, c.Slice(x, *dim, Dim(front), size));
    TRY_ASSIGN(x, c.Op("aten.cat", {RefList{{before.id, behind.id}}, Dim(static_cast<int64_t>(*dim))}));
  }
  return std::vector<Ref>{x};
}

/// pixel_shuffle(x, r): [..., C * r * r, H, W] to [..., C, H * r, W * r].
Parts PixelShuffleInParts(Composite& c) {
  const auto r = c.call().IntAt(1);
  TRY_ASSIGN(const Ref x, c.Tensor(0));
  const Type from = c.type(x);
  if (!r || *r < 1 || from.rank() < 3) return Whole("not of images");
  const Dims last(from.sizes.end() - 3, from.sizes.end());
  const auto channels = last[0].DivideExactly(Dim(*r * *r));
  if (!channels) return Whole("channels do not go into squares");
  TRY_ASSIGN(const Ref apart, c.Reshape(x, WithBatch(from, {*channels, Dim(*r), Dim(*r), last[1], last[2]})));
  TRY_ASSIGN(const Ref turned, c.Permute(apart, WithBatch(from, std::vector<size_t>{0, 3, 1, 4, 2})));
  TRY_ASSIGN(const Ref y, c.Reshape(turned, c.result().sizes));
  return std::vector<Ref>{y};
}

/// pixel_unshuffle(x, r): the reverse.
Parts PixelUnshuffleInParts(Composite& c) {
  const auto r = c.call().IntAt(1);
  TRY_ASSIGN(const Ref x, c.Tensor(0));
  const Type from = c.type(x);
  if (!r || *r < 1 || from.rank() < 3) return Whole("not of images");
  const Dims last(from.sizes.end() - 3, from.sizes.end());
  const auto height = last[1].DivideExactly(Dim(*r)), width = last[2].DivideExactly(Dim(*r));
  if (!height || !width) return Whole("images do not go into squares");
  TRY_ASSIGN(const Ref apart, c.Reshape(x, WithBatch(from, {last[0], *height, Dim(*r), *width, Dim(*r)})));
  TRY_ASSIGN(const Ref turned, c.Permute(apart, WithBatch(from, std::vector<size_t>{0, 2, 4, 1, 3})));
  TRY_ASSIGN(const Ref y, c.Reshape(turned, c.result().sizes));
  return std::vector<Ref>{y};
}

}  // namespace ingot::compiler
