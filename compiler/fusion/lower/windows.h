// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/fusion/lower/lower.h"

namespace ingot::compiler::fusion {

/// How an operator walks the last dims of a batch of images: steps, pads on both sides and distances of taps, one for
/// each dim. Sizes of windows and these are constants.
struct Walk {
  std::vector<int64_t> window, stride, padding, dilation;

  size_t dims() const { return window.size(); }
  /// Taps of one window.
  int64_t Taps() const;
};

/// Integers at argument `at`, one for each of `count` dims; one stands for all, none for `otherwise`.
std::optional<std::vector<int64_t>> IntsOfDims(const Call& call, size_t at, size_t count,
                                               const std::vector<int64_t>& otherwise);

/// `x`, a batch of images, with `fill` around the last dims, as far as windows of a result with the sizes `results`
/// reach.
ExprId Padded(ExprPool& pool, ExprId x, ExprId fill, const Walk& walk, const Dims& results);

/// Where tap `tap` of a window lies in the padded images: coordinates of the dim number `dim` of those walked.
Affine TapAt(const Walk& walk, size_t dim, size_t result_dim, int64_t tap);

/// Calls `take` with what each tap of the windows of `padded` reads, as values of `sizes`, in order.
void ForEachTap(ExprPool& pool, ExprId padded, const Walk& walk, const Dims& sizes,
                const std::function<void(const std::vector<int64_t>& taps, ExprId value)>& take);

}  // namespace ingot::compiler::fusion
